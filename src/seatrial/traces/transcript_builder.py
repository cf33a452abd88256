"""What a trace file holds once it is read, and the one error of this room."""

from collections import Counter
from collections.abc import Sequence
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

from .parsing import as_text, moment_of


class TraceError(UsageError):
    """A file of recordings that cannot be read: where, what, and what now."""


class Recording(Struct, frozen=True, kw_only=True):
    """One conversation as somebody recorded it."""

    name: str
    """The conversation's id or name; made up from its place in the file where it has none."""
    transcript: Transcript
    started_at: datetime | None = None
    timed: bool = False
    """Whether every turn says how long it took. Where it is not known, a latency of 0 means nothing."""

    @property
    def users(self) -> tuple[str, ...]:
        """What the user said, turn by turn."""
        return tuple(turn.user for turn in self.transcript.turns)


def without_calls(recording: Recording) -> Recording:
    """The same, where nobody can say which tools were called."""
    turns = tuple(replace(turn, tool_calls=None) for turn in recording.transcript.turns)
    return replace(recording, transcript=replace(recording.transcript, turns=turns))


class TraceFile(Struct, frozen=True, kw_only=True):
    """The conversations of one file."""

    path: str
    format: str
    recordings: tuple[Recording, ...]
    notes: tuple[str, ...] = ()
    """What was in the file and has no place in a transcript."""


class Notes:
    """What had no place in a transcript, counted, so that nothing is left out in silence."""

    def __init__(self) -> None:
        self._left_out: Counter[tuple[str, str]] = Counter()

    def leave_out(self, noun: str, which: str) -> None:
        """One more `noun` such as `part`, and `which`, such as `of unknown type 'x'`."""
        self._left_out[noun, which] += 1

    def sentences(self) -> tuple[str, ...]:
        return tuple(
            f"{count:,} {noun}{'' if count == 1 else 's'} {which} {'was' if count == 1 else 'were'} left out"
            for (noun, which), count in self._left_out.items()
        )


class _Call:
    """A call on its way into a turn; its answer comes later, or never."""

    def __init__(self, name: str, arguments: Any, call_id: str | None, at: float | None) -> None:
        self.name = name
        self.arguments = arguments
        self.id = call_id
        self.at = at
        self.ended: float | None = None
        self.answered = False
        self.result: Any = None
        self.error: str | None = None

    def finish(self, began: float | None) -> ToolCall:
        started = None if self.at is None or began is None else self.at - began
        took = None if self.at is None or self.ended is None else max(self.ended - self.at, 0.0)
        return ToolCall(self.name, self.arguments, self.result, self.error, self.id, started, took)


class _Turn:
    """A turn under way."""

    def __init__(self, user: str, at: float | None) -> None:
        self.user = user
        self.began = at
        self.ended: float | None = None
        self.said: list[str] = []
        """Since the last call: what was said before it was not the reply."""
        self.calls: list[_Call] = []
        self.hides_calls = False
        self.usages: list[Usage | None] = []
        self.costs: list[float | None] = []
        self.error: ErrorInfo | None = None

    @property
    def is_open(self) -> bool:
        """Whether the agent has done nothing yet, so that the user may go on."""
        return not (self.said or self.calls or self.error)

    def finish(self, index: int, began: float | None) -> PlayedTurn:
        timed = self.began is not None and self.ended is not None
        return PlayedTurn(
            index=index,
            user=self.user,
            reply="\n".join(self.said) if self.said else None,
            tool_calls=None if self.hides_calls else tuple(call.finish(began) for call in self.calls),
            started_ms=self.began - began if self.began is not None and began is not None else 0.0,
            latency_ms=max((self.ended or 0.0) - (self.began or 0.0), 0.0) if timed else 0.0,
            usage=total_usage(self.usages),
            cost_usd=self._cost_usd(),
            error=self.error,
        )

    def _cost_usd(self) -> float | None:
        known = [cost for cost in self.costs if cost is not None]
        return sum(known) if known and len(known) == len(self.costs) else None


class Scribe:
    """Takes down one conversation. Times are milliseconds since 1970, where the format has any."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self._history: list[Message] = []
        self._turns: list[_Turn] = []

    def system(self, text: str) -> None:
        """Instructions. In the middle of a conversation they are noted, unless they were given before."""
        message = {"role": "system", "content": text}
        if message in self._history:
            return
        if self._turns:
            self.notes.leave_out("system message", "in the middle of a conversation")
        else:
            self._history.append(message)

    def user(self, text: str, *, at: float | None = None) -> None:
        """The user's words; a second message before the agent did anything belongs to the same turn."""
        if self._turns and self._turns[-1].is_open:
            turn = self._turns[-1]
            turn.user = f"{turn.user}\n\n{text}" if turn.user else text
            return
        self._turns.append(_Turn(text, at))

    def say(self, text: str, *, at: float | None = None) -> None:
        """Words of the agent; before the first turn they are a greeting."""
        if not self._turns:
            self._history.append({"role": "assistant", "content": text})
            return
        self._turns[-1].said.append(text)
        self._touch(at)

    def call(self, name: Any, arguments: Any, *, call_id: Any = None, at: float | None = None) -> None:
        """A tool that the agent called."""
        turn = self._turn(at)
        if turn.said:
            for _ in turn.said:
                self.notes.leave_out("text", "of the agent before a tool call")
            turn.said = []
        named = name if isinstance(name, str) and name.strip() else "unknown"
        turn.calls.append(_Call(named, arguments, None if call_id is None else str(call_id), at))
        self._touch(at)

    def answer(
        self,
        call_id: Any,
        result: Any = None,
        *,
        error: str | None = None,
        name: Any = None,
        at: float | None = None,
    ) -> None:
        """What a tool gave back, for the last call of that id, or else the first of that name, without an answer."""
        call = self._find(None if call_id is None else str(call_id), name)
        if call is None:
            self.notes.leave_out("tool result", "without a recorded call")
            return
        call.answered, call.result, call.error, call.ended = True, result, error, at
        self._touch(at)

    def answer_if_open(self, call_id: Any, result: Any, *, name: Any = None, at: float | None = None) -> None:
        """The same, unless the call has its answer already from elsewhere."""
        known = [call for turn in self._turns for call in turn.calls if call_id is not None and call.id == str(call_id)]
        if not known or not all(call.answered for call in known):
            self.answer(call_id, result, name=name, at=at)

    def take_as_reply(self, call_id: Any, *, at: float | None = None) -> None:
        """A call that was no tool's but the way in which the agent gave its reply."""
        call = self._find(None if call_id is None else str(call_id), None)
        if call is None:
            return
        turn = next(turn for turn in self._turns if call in turn.calls)
        turn.calls.remove(call)
        turn.said.append(as_text(call.arguments))
        self._touch(at)

    def retract(self) -> None:
        """What the agent said last was refused by its own program, and the user never saw it."""
        if self._turns and self._turns[-1].said:
            self._turns[-1].said = []
            self.notes.leave_out("text", "that the agent's own program refused")

    def use(self, usage: Usage | None, *, cost_usd: float | None = None) -> None:
        """What one call of the model took; None where nobody counted, and then the turn's sum is not known."""
        if self._turns:
            self._turns[-1].usages.append(usage)
            self._turns[-1].costs.append(cost_usd)

    def fail(self, message: str, *, at: float | None = None) -> None:
        """The turn under way ended in an error of the agent."""
        turn = self._turn(at)
        turn.error = ErrorInfo(kind=ErrorKind.AGENT, message=message, turn=len(self._turns) - 1)
        self._touch(at)

    def hide_calls(self) -> None:
        """Nobody can say which tools were called in the turn under way."""
        if self._turns:
            self._turns[-1].hides_calls = True

    def touch(self, at: float | None) -> None:
        """The agent was still at it at this time."""
        if self._turns:
            self._touch(at)

    def finish(self, name: str, *, recorded: Any) -> Recording | None:
        """The recording, beside what it was `recorded` as; None where nothing was said or done."""
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
        return Recording(
            name=name,
            transcript=transcript,
            started_at=None if began is None else moment_of(began),
            timed=all(turn.began is not None and turn.ended is not None for turn in self._turns),
        )

    def _turn(self, at: float | None) -> _Turn:
        """The turn under way; one without a user's message where the agent began by itself."""
        if not self._turns:
            self._turns.append(_Turn("", at))
        return self._turns[-1]

    def _touch(self, at: float | None) -> None:
        turn = self._turns[-1]
        if at is not None:
            turn.ended = at if turn.ended is None else max(turn.ended, at)

    def _find(self, call_id: str | None, name: Any) -> _Call | None:
        waiting = [call for turn in self._turns for call in turn.calls if not call.answered]
        by_id = [call for call in waiting if call_id is not None and call.id == call_id]
        by_name = [call for call in waiting if call.name == name and (call.id is None or call_id is None)]
        return by_id[-1] if by_id else by_name[0] if by_name else None

    def _turn_greeting_into_reply(self) -> None:
        """Where the user never spoke, what the agent said is all there is."""
        said = [message for message in self._history if message["role"] == "assistant"]
        if not self._turns and said:
            self._history = [message for message in self._history if message not in said]
            turn = self._turn(None)
            turn.said = [message["content"] for message in said]


def script_of(scenario: Scenario) -> tuple[str, ...] | None:
    """What the user will say, turn by turn; None where that is not written down beforehand."""
    if scenario.user is not None:
        return None
    return tuple(turn.user for turn in scenario.turns) or (scenario.input or "",)


def words_of(said: Sequence[str]) -> tuple[str, ...]:
    """The words of each turn, equal for all who say the same, spaces and line ends apart."""
    return tuple(" ".join(text.split()) for text in said)


def first_difference(said: Sequence[str], recorded: Sequence[str]) -> tuple[int, str | None, str | None] | None:
    """The first turn in which they differ, with the words of both; None for one that has come to its end."""
    for turn, (one, other) in enumerate(zip_longest(said, recorded)):
        if one is None or other is None or words_of([one]) != words_of([other]):
            return turn, one, other
    return None
