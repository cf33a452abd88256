"""The parts that others play for the runner: what it may ask of agents, users, tools, evaluators and judges."""

from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from .conversation import ErrorKind, Message, ToolCall, Transcript, Usage
from .results import EvalResult, Judgement, ModelUse, TrialError
from .run import Run, RunOutcome, ScenarioEntry, ScenarioKey, Trial
from .scenario import Scenario
from .struct import Struct, set_field

RECORD_CALLS = (
    "Record them: return AgentResult(output, tool_calls=[...]) from the agent, where [] says that it called none; or "
    "call all its tools through ctx.call_tool or @seatrial.tool, and say so in its settings: "
    "{type: python, target: ..., tools: all_wrapped}."
)
"""What to do where something is asked about tool calls that were not recorded, or not all of them."""
NOT_RECORDED = "the agent's tool calls were not recorded"
MAY_BE_MORE = "only the calls that went through Seatrial are known, and the agent may have made others"


class CalledTools(list[str]):
    """The names of the tools that were called, in order.

    Where others may have been called, it does not answer whether a tool was not, or whether these are all: that raises
    an error of the set-up. Of a tool that the agent calls through Seatrial it is known.
    """

    def __init__(self, names: Sequence[str], *, known: Container[str] = (), unknown: Exception | None = None) -> None:
        """`known`: tools whose calls are all here. `unknown`: what to raise when others are asked for, if anything."""
        super().__init__(names)
        self._known = known
        self._unknown = unknown

    def __contains__(self, name: object) -> bool:
        return list.__contains__(self, name) or self._lacks(name)

    def count(self, name: str) -> int:
        return list.count(self, name) or int(self._lacks(name))

    def __bool__(self) -> bool:
        return len(self) > 0 or self._lacks(None)

    def __eq__(self, other: object) -> bool:
        return list.__eq__(self, other) is True and not self._lacks(None)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def _lacks(self, name: object) -> bool:
        """False; raises where nobody knows."""
        if self._unknown is not None and name not in self._known:
            raise self._unknown
        return False


def called_tools(calls: Sequence[ToolCall] | None, *, complete: bool, known: Sequence[str]) -> CalledTools:
    """The names of the tools. Raises where nothing is known: in no list, every tool would be one not called."""
    message = NOT_RECORDED if calls is None else MAY_BE_MORE
    unknown = None if complete else TrialError(ErrorKind.CONFIG, f"tools_called: {message}", hint=RECORD_CALLS)
    if calls is None and not known and unknown is not None:
        raise unknown
    return CalledTools([call.name for call in calls or ()], known=known, unknown=unknown)


class TurnContext(Struct, frozen=True):
    """What an evaluator of a turn sees. Names of tools may stand for calls whose arguments are not known."""

    user: str = ""
    reply: str = ""
    tool_calls: Sequence[ToolCall] | None = ()
    """Those that are known; None: nothing is."""
    history: Sequence[Message] = ()
    """The conversation before this turn's user message."""
    scenario: Scenario | None = None
    trial: int = 0
    turn: int = 0
    redacted: Sequence[str] = ()
    """Names of the variables and settings whose values were redacted in the trial."""
    calls_complete: bool = True
    """Whether `tool_calls` are all; False: others may have been made."""
    reachable_tools: tuple[str, ...] = ()
    """Tools that the agent calls through Seatrial: where no call of one is known, none was made."""

    def __post_init__(self) -> None:
        calls: Sequence[Any] = self.tool_calls or ()
        if any(isinstance(call, str) for call in calls):
            named = tuple(ToolCall(call) if isinstance(call, str) else call for call in calls)
            set_field(self, "tool_calls", named)

    @property
    def seen_calls(self) -> Sequence[ToolCall]:
        """The calls that are known; there may be others."""
        return self.tool_calls or ()

    @property
    def knows_all_calls(self) -> bool:
        return self.tool_calls is not None and self.calls_complete

    @property
    def tools_called(self) -> list[str]:
        """The names of the tools, in order. Asking it for what is not known is an error, and not False."""
        return called_tools(self.tool_calls, complete=self.knows_all_calls, known=self.reachable_tools)


class TrialContext(Struct, frozen=True, kw_only=True):
    """What an evaluator of a whole trial sees: the last reply, all calls, and the transcript itself."""

    transcript: Transcript
    scenario: Scenario | None = None
    trial: int = 0

    @property
    def user(self) -> str:
        return self.transcript.turns[-1].user if self.transcript.turns else ""

    @property
    def reply(self) -> str:
        return self.transcript.reply

    @property
    def tool_calls(self) -> Sequence[ToolCall] | None:
        return self.transcript.tool_calls

    @property
    def calls_complete(self) -> bool:
        return self.transcript.calls_complete

    @property
    def reachable_tools(self) -> tuple[str, ...]:
        return self.transcript.reachable_tools

    @property
    def seen_calls(self) -> Sequence[ToolCall]:
        return self.transcript.seen_calls

    @property
    def knows_all_calls(self) -> bool:
        return self.transcript.calls_complete

    @property
    def tools_called(self) -> list[str]:
        return called_tools(self.tool_calls, complete=self.knows_all_calls, known=self.reachable_tools)

    @property
    def history(self) -> Sequence[Message]:
        return self.transcript.history

    @property
    def redacted(self) -> Sequence[str]:
        return self.transcript.redacted


Context = TurnContext | TrialContext


@runtime_checkable
class Evaluator(Protocol):
    """Looks at a turn or a trial and returns an EvalResult. `name` is optional; the class name stands in."""

    async def evaluate(self, ctx: Any) -> EvalResult: ...


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """What a mocked tool gave back: a result, or an error that the agent sees."""

    result: Any = None
    error: str | None = None


class ToolBox(Protocol):
    """The tools of one trial, answered from mocks; made anew for each trial."""

    @property
    def state(self) -> dict[str, Any]: ...

    def knows(self, name: str) -> bool:
        """Whether the tool is mocked."""
        ...

    def lets_run(self, name: str) -> bool:
        """Whether the agent's real tool may run. If not, `call` answers: with the mock, or with the error that there is
        none."""
        ...

    async def call(self, name: str, arguments: Any, *, turn: int) -> ToolAnswer:
        """Answer a call. Raises TrialError when the trial cannot go on (no mock, a bug in a mock)."""
        ...

    def offered(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of all tools there are, for agents that ask: name, description, parameters, output_schema."""
        ...


class TrialStart(Struct, frozen=True, kw_only=True):
    """What an agent's session is told when a trial begins."""

    trial_id: str
    scenario: str
    index: int
    seed: int
    tools: ToolBox
    record: Callable[[ToolCall], None]
    """Takes the calls that an in-process agent makes through ctx or a wrapped tool."""
    turn: Callable[[], int]
    """The index of the turn under way."""
    elapsed_ms: Callable[[], float]
    tool_schemas: Sequence[Mapping[str, Any]] = ()
    timeout_seconds: float = 30.0
    definition: Scenario | None = None
    """The scenario itself, for recordings, which must be found by what the user is going to say."""
    mcp_url: str | None = None
    """Where the trial's tools are served over MCP; None unless the agent's settings ask for it."""


class AgentReply(Struct, frozen=True, kw_only=True):
    """What came back from one exchange with the agent."""

    reply: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    """Calls the agent made by itself; None: not recorded."""
    hides_calls: bool = False
    """The calls that were seen or listed are known not to be all, or not known to be all."""
    requested: tuple[ToolCall, ...] = ()
    """Calls that Seatrial must answer before the agent goes on."""
    messages: tuple[Message, ...] = ()
    """What to append to the conversation, as the agent wrote it; empty: an assistant message with the reply."""
    usage: Usage | None = None
    cost_usd: float | None = None
    waited_ms: float = 0.0
    """What went by while the agent was not at work, such as the start of its process; it is not on its clock."""


class AgentSession(Protocol):
    """An agent during one trial. Raises AgentFailure for anything that went wrong on its side.

    It may have `reaches`, the tools that the agent can call through us, by name; None: all that the scenario has.
    """

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply: ...

    async def close(self) -> None: ...


class Agent(Protocol):
    """The system under test, reached through an adapter."""

    name: str
    answers_own_tools: bool
    """False where Seatrial must answer the tool calls (endpoint, command)."""
    keeps_conversation: bool
    """False for a function that takes only the latest text: it cannot be given several turns."""

    def open(self, start: TrialStart) -> AgentSession: ...

    async def close(self) -> None:
        """End what the whole run shared."""
        ...


class UserMove(Struct, frozen=True, kw_only=True):
    """What the user does next: says something, or stops."""

    message: str | None = None
    goal_met: bool = False
    stop: bool = False
    use: ModelUse | None = None
    """What making the move took, for a simulated user."""


class TrialUser(Protocol):
    """The user's side of one trial."""

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        """The next move, given the visible (user, reply) pairs so far. Raises TrialError(simulator)."""
        ...


class TrialJudge(Protocol):
    """Metrics, outcomes and behaviour failures of a trial, asked for in one go."""

    async def judge(self, ctx: TrialContext) -> tuple[Judgement, ModelUse]: ...


Hook = Callable[[Any], Any | Awaitable[Any]]


class PreparedScenario(Struct, frozen=True, kw_only=True):
    """A scenario ready to be played: finished objects, nothing left to look up."""

    entry: ScenarioEntry
    scenario: Scenario
    agent: Agent
    make_user: Callable[[int, int], TrialUser]
    """(trial index, seed) -> the user's side of that trial."""
    make_tools: Callable[[str, int], ToolBox]
    """(trial id, seed) -> the tools of that trial."""
    turn_evaluators: tuple[tuple[Evaluator, ...], ...] = ()
    """By scripted turn; turns beyond have none."""
    every_turn_evaluators: tuple[Evaluator, ...] = ()
    """For each turn, however many there come to be."""
    trial_evaluators: tuple[Evaluator, ...] = ()
    judge: TrialJudge | None = None
    history: tuple[Message, ...] = ()
    scripted: bool = True
    """The user's side is a script; else a simulated or programmed user decides when to stop."""
    max_turns: int = 8
    """Where a conversation that is no script stops."""
    timeout_seconds: float = 30.0
    trial_timeout_seconds: float = 600.0
    retries: int = 0
    setup: tuple[Hook, ...] = ()
    teardown: tuple[Hook, ...] = ()
    tool_schemas: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True)
class HookContext:
    """What setup and teardown functions get."""

    scenario: Scenario
    trial_id: str
    index: int
    seed: int
    state: dict[str, Any] = field(default_factory=dict)
    """The mocks' state: a setup may fill it, a teardown sees how it ended."""


class RunRecord(Protocol):
    """A run as it can be read back: what reports and pages are made from."""

    @property
    def run(self) -> Run: ...

    @property
    def outcome(self) -> RunOutcome:
        """The verdicts, derived from the stored rows."""
        ...

    def trials(self, key: ScenarioKey) -> Iterator[Trial]:
        """The trials of one scenario with their bodies, in index order, one at a time."""
        ...


class RunStarted(Struct, frozen=True, kw_only=True):
    run: Run
    scenarios: int
    trials: int


class ScenarioPlanned(Struct, frozen=True, kw_only=True):
    entry: ScenarioEntry
    stored: int = 0
    """How many of its trials are there already, in a run that goes on."""


class TrialFinished(Struct, frozen=True, kw_only=True):
    """Sent only after the trial's commit."""

    trial: Trial


class RunFinished(Struct, frozen=True, kw_only=True):
    run: Run


Event = RunStarted | ScenarioPlanned | TrialFinished | RunFinished
