"""Secrets are taken out of a transcript before anything is evaluated, stored or printed."""

import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from operator import is_
from typing import Any

from seatrial.vocabulary.conversation import REDACTED, ErrorInfo, PlayedTurn, ToolCall, Transcript
from seatrial.vocabulary.copies import DEEPEST

SHORTEST_SECRET = 8
_ALIKE_EVERYWHERE = re.compile(r"[A-Za-z0-9_.~-]*")
"""What nobody has to escape."""


class Redaction:
    """Replaces known secret values in texts and in whatever holds texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST_SECRET for form in _forms(secret)}
        known = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        if self._pattern is None or self._pattern.search(text) is None:
            return text
        return self._pattern.sub(REDACTED, text)

    def value(self, value: Any, *, depth: int = DEEPEST) -> Any:
        """The value with every text in it redacted; the very same object where nothing was found."""
        if self._pattern is None or value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self.text(value)
        if depth == 0:
            return self._shown(value)
        if type(value) is dict:
            return self._mapping(value, depth - 1)
        if type(value) in (list, tuple):
            found = [self.value(item, depth=depth - 1) for item in value]
            return value if _same(found, value) else type(value)(found)
        return self._shown(value)

    def _mapping(self, mapping: dict[Any, Any], depth: int) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        for name, item in mapping.items():
            key = shown = self.value(name, depth=depth)
            # Two secrets may stand as keys side by side; neither entry may be lost.
            while shown is not name and key in items:
                key = f"{key}'"
            items[key] = self.value(item, depth=depth)
        return mapping if _same(items, mapping) and _same(items.values(), mapping.values()) else items

    def _shown(self, value: Any) -> Any:
        """An object of a foreign type: nobody but itself can take the secret out, so its text stands in for it."""
        try:
            shown = repr(value)
        except Exception:
            return f"<{type(value).__name__} that cannot be shown>"
        redacted = self.text(shown)
        return value if redacted is shown else redacted

    def transcript(self, transcript: Transcript) -> Transcript:
        """The transcript without secrets; the very same where it holds none."""
        if self._pattern is None:
            return transcript
        turns = tuple(self._turn(turn) for turn in transcript.turns)
        history = self.value(transcript.history) if transcript.history else transcript.history
        state = self.value(transcript.state)
        recorded = self.value(transcript.recorded)
        error = self.error(transcript.error)
        if (
            history is transcript.history
            and state is transcript.state
            and recorded is transcript.recorded
            and error is transcript.error
            and _same(turns, transcript.turns)
        ):
            return transcript
        return replace(transcript, turns=turns, history=history, state=state, recorded=recorded, error=error)

    def _turn(self, turn: PlayedTurn) -> PlayedTurn:
        user = self.text(turn.user)
        reply = None if turn.reply is None else self.text(turn.reply)
        calls = None if turn.tool_calls is None else tuple(self._call(call) for call in turn.tool_calls)
        error = self.error(turn.error)
        if user is turn.user and reply is turn.reply and error is turn.error and _same(calls, turn.tool_calls):
            return turn
        return replace(turn, user=user, reply=reply, tool_calls=calls, error=error)

    def _call(self, call: ToolCall) -> ToolCall:
        before = (call.name, call.arguments, call.result, call.error, call.id)
        after = tuple(self.value(part) for part in before)
        if _same(before, after):
            return call
        name, arguments, result, error, identity = after
        return replace(call, name=name, arguments=arguments, result=result, error=error, id=identity)

    def error(self, error: ErrorInfo | None) -> ErrorInfo | None:
        if error is None:
            return None
        return replace(
            error,
            message=self.text(error.message),
            hint=None if error.hint is None else self.text(error.hint),
            traceback=None if error.traceback is None else self.text(error.traceback),
        )


def _forms(secret: str) -> Iterator[str]:
    """The secret as it is, and as it stands in texts of JSON and Python and in addresses."""
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


def _same(one: Collection[Any] | None, other: Collection[Any] | None) -> bool:
    """Whether both hold the very same objects, in the same order."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(is_, one, other))
