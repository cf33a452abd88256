"""Steps of a conversation on a span: messages, tool calls and tool results, in any format of messages."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from seatrial.model.conversation import Usage
from seatrial.model.struct import Struct

from . import anthropic, langchain, openai_chat, openai_responses
from .parsing import Omissions
from .transcript_builder import TranscriptBuilder


class Step(Struct, frozen=True, kw_only=True):
    """One message, tool call or tool result on a span."""

    kind: Literal["system", "user", "reply", "call", "result"]
    text: str = ""
    call_id: str | None = None
    name: str | None = None
    value: Any = None
    """The arguments of a call, or the value of a result."""
    error: str | None = None
    """The error of a result."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Equal for the same step on another span."""
        return self.kind, self.call_id or "", self.text or self.error or canonical(self.value)


def canonical(value: Any) -> str:
    """Equal texts for equal values."""
    return json.dumps(value, sort_keys=True, default=str)


def steps_of(messages: Sequence[Any], omissions: Omissions) -> list[Step]:
    """The steps of messages, each in one of the formats of messages."""
    collector = _StepCollector(omissions)
    for message in messages:
        if isinstance(message, Mapping):
            _adder(message)(message, collector)
    return collector.steps


def _adder(message: Mapping[str, Any]) -> Any:
    for format in (langchain, anthropic, openai_responses):
        if format.recognises(message):
            return format.add_message
    return openai_chat.add_message


class _StepCollector(TranscriptBuilder):
    """Keeps what is added as steps, since a span repeats the conversation so far."""

    def __init__(self, omissions: Omissions) -> None:
        super().__init__(omissions)
        self.steps: list[Step] = []

    def add_system(self, text: str) -> None:
        self.steps.append(Step(kind="system", text=text))

    def add_user(self, text: str, *, at: float | None = None) -> None:
        self.steps.append(Step(kind="user", text=text))

    def add_reply(self, text: str, *, at: float | None = None) -> None:
        self.steps.append(Step(kind="reply", text=text))

    def add_call(self, name: Any, arguments: Any, *, call_id: Any = None, at: float | None = None) -> None:
        named = name if isinstance(name, str) and name.strip() else "unknown"
        self.steps.append(Step(kind="call", call_id=_as_id(call_id), name=named, value=arguments))

    def add_result(
        self, call_id: Any, result: Any = None, *, error: str | None = None, name: Any = None, at: float | None = None
    ) -> None:
        named = name if isinstance(name, str) else None
        self.steps.append(Step(kind="result", call_id=_as_id(call_id), name=named, value=result, error=error))

    def end_call(self, call_id: Any, *, name: Any = None, at: float | None = None) -> None:
        """Nothing is known of its result, so there is no step."""

    def add_usage(self, usage: Usage | None, *, cost_usd: float | None = None) -> None:
        """Spans have the tokens of a model call in their attributes."""


def _as_id(value: Any) -> str | None:
    return None if value is None else str(value)
