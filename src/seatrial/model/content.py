"""What messages have besides text: attached images and files, and the texts that an agent retrieved."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Self

from .struct import Struct

MAX_BYTES = 20_000_000
"""The largest attachment. Providers take less: mostly 5 MB for an image, 32 MB for a request."""
_MEDIA_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "json": "application/json",
    "xml": "application/xml",
    "csv": "text/csv",
    "html": "text/html",
    "md": "text/markdown",
    "txt": "text/plain",
    "log": "text/plain",
    "yaml": "text/plain",
    "yml": "text/plain",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
}
_TEXTS = ("application/json", "application/xml")
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Images that models and browsers read, and that run no code."""


class Attachment(Struct, frozen=True, kw_only=True):
    """An image or a file of a message."""

    media_type: str
    """Such as image/png."""
    data: str
    """The content in base64."""
    name: str | None = None
    """The name of the file."""

    @classmethod
    def of(cls, content: bytes, *, name: str | None = None, media_type: str | None = None) -> Self:
        """The attachment with this content; its type follows from its name. ValueError if it is empty or too large."""
        if not content:
            raise ValueError("it is empty")
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has {len(content):,} bytes; an attachment has at most {MAX_BYTES // 1_000_000} MB")
        ending = (name or "").rpartition(".")[2].lower()
        found = media_type or _MEDIA_TYPES.get(ending, "application/octet-stream")
        return cls(media_type=found, data=b64encode(content).decode("ascii"), name=name)

    @property
    def is_image(self) -> bool:
        return self.media_type in PICTURES

    @property
    def content(self) -> bytes:
        return b64decode(self.data)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")

    @property
    def hash(self) -> str:
        return sha256(self.data.encode("ascii")).hexdigest()

    @property
    def url(self) -> str:
        """The content as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.data}"

    @property
    def text(self) -> str | None:
        """The text of a text file; None for any other file."""
        if not self.media_type.startswith("text/") and self.media_type not in _TEXTS:
            return None
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    @property
    def label(self) -> str:
        """`receipt.png (image/png, 1,234 bytes)`."""
        kind = f"{self.media_type}, {self.size:,} bytes"
        return f"{self.name} ({kind})" if self.name else kind


def chat_content(text: str, attachments: Sequence[Attachment]) -> Any:
    """The content of a message in the form of chat completions: the text, or a list of parts."""
    if not attachments:
        return text
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for each in attachments:
        if each.is_image:
            parts.append({"type": "image_url", "image_url": {"url": each.url}})
        else:
            parts.append({"type": "file", "file": {"filename": each.name or "file", "file_data": each.url}})
    return parts


class RetrievedText(Struct, frozen=True, kw_only=True):
    """A text that the agent found for its reply, such as a passage of a document."""

    text: str
    source: str | None = None
    """Where it is from: a name, an id or an address."""
