"""What was said and done in a trial: tool calls, turns, the transcript."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias
from unicodedata import category

from .struct import Struct

Message: TypeAlias = dict[str, Any]
"""A chat message in the form of chat completions: role, content, and what else the agent put there."""

REDACTED = "[redacted]"
"""Stands where a secret stood, before anything was evaluated."""


_UNSEEN = ("Cc", "Cf", "Mn", "Zs", "Zl", "Zp")
"""Categories of characters that show nothing by themselves: controls, marks of formatting, combining marks, spaces."""
_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Fillers of Hangul and the empty pattern of Braille: letters and symbols by their category, and blank."""


def is_blank(text: str | None) -> bool:
    """Whether a reader would see nothing: no text, only spaces, or only characters that are invisible."""
    return text is None or all(category(each) in _UNSEEN or each in _BLANK_LETTERS for each in text)


class StopReason(StrEnum):
    GOAL_MET = "goal_met"
    USER_STOPPED = "user_stopped"
    SCRIPT_ENDED = "script_ended"
    MAX_TURNS = "max_turns"
    LIMIT = "limit"
    ERROR = "error"


class ErrorKind(StrEnum):
    """Where an error arose. `agent` and `limit` count against the agent; of the others, what `ErrorInfo` says so of."""

    AGENT = "agent"
    TOOL = "tool"
    EVALUATOR = "evaluator"
    SIMULATOR = "simulator"
    JUDGE = "judge"
    LIMIT = "limit"
    CONFIG = "config"
    INFRA = "infra"


class ErrorInfo(Struct, frozen=True, kw_only=True):
    """Why something has no answer, and what to do about it."""

    kind: ErrorKind
    message: str
    hint: str | None = None
    turn: int | None = None
    """Index of the turn in which it happened, counted from 0."""
    traceback: str | None = None
    """The foreign traceback, for `--verbose`."""
    counts_as_failed: bool = False
    """It is the agent's doing, although its kind is an instrument's: a call that no mock answers."""


class ToolCall(Struct, frozen=True):
    """One call of a tool by the agent."""

    name: str
    arguments: Any = None
    """A mapping; None when they were not recorded; any other value is kept as it came (a malformed call)."""
    result: Any = None
    error: str | None = None
    id: str | None = None
    started_ms: float | None = None
    """Since the trial began."""
    duration_ms: float | None = None
    real: bool = False
    """Seatrial let the agent's real tool run, since it has no mock."""

    def __eq__(self, other: object) -> bool:
        """Whether it is the same call, whenever it was made."""
        if isinstance(other, ToolCall):
            return bool(
                self.name == other.name
                and self.arguments == other.arguments
                and self.result == other.result
                and self.error == other.error
                and self.id == other.id
            )
        if isinstance(other, str):
            raise TypeError(
                f"a ToolCall was compared with the string {other!r}; use tools_called, the list of names: "
                f"{other!r} in ctx.tools_called"
            )
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def args(self) -> Mapping[str, Any] | None:
        """The arguments when they are a mapping, else None."""
        given = self.arguments
        return given if type(given) is dict or isinstance(given, Mapping) else None


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens that a model took; None where the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)


def sum_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """The sum of what is known; None when nothing is."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    inputs = [usage.input_tokens for usage in known if usage.input_tokens is not None]
    outputs = [usage.output_tokens for usage in known if usage.output_tokens is not None]
    return Usage(input_tokens=sum(inputs) if inputs else None, output_tokens=sum(outputs) if outputs else None)


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """The sum where all of them say; a number that one of them does not tell is not known, instead of nothing."""
    each = [usage or Usage() for usage in usages]
    taken, given = (_total(counts) for counts in ([u.input_tokens for u in each], [u.output_tokens for u in each]))
    return None if taken is None and given is None else Usage(input_tokens=taken, output_tokens=given)


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


class AgentResult(Struct, frozen=True):
    """What an agent may return: its reply and, where it can, the evidence."""

    output: str | None
    tool_calls: Any = None
    """All calls: a list of ToolCalls, names or mappings. None says nothing; an empty list says that none was made."""
    usage: Usage | None = None
    cost_usd: float | None = None

    @property
    def tools_called(self) -> list[str]:
        """The names of the tools, in order. Raises ValueError where none were recorded: in no list, all are missing."""
        if self.tool_calls is None:
            raise ValueError(
                "tools_called: this AgentResult does not say which tools were called, since its tool_calls is None; "
                "give it [] where none was"
            )
        return [_tool_of(call) for call in self.tool_calls]


def _tool_of(call: Any) -> Any:
    if isinstance(call, Mapping):
        function = call.get("function")
        return function["name"] if isinstance(function, Mapping) else call["name"]
    return call.name if isinstance(call, ToolCall) else call


class PlayedTurn(Struct, frozen=True, kw_only=True):
    """One user message and everything the agent did until its reply."""

    index: int
    user: str
    reply: str | None
    tool_calls: tuple[ToolCall, ...] | None
    """The calls that are known; None means that nothing is known."""
    calls_complete: bool = True
    """False: these are the calls that Seatrial saw or answered, and others may have been made."""
    started_ms: float = 0.0
    """Since the trial began."""
    latency_ms: float = 0.0
    usage: Usage | None = None
    cost_usd: float | None = None
    retries: int = 0
    """How often the agent was asked again after an error of its own."""
    error: ErrorInfo | None = None


class Transcript(Struct, frozen=True, kw_only=True):
    """All turns of a trial, and how it ended."""

    turns: tuple[PlayedTurn, ...]
    stop_reason: StopReason
    history: tuple[Message, ...] = ()
    """Messages that stood before the first turn, a system message included."""
    state: dict[str, Any] | None = None
    """The mocks' state at the end; None where nothing was written to it."""
    error: ErrorInfo | None = None
    duration_ms: float = 0.0
    recorded: Any = None
    """What it was read from, as it stood in the file, whatever else is in there; None for one that was played."""
    earlier: tuple[ErrorInfo, ...] = ()
    """Errors of the agent in earlier tries of the same trial, which was then repeated. It still counts as failed."""
    redacted: tuple[str, ...] = ()
    """Names of the variables and settings whose values were redacted."""
    reachable_tools: tuple[str, ...] = ()
    """Tools that Seatrial answers and the agent can call: where no call of one was seen, none was made."""

    @property
    def calls_complete(self) -> bool:
        """Whether the calls of every turn are known, and are all that were made."""
        return all(turn.tool_calls is not None and turn.calls_complete for turn in self.turns)

    @property
    def seen_calls(self) -> tuple[ToolCall, ...]:
        """The calls that are known, in order; there may be others."""
        return tuple([call for turn in self.turns for call in turn.tool_calls or ()])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...] | None:
        """The calls that are known, in order; None when nothing is known of some turn."""
        if len(self.turns) == 1:
            return self.turns[0].tool_calls
        calls: list[ToolCall] = []
        for turn in self.turns:
            if turn.tool_calls is None:
                return None
            calls.extend(turn.tool_calls)
        return tuple(calls)

    @property
    def reply(self) -> str:
        """The last reply; empty when there is none."""
        return (self.turns[-1].reply or "") if self.turns else ""

    @property
    def latency_ms(self) -> float | None:
        """The slowest turn."""
        return max((turn.latency_ms for turn in self.turns), default=None)

    @property
    def usage(self) -> Usage | None:
        if len(self.turns) == 1:
            return self.turns[0].usage
        return sum_usage(turn.usage for turn in self.turns)

    @property
    def cost_usd(self) -> float | None:
        """What the agent cost; None unless every turn says."""
        if len(self.turns) == 1:
            return self.turns[0].cost_usd
        costs = [turn.cost_usd for turn in self.turns]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known and len(known) == len(costs) else None

    @property
    def goal_met(self) -> bool:
        return self.stop_reason is StopReason.GOAL_MET
