"""The conversation of a trial: messages, tool calls, turns, usage, errors, the transcript."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Literal, TypeAlias
from unicodedata import category

from .content import Attachment, RetrievedText
from .struct import Struct

Message: TypeAlias = dict[str, Any]
"""A chat message as in chat completions: role, content, and further keys."""

REDACTED = "[redacted]"
"""Replaces a secret value before evaluation."""


_UNSEEN = ("Cc", "Cf", "Mn", "Zs", "Zl", "Zp")
"""Unicode categories of invisible characters: controls, formats, combining marks, spaces."""
_BLANK_LETTERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Hangul fillers and the blank Braille pattern: blank, although letters and symbols by category."""


def is_blank(text: str | None) -> bool:
    """Whether the text is None or has only invisible characters."""
    return text is None or all(category(each) in _UNSEEN or each in _BLANK_LETTERS for each in text)


class StopReason(StrEnum):
    GOAL_MET = "goal_met"
    USER_STOPPED = "user_stopped"
    SCRIPT_ENDED = "script_ended"
    ENDED_BY_TOOL = "ended_by_tool"
    MAX_TURNS = "max_turns"
    LIMIT = "limit"
    ERROR = "error"


class ErrorKind(StrEnum):
    """The source of an error. `agent` and `limit` count against the agent; others if `counts_as_failed`."""

    AGENT = "agent"
    TOOL = "tool"
    EVALUATOR = "evaluator"
    SIMULATOR = "simulator"
    JUDGE = "judge"
    LIMIT = "limit"
    CONFIG = "config"
    INFRA = "infra"


class ErrorInfo(Struct, frozen=True, kw_only=True):
    """An error: why there is no answer, and what to do."""

    kind: ErrorKind
    message: str
    hint: str | None = None
    turn: int | None = None
    """Index of its turn, from 0."""
    traceback: str | None = None
    """The traceback of user code, for `--verbose`."""
    counts_as_failed: bool = False
    """It counts against the agent although its kind does not, such as a call that no mock answers."""


class Change(Struct, frozen=True):
    """One difference between two states: an operation of JSON Patch (RFC 6902)."""

    op: Literal["add", "remove", "replace"]
    path: str
    """A JSON Pointer (RFC 6901)."""
    value: Any = None
    """The new value; None for `remove`."""
    was: Any = None
    """The value before; None for `add`. JSON Patch ignores it."""


class ToolCall(Struct, frozen=True):
    """One call of a tool by the agent."""

    name: str
    arguments: Any = None
    """A mapping; None: not recorded; any other value: a malformed call."""
    result: Any = None
    error: str | None = None
    id: str | None = None
    started_ms: float | None = None
    """Since the start of the trial."""
    duration_ms: float | None = None
    real: bool = False
    """The agent's real tool ran, because it has no mock."""
    changes: tuple[Change, ...] = ()
    """What this call changed in the world."""
    result_known: bool = True
    """False: it is not recorded what the tool returned. `result` and `error` are then None."""
    altered: str | None = None
    """In a sweep: the id of the payload or the fault in the answer. None: as the tool answered."""

    def __eq__(self, other: object) -> bool:
        """Compares everything except the times."""
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
        """The arguments if they are a mapping, else None."""
        given = self.arguments
        return given if type(given) is dict or isinstance(given, Mapping) else None


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of a model call; None if the provider did not report them."""

    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)


def sum_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """The sum of the known values; None if none is known."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    inputs = [usage.input_tokens for usage in known if usage.input_tokens is not None]
    outputs = [usage.output_tokens for usage in known if usage.output_tokens is not None]
    return Usage(input_tokens=sum(inputs) if inputs else None, output_tokens=sum(outputs) if outputs else None)


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """The sum of each number if all values are known, else None for that number."""
    each = [usage or Usage() for usage in usages]
    taken, given = (_total(counts) for counts in ([u.input_tokens for u in each], [u.output_tokens for u in each]))
    return None if taken is None and given is None else Usage(input_tokens=taken, output_tokens=given)


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


class AgentResult(Struct, frozen=True):
    """A reply with evidence, which an agent may return."""

    output: str | None
    tool_calls: Any = None
    """All calls, as ToolCalls, names or mappings. None: not known; an empty list: no call was made."""
    usage: Usage | None = None
    cost_usd: float | None = None
    contexts: Any = None
    """The texts that the agent retrieved for this reply: texts, or mappings with `text` and `source`."""
    attachments: Any = ()
    """Images and files of the reply: Attachments, or paths of files."""

    @property
    def tools_called(self) -> list[str]:
        """The names of the tools, in order. Raises ValueError if `tool_calls` is None."""
        if self.tool_calls is None:
            raise ValueError(
                "tools_called: the calls of this AgentResult are not known, because its tool_calls is None; "
                "give it [] if there were none"
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
    """The known calls; None: nothing is known."""
    calls_complete: bool = True
    """False: the agent may have made other calls that Seatrial did not see."""
    started_ms: float = 0.0
    """Since the start of the trial."""
    latency_ms: float = 0.0
    usage: Usage | None = None
    cost_usd: float | None = None
    retries: int = 0
    """How often the agent was called again after an error."""
    guardrail: str | None = None
    """The guardrail that stopped the agent."""
    error: ErrorInfo | None = None
    attachments: tuple[Attachment, ...] = ()
    """Images and files of the user's message."""
    reply_attachments: tuple[Attachment, ...] = ()
    """Images and files of the agent's reply."""
    contexts: tuple[RetrievedText, ...] | None = None
    """The texts that the agent retrieved; None: not known."""


class WorldRecord(Struct, frozen=True, kw_only=True):
    """The world of a trial at its end, as the difference from its seed."""

    seed: str
    """The hash of the seed."""
    changes: tuple[Change, ...] = ()
    """From the seed to the end state."""
    drift: int = 0
    """In recordings: the number of calls that the world answers differently than recorded."""
    first_drift: str | None = None
    """The first of them, in a sentence."""
    outside: tuple[str, ...] = ()
    """Tools that ran outside of the world, which does not show their effects."""


class Transcript(Struct, frozen=True, kw_only=True):
    """All turns of a trial, and how it ended."""

    turns: tuple[PlayedTurn, ...]
    stop_reason: StopReason
    history: tuple[Message, ...] = ()
    """Messages before the first turn, including a system message."""
    state: dict[str, Any] | None = None
    """The state of the mocks at the end; None if nothing was written."""
    state_known: bool = True
    """False for recordings: mocks did not answer their calls."""
    world: WorldRecord | None = None
    """The world at the end; None if the scenario has none."""
    error: ErrorInfo | None = None
    duration_ms: float = 0.0
    recorded: Any = None
    """The source record of an imported transcript; None for a trial that was run."""
    earlier: tuple[ErrorInfo, ...] = ()
    """Agent errors in earlier tries of this trial. It still counts as failed."""
    redacted: tuple[str, ...] = ()
    """Names of the variables and settings whose values were redacted."""
    reachable_tools: tuple[str, ...] = ()
    """Tools that Seatrial answers and the agent can call. If no call to one was seen, none was made."""

    @property
    def calls_complete(self) -> bool:
        """Whether all calls of every turn are known."""
        return all(turn.tool_calls is not None and turn.calls_complete for turn in self.turns)

    @property
    def seen_calls(self) -> tuple[ToolCall, ...]:
        """The known calls, in order; there may be others."""
        return tuple([call for turn in self.turns for call in turn.tool_calls or ()])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...] | None:
        """The known calls, in order; None if a turn has no record."""
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
        """The last reply; empty without one."""
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
        """The agent's cost; None unless every turn reports it."""
        if len(self.turns) == 1:
            return self.turns[0].cost_usd
        costs = [turn.cost_usd for turn in self.turns]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known and len(known) == len(costs) else None

    @property
    def goal_met(self) -> bool:
        return self.stop_reason is StopReason.GOAL_MET
