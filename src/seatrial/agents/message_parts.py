"""Attachments in messages: from the parts of chat completions to the form of each API, and back."""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.model.content import MAX_BYTES, Attachment, RetrievedText
from seatrial.model.json_values import plain_value
from seatrial.model.results import AgentFailure

_CONVERSE_FORMATS = {"text/plain": "txt", "text/markdown": "md", "text/csv": "csv", "text/html": "html"}


def attachment_in(part: Any) -> Attachment | None:
    """The attachment in a part of chat completions; None for any other part, also for an image by its address."""
    if not isinstance(part, Mapping):
        return None
    if part.get("type") == "image_url":
        image = part.get("image_url")
        return _from_url(image.get("url") if isinstance(image, Mapping) else image, name=None)
    if part.get("type") == "file":
        file = part.get("file")
        held = file if isinstance(file, Mapping) else {}
        name = held.get("filename")
        return _from_url(held.get("file_data"), name=name if isinstance(name, str) else None)
    return None


def attachments_in(content: Any) -> tuple[Attachment, ...]:
    """The attachments in a message's content."""
    parts = content if isinstance(content, list) else ()
    return tuple(found for part in parts if (found := attachment_in(part)) is not None)


def latest_attachments(messages: Sequence[Mapping[str, Any]]) -> tuple[Attachment, ...]:
    """The attachments of the last user message."""
    content = next((message.get("content") for message in reversed(messages) if message.get("role") == "user"), None)
    return attachments_in(content)


def _from_url(url: Any, *, name: str | None) -> Attachment | None:
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    head, _, data = url.removeprefix("data:").partition(",")
    media_type, _, encoding = head.partition(";")
    if encoding != "base64" or not _is_base64(data):
        return None
    return Attachment(media_type=media_type or "application/octet-stream", data=data, name=name)


def _is_base64(data: Any) -> bool:
    try:
        return bool(b64decode(data, validate=True))
    except (TypeError, ValueError):
        return False


def image_address(part: Any) -> str | None:
    """The address of an image that is given by its address."""
    image = part.get("image_url") if isinstance(part, Mapping) and part.get("type") == "image_url" else None
    url = image.get("url") if isinstance(image, Mapping) else image
    return url if isinstance(url, str) and not url.startswith("data:") else None


def anthropic_blocks(content: Sequence[Any]) -> Iterator[Any]:
    """The parts as blocks of the Messages API. Its own blocks stay as they are."""
    for part in content:
        found, address = attachment_in(part), image_address(part)
        if address is not None:
            yield {"type": "image", "source": {"type": "url", "url": address}}
        elif found is None:
            yield part
        elif found.is_image:
            source = {"type": "base64", "media_type": found.media_type, "data": found.data}
            yield {"type": "image", "source": source}
        else:
            yield {"type": "document", "source": _document(found), **({"title": found.name} if found.name else {})}


def _document(file: Attachment) -> dict[str, Any]:
    """Text files go as text: the API takes only PDF in base64."""
    if file.text is not None:
        return {"type": "text", "media_type": "text/plain", "data": file.text}
    return {"type": "base64", "media_type": file.media_type, "data": file.data}


def responses_parts(content: Sequence[Any]) -> Iterator[Any]:
    """The parts of a user's message as parts of the Responses API."""
    for part in content:
        found, address = attachment_in(part), image_address(part)
        if address is not None:
            yield {"type": "input_image", "image_url": address, "detail": "auto"}
        elif found is not None and found.is_image:
            yield {"type": "input_image", "image_url": found.url, "detail": "auto"}
        elif found is not None:
            yield {"type": "input_file", "filename": found.name or "file", "file_data": found.url}
        elif isinstance(part, Mapping) and part.get("type") == "text":
            yield {"type": "input_text", "text": part.get("text", "")}
        else:
            yield part


def converse_blocks_of(content: Sequence[Any]) -> Iterator[Any]:
    """The parts as blocks of the Converse API. Its own blocks stay as they are."""
    for number, part in enumerate(content, start=1):
        found = attachment_in(part)
        if found is None:
            is_text = isinstance(part, Mapping) and part.get("type") == "text"
            yield {"text": part["text"]} if is_text else part
            continue
        ending = _CONVERSE_FORMATS.get(found.media_type, found.media_type.rpartition("/")[2])
        source = {"bytes": found.data}
        if found.is_image:
            yield {"image": {"format": ending, "source": source}}
        else:
            # The API takes no dots in names, and each name once.
            yield {"document": {"format": ending, "name": f"file {number}", "source": source}}


def a2a_parts(content: Any, *, old: bool) -> Iterator[dict[str, Any]]:
    """The content as parts of the Agent2Agent protocol; `old` is version 0.3."""
    for part in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        found = attachment_in(part)
        if found is None:
            text = str(part.get("text", "")) if isinstance(part, Mapping) else str(part)
            yield {"kind": "text", "text": text} if old else {"text": text}
        elif old:
            file = {"name": found.name or "file", "mimeType": found.media_type, "bytes": found.data}
            yield {"kind": "file", "file": file}
        else:
            yield {"raw": found.data, "mediaType": found.media_type, "filename": found.name or "file"}


def read_attachments(given: Any) -> tuple[Attachment, ...]:
    """Attachments that an agent returns: Attachments, paths of files, or parts of chat completions."""
    if given is None:
        return ()
    if isinstance(given, str | bytes | Mapping | Path) or not isinstance(given, Sequence):
        raise AgentFailure(f"attachments must be a list, got {type(given).__name__}", final=True)
    return tuple(_read_attachment(each) for each in given)


def _read_attachment(each: Any) -> Attachment:
    if isinstance(each, Attachment):
        return _checked(each)
    found = attachment_in(each)
    if found is not None:
        return found
    if isinstance(each, str | Path):
        path = Path(each)
        try:
            return Attachment.of(path.read_bytes(), name=path.name)
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise AgentFailure(
                f"the agent attached {str(path)!r}, which cannot be read: {reason}", final=True
            ) from None
    shown = type(each).__name__
    raise AgentFailure(f"an attachment must be a seatrial.Attachment or the path of a file, got {shown}", final=True)


def _checked(given: Attachment) -> Attachment:
    """The attachment, if its fields are what they should be: an agent may write anything."""
    if not isinstance(given.media_type, str) or not isinstance(given.name, str | None) or not _is_base64(given.data):
        raise AgentFailure(
            "an attachment has a media_type, and data in base64; make it with Attachment.of(content, name=...)",
            final=True,
        )
    if given.size > MAX_BYTES:
        limit = MAX_BYTES // 1_000_000
        raise AgentFailure(f"the agent attached {given.size:,} bytes; an attachment has at most {limit} MB", final=True)
    return given


_TEXT_KEYS = ("text", "page_content", "content")
_SOURCE_KEYS = ("source", "id", "url", "title")


def read_contexts(given: Any) -> tuple[RetrievedText, ...] | None:
    """Texts that an agent retrieved: texts, mappings with a text, or documents of LangChain and LlamaIndex."""
    if given is None:
        return None
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Sequence):
        raise AgentFailure(f"contexts must be a list of texts, got {type(given).__name__}", final=True)
    return tuple(_read_context(each) for each in given)


def _read_context(each: Any) -> RetrievedText:
    if isinstance(each, RetrievedText):
        return each
    if isinstance(each, str):
        return RetrievedText(text=plain_value(each))
    found = next((text for key in _TEXT_KEYS if isinstance(text := _field(each, key), str)), None)
    if found is None:
        shown = type(each).__name__
        raise AgentFailure(f"a context must be a text, or have a text under 'text', got {shown}", final=True)
    source = next((value for key in _SOURCE_KEYS if (value := _field(each, key) or _meta(each, key))), None)
    return RetrievedText(text=plain_value(found), source=None if source is None else str(plain_value(source)))


def _field(each: Any, key: str) -> Any:
    return each.get(key) if isinstance(each, Mapping) else getattr(each, key, None)


def _meta(each: Any, key: str) -> Any:
    metadata = _field(each, "metadata")
    return metadata.get(key) if isinstance(metadata, Mapping) else None
