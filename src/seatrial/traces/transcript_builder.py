"""Recorded conversations, and the builder that makes their transcripts from messages and calls, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import (
    ErrorInfo,
    ErrorKind,
    Message,
    PlayedTurn,
    StopReason,
    ToolCall,
    Transcript,
    Usage,
    total_usage,
)
from seatrial.model.json_values import plain_value
from seatrial.model.scenario import Scenario
from seatrial.model.struct import Struct

from .parsing import Omissions, as_text, moment_of


class TraceError(UsageError):
    """A trace file cannot be read."""


class RecordedConversation(Struct, frozen=True, kw_only=True):
    """One conversation of a trace file."""

    name: str
    """Its id or name; else the name of the file and its number in it."""
    transcript: Transcript
    started_at: datetime | None = None
    timed: bool = False
    """Whether the duration of every turn is known. Else a latency of 0 means nothing."""

    @property
    def users(self) -> tuple[str, ...]:
        """The user's message of each turn."""
        return tuple(turn.user for turn in self.transcript.turns)


def without_calls(recording: RecordedConversation) -> RecordedConversation:
    """The conversation, with unknown tool calls."""
    turns = tuple(replace(turn, tool_calls=None) for turn in recording.transcript.turns)
    return replace(recording, transcript=replace(recording.transcript, turns=turns))


class MessagePaths(Struct, frozen=True, kw_only=True):
    """Where any JSON holds its conversations, as JMESPath."""

    messages: str
    """The messages of one conversation, or a list of conversations."""
    name: str | None = None
    """The name of the conversation, or the names of all."""


class TraceFile(Struct, frozen=True, kw_only=True):
    """The conversations of one file."""

    path: str
    format: str
    recordings: tuple[RecordedConversation, ...]
    notes: tuple[str, ...] = ()
    """What the transcripts do not show."""
    paths: MessagePaths | None = None
    """Where its messages were found, if the format does not say."""


@dataclass(eq=False)
class _Call:
    """A tool call whose result may follow."""

    name: str
    arguments: Any
    id: str | None
    started: float | None
    ended: float | None = None
    answered: bool = False
    """The end of the call is known."""
    known: bool = False
    """Its result or error is known."""
    result: Any = None
    error: str | None = None

    def finish(self, began: float | None) -> ToolCall:
        started = None if self.started is None or began is None else self.started - began
        took = None if self.started is None or self.ended is None else max(self.ended - self.started, 0.0)
        return ToolCall(
            self.name, self.arguments, self.result, self.error, self.id, started, took, result_known=self.known
        )


@dataclass(eq=False)
class _Turn:
    """A turn that is not complete yet."""

    user: str
    began: float | None
    ended: float | None = None
    reply: list[str] = field(default_factory=list)
    """Texts after the last call: earlier ones are not part of the reply."""
    calls: list[_Call] = field(default_factory=list)
    calls_unknown: bool = False
    usages: list[Usage | None] = field(default_factory=list)
    costs: list[float | None] = field(default_factory=list)
    error: ErrorInfo | None = None

    @property
    def is_new(self) -> bool:
        """Whether the agent has done nothing yet, so that the next user message belongs to it."""
        return not (self.reply or self.calls or self.error)

    def extend_to(self, at: float | None) -> None:
        if at is not None:
            self.ended = at if self.ended is None else max(self.ended, at)

    def finish(self, index: int, began: float | None) -> PlayedTurn:
        timed = self.began is not None and self.ended is not None
        costs = [cost for cost in self.costs if cost is not None]
        return PlayedTurn(
            index=index,
            user=self.user,
            reply="\n".join(self.reply) if self.reply else None,
            tool_calls=None if self.calls_unknown else tuple(call.finish(began) for call in self.calls),
            started_ms=self.began - began if self.began is not None and began is not None else 0.0,
            latency_ms=max((self.ended or 0.0) - (self.began or 0.0), 0.0) if timed else 0.0,
            usage=total_usage(self.usages),
            cost_usd=sum(costs) if costs and len(costs) == len(self.costs) else None,
            error=self.error,
        )


class TranscriptBuilder:
    """Builds one transcript. Times are milliseconds since 1970, where the format has any."""

    def __init__(self, omissions: Omissions) -> None:
        self.omissions = omissions
        self.at: float | None = None
        """The time of the message that is being added, if its format has times."""
        self._history: list[Message] = []
        self._turns: list[_Turn] = []

    def add_text(self, role: Any, text: str | None) -> None:
        """A message of a chat API, by its role."""
        if role == "user":
            self.add_user(text or "")
        elif role not in ("system", "developer", "assistant"):
            self.omissions.add("message", f"of unknown kind {role!r}")
        elif text:
            (self.add_reply if role == "assistant" else self.add_system)(text)

    def add_system(self, text: str) -> None:
        """Instructions. New ones in the middle of a conversation are omitted."""
        message = {"role": "system", "content": text}
        if message in self._history:
            return
        if self._turns:
            self.omissions.add("system message", "in the middle of a conversation")
        else:
            self._history.append(message)

    def add_user(self, text: str, *, at: float | None = None) -> None:
        """A user message. A second one before the agent did anything belongs to the same turn."""
        if self._turns and self._turns[-1].is_new:
            turn = self._turns[-1]
            turn.user = f"{turn.user}\n\n{text}" if turn.user else text
            return
        self._turns.append(_Turn(text, self._time(at)))

    def add_reply(self, text: str, *, at: float | None = None) -> None:
        """A text of the agent. Before the first turn it is a greeting."""
        if not self._turns:
            self._history.append({"role": "assistant", "content": text})
            return
        self._turns[-1].reply.append(text)
        self._turns[-1].extend_to(self._time(at))

    def add_call(self, name: Any, arguments: Any, *, call_id: Any = None, at: float | None = None) -> None:
        at = self._time(at)
        turn = self._current_turn(at)
        for _ in turn.reply:
            self.omissions.add("text", "of the agent before a tool call")
        turn.reply = []
        named = name if isinstance(name, str) and name.strip() else "unknown"
        turn.calls.append(_Call(named, arguments, None if call_id is None else str(call_id), at))
        turn.extend_to(at)

    def add_result(
        self, call_id: Any, result: Any = None, *, error: str | None = None, name: Any = None, at: float | None = None
    ) -> None:
        """The result of a call without one: the last with that id, or else the first with that name."""
        call = self._find(call_id, name)
        if call is None:
            self.omissions.add("tool result", "without a recorded call")
            return
        call.answered, call.known, call.result, call.error = True, True, result, error
        call.ended = self._time(at)
        self._turns[-1].extend_to(call.ended)

    def end_call(self, call_id: Any, *, name: Any = None, at: float | None = None) -> None:
        """The call has ended, with a result that is not recorded."""
        call = self._find(call_id, name)
        if call is not None:
            call.answered, call.ended = True, at
            self._turns[-1].extend_to(at)

    def add_result_once(
        self, call_id: Any, result: Any, *, error: str | None = None, name: Any = None, at: float | None = None
    ) -> None:
        """The result of a call, unless the call has one already."""
        known = [call for turn in self._turns for call in turn.calls if call_id is not None and call.id == str(call_id)]
        if not known or not all(call.answered for call in known):
            self.add_result(call_id, result, error=error, name=name, at=at)

    def turn_call_into_reply(self, call_id: Any, *, at: float | None = None) -> None:
        """The call was the agent's structured reply, not a tool call."""
        call = self._find(call_id, None)
        if call is None:
            return
        turn = next(turn for turn in self._turns if call in turn.calls)
        turn.calls.remove(call)
        turn.reply.append(as_text(call.arguments))
        self._turns[-1].extend_to(at)

    def retract_reply(self) -> None:
        """The agent's own program refused its last text, so the user never saw it."""
        if self._turns and self._turns[-1].reply:
            self._turns[-1].reply = []
            self.omissions.add("text", "that the agent's own program refused")

    def add_usage(self, usage: Usage | None, *, cost_usd: float | None = None) -> None:
        """Tokens and cost of one model call; None where they are unknown, which makes the turn's sum unknown."""
        if self._turns:
            self._turns[-1].usages.append(usage)
            self._turns[-1].costs.append(cost_usd)

    def add_error(self, message: str, *, at: float | None = None) -> None:
        """The current turn ended in an error of the agent."""
        at = self._time(at)
        turn = self._current_turn(at)
        turn.error = ErrorInfo(kind=ErrorKind.AGENT, message=message, turn=len(self._turns) - 1)
        turn.extend_to(at)

    def mark_calls_unknown(self) -> None:
        """The file does not say which tools were called in the current turn."""
        if self._turns:
            self._turns[-1].calls_unknown = True

    def extend_turn(self, at: float | None) -> None:
        """The agent was still working at this time."""
        if self._turns:
            self._turns[-1].extend_to(at)

    def build(self, name: str, *, recorded: Any) -> RecordedConversation | None:
        """The conversation, with the part of the file that it was `recorded` in; None when nothing was said or done."""
        self._turn_greeting_into_reply()
        if not self._turns:
            return None
        began = next((turn.began for turn in self._turns if turn.began is not None), None)
        turns = tuple(turn.finish(index, began) for index, turn in enumerate(self._turns))
        ended = [turn.ended for turn in self._turns if turn.ended is not None]
        error = next((turn.error for turn in turns if turn.error is not None), None)
        transcript = Transcript(
            turns=turns,
            stop_reason=StopReason.SCRIPT_ENDED if error is None else StopReason.ERROR,
            history=tuple(self._history),
            error=error,
            duration_ms=max(max(ended) - began, 0.0) if ended and began is not None else 0.0,
            recorded=plain_value(recorded),
        )
        return RecordedConversation(
            name=name,
            transcript=transcript,
            started_at=None if began is None else moment_of(began),
            timed=all(turn.began is not None and turn.ended is not None for turn in self._turns),
        )

    def _time(self, at: float | None) -> float | None:
        return self.at if at is None else at

    def _current_turn(self, at: float | None) -> _Turn:
        """The last turn; one without a user message when the agent speaks first."""
        if not self._turns:
            self._turns.append(_Turn("", at))
        return self._turns[-1]

    def _find(self, call_id: Any, name: Any) -> _Call | None:
        waiting = [call for turn in self._turns for call in turn.calls if not call.answered]
        by_id = [call for call in waiting if call_id is not None and call.id == str(call_id)]
        by_name = [call for call in waiting if call.name == name and (call.id is None or call_id is None)]
        return by_id[-1] if by_id else by_name[0] if by_name else None

    def _turn_greeting_into_reply(self) -> None:
        """Make one turn of the agent's texts when the user never spoke."""
        greetings = [message for message in self._history if message["role"] == "assistant"]
        if not self._turns and greetings:
            self._history = [message for message in self._history if message not in greetings]
            self._current_turn(None).reply = [message["content"] for message in greetings]


def script_of(scenario: Scenario) -> tuple[str, ...] | None:
    """The user's messages, turn by turn; None when a simulated user writes them."""
    if scenario.user is not None:
        return None
    return tuple(turn.said for turn in scenario.turns) or (scenario.input or "",)


def words_of(said: Sequence[str]) -> tuple[str, ...]:
    """The texts with single spaces only, so that texts that differ in spaces and line ends are equal."""
    return tuple(" ".join(text.split()) for text in said)


def first_difference(said: Sequence[str], recorded: Sequence[str]) -> tuple[int, str | None, str | None] | None:
    """The first turn in which the texts differ, and both texts; None for a text that is missing."""
    for turn, (one, other) in enumerate(zip_longest(said, recorded)):
        if one is None or other is None or words_of([one]) != words_of([other]):
            return turn, one, other
    return None
