"""Replace secrets in transcripts before they are evaluated, stored or printed."""

import json
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator
from operator import is_
from typing import Any, NamedTuple

from msgspec.structs import replace

from seatrial.model.content import Attachment
from seatrial.model.conversation import REDACTED, Change, ErrorInfo, PlayedTurn, ToolCall, Transcript

SHORTEST_SECRET = 8
_LONG_SECRET = 16
"""Shorter secrets are replaced only as whole words: within a longer word they are likely a coincidence."""
_ALIKE_EVERYWHERE = re.compile(r"[A-Za-z0-9_.~-]*")
"""Secrets of these characters have no escaped forms."""
_WORD_BEGINS = r"(?:(?<!\w)|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
"""The start of a word; in JSON and URLs also after an escape."""


class Secret(NamedTuple):
    """A value that must be in no file, report or log."""

    name: str
    """The variable or setting that holds it."""
    value: str


class Redaction:
    """Replaces secret values in texts and JSON values. Tool names and argument keys stay unchanged."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._names: dict[str, set[str]] = {}
        self._patterns: dict[str, str] = {}
        for name, secret in secrets:
            for form, pattern in _forms(secret) if len(secret) >= SHORTEST_SECRET else ():
                self._names.setdefault(form, set()).add(name)
                self._patterns.setdefault(form, pattern)
        self._forms = sorted(self._names, key=len, reverse=True)

    def text(self, text: str, found: set[str] | None = None) -> str:
        """The text without secrets; the same object if it has none. Adds their names to `found`."""
        present = [form for form in self._forms if form in text]
        if not present:
            return text

        def replaced(match: re.Match[str]) -> str:
            if found is not None:
                found.update(self._names[match[0]])
            return REDACTED

        shown = re.sub("|".join(self._patterns[form] for form in present), replaced, text)
        return text if shown == text else shown

    def value(self, value: Any, found: set[str] | None = None, *, keys: bool = True) -> Any:
        """The value with every text redacted; the same object if it has no secret. `keys`: redact mapping keys too."""
        if isinstance(value, str):
            return self.text(value, found)
        if isinstance(value, dict):
            return self._mapping(value, found, keys)
        if isinstance(value, list | tuple):
            shown = [self.value(item, found, keys=keys) for item in value]
            return value if _same(shown, value) else type(value)(shown)
        return value

    def _mapping(self, mapping: dict[Any, Any], found: set[str] | None, keys: bool) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        for name, item in mapping.items():
            key = shown = self.value(name, found) if keys else name
            # Two secrets may be keys of one mapping; no entry may be lost.
            while shown is not name and key in items:
                key = f"{key}'"
            items[key] = self.value(item, found, keys=keys)
        return mapping if _same(items, mapping) and _same(items.values(), mapping.values()) else items

    def transcript(self, transcript: Transcript) -> Transcript:
        """The transcript without secrets and with their names; the same object if it has none."""
        if not self._forms:
            return transcript
        found: set[str] = set()
        turns = tuple(self._turn(turn, found) for turn in transcript.turns)
        history = self.value(transcript.history, found) if transcript.history else transcript.history
        state = self.value(transcript.state, found)
        recorded = self.value(transcript.recorded, found)
        world = transcript.world and replace(transcript.world, changes=self._changes(transcript.world.changes, found))
        error = transcript.error and self.error(transcript.error, found)
        if not found:
            return transcript
        names = tuple(sorted(found.union(transcript.redacted)))
        return replace(
            transcript,
            turns=turns,
            history=history,
            state=state,
            world=world,
            recorded=recorded,
            error=error,
            redacted=names,
        )

    def _turn(self, turn: PlayedTurn, found: set[str]) -> PlayedTurn:
        user = self.text(turn.user, found)
        reply = None if turn.reply is None else self.text(turn.reply, found)
        calls = None if turn.tool_calls is None else tuple(self._call(call, found) for call in turn.tool_calls)
        error = turn.error and self.error(turn.error, found)
        turn = replace(turn, user=user, reply=reply, tool_calls=calls, error=error)
        return self._content(turn, found) if turn.attachments or turn.reply_attachments or turn.contexts else turn

    def _content(self, turn: PlayedTurn, found: set[str]) -> PlayedTurn:
        """The turn with redacted text files and retrieved texts. Secrets in images and other files stay."""
        contexts = turn.contexts and tuple(
            replace(each, text=self.text(each.text, found), source=self.value(each.source, found))
            for each in turn.contexts
        )
        return replace(
            turn,
            contexts=contexts,
            attachments=tuple(self.attachment(each, found) for each in turn.attachments),
            reply_attachments=tuple(self.attachment(each, found) for each in turn.reply_attachments),
        )

    def attachment(self, each: Attachment, found: set[str] | None = None) -> Attachment:
        """The attachment; a text file without its secrets."""
        text = each.text
        if text is None or (redacted := self.text(text, found)) == text:
            return each
        return Attachment.of(redacted.encode(), name=each.name, media_type=each.media_type)

    def _call(self, call: ToolCall, found: set[str]) -> ToolCall:
        result, error, identity = (self.value(part, found) for part in (call.result, call.error, call.id))
        arguments = self.value(call.arguments, found, keys=False)
        changes = self._changes(call.changes, found)
        return replace(call, arguments=arguments, result=result, error=error, id=identity, changes=changes)

    def _changes(self, changes: Iterable[Change], found: set[str]) -> tuple[Change, ...]:
        return tuple(
            replace(change, value=self.value(change.value, found), was=self.value(change.was, found))
            for change in changes
        )

    def error(self, error: ErrorInfo, found: set[str] | None = None) -> ErrorInfo:
        return replace(
            error,
            message=self.text(error.message, found),
            hint=None if error.hint is None else self.text(error.hint, found),
            traceback=None if error.traceback is None else self.text(error.traceback, found),
        )


def _forms(secret: str) -> Iterator[tuple[str, str]]:
    """Each form of the secret, with the pattern that finds it."""
    for form in _base64_forms(secret):
        yield form, re.escape(form)
    for form in _escaped_forms(secret):
        yield form, re.escape(form) if len(secret) >= _LONG_SECRET else _whole_word(form)


def _whole_word(form: str) -> str:
    begins = _WORD_BEGINS if re.match(r"\w", form) else ""
    ends = r"(?!\w)" if re.search(r"\w\Z", form) else ""
    return f"{begins}{re.escape(form)}{ends}"


def _escaped_forms(secret: str) -> Iterator[str]:
    """The secret itself, and as written in JSON, Python and URLs."""
    yield secret
    if _ALIKE_EVERYWHERE.fullmatch(secret):
        return
    from urllib.parse import quote

    for in_json in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield in_json
        yield in_json.replace("/", "\\/")  # as PHP writes it
    yield repr(secret)[1:-1]
    for safe in ("", "/"):
        quoted = quote(secret, safe=safe, errors="replace")
        yield quoted
        yield quoted.replace("%20", "+")
        yield re.sub("%..", lambda found: found[0].lower(), quoted)


def _base64_forms(secret: str) -> Iterator[str]:
    """The secret in base64, alone and between other bytes, as in `Basic` headers (user:password)."""
    data = secret.encode("utf-8", "surrogatepass")
    alone = b64encode(data).decode("ascii")
    forms = [alone, alone.rstrip("=")]
    for before in range(3):
        # Characters at the edges also encode bits of the neighbouring bytes.
        first, after = (0, 2, 3)[before], (before + len(data)) * 8 // 6
        forms.append(b64encode(bytes(before) + data).decode("ascii")[first:after])
    for form in forms:
        yield form
        yield form.replace("+", "-").replace("/", "_")


def _same(one: Collection[Any], other: Collection[Any]) -> bool:
    """Whether both contain the same objects in the same order."""
    return len(one) == len(other) and all(map(is_, one, other))
