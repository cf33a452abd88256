"""Secrets are taken out of a transcript before anything is evaluated, stored or printed."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from seatrial.vocabulary.conversation import ErrorInfo, PlayedTurn, ToolCall, Transcript

REDACTED = "[redacted]"
SHORTEST_SECRET = 8


class Redaction:
    """Replaces known secret values in texts and in whatever holds texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def value(self, value: Any) -> Any:
        """The value with every text in it redacted; the very same object where nothing was found."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self._pattern.sub(REDACTED, value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.value(item) for item in value) if type(value) in (list, tuple) else value
        return value

    def transcript(self, transcript: Transcript) -> Transcript:
        if self._pattern is None:
            return transcript
        return replace(
            transcript,
            turns=tuple(self._turn(turn) for turn in transcript.turns),
            history=tuple(self.value(message) for message in transcript.history),
            state=self.value(transcript.state),
            error=self._error(transcript.error),
        )

    def _turn(self, turn: PlayedTurn) -> PlayedTurn:
        return replace(
            turn,
            user=self.text(turn.user),
            reply=None if turn.reply is None else self.text(turn.reply),
            tool_calls=None if turn.tool_calls is None else tuple(self._call(call) for call in turn.tool_calls),
            error=self._error(turn.error),
        )

    def _call(self, call: ToolCall) -> ToolCall:
        return replace(
            call,
            name=self.text(call.name),
            arguments=self.value(call.arguments),
            result=self.value(call.result),
            error=None if call.error is None else self.text(call.error),
        )

    def _error(self, error: ErrorInfo | None) -> ErrorInfo | None:
        if error is None:
            return None
        return replace(
            error,
            message=self.text(error.message),
            hint=None if error.hint is None else self.text(error.hint),
            traceback=None if error.traceback is None else self.text(error.traceback),
        )
