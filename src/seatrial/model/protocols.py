"""The interfaces of agents, users, tools, evaluators and judges, and the values they exchange with the engine."""

from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from .causes import Cause
from .content import Attachment, RetrievedText
from .conversation import Change, ErrorKind, Message, PlayedTurn, ToolCall, Transcript, Usage, WorldRecord
from .results import EvalResult, Judgement, ModelUse, TrialError
from .run import Run, RunOutcome, ScenarioEntry, ScenarioKey, Trial
from .scenario import Decision, GoldCall, Scenario
from .struct import Struct, set_field
from .world_view import WorldView

RECORD_CALLS = (
    "Record them: return AgentResult(output, tool_calls=[...]) from the agent, where [] says that it called none; or "
    "call all its tools through ctx.call_tool or @seatrial.tool, and say so in its settings: "
    "{type: python, target: ..., tools: all_wrapped}."
)
"""The hint for checks that need complete tool calls."""
NOT_RECORDED = "the agent's tool calls were not recorded"
MAY_BE_MORE = "only the calls that went through Seatrial are known, and the agent may have made others"


class CalledTools(list[str]):
    """The names of the called tools, in order.

    If the agent may have made other calls, a question whose answer is not known raises an error: whether a tool was
    not called, or whether these are all calls. Calls of `known` tools are all recorded.
    """

    def __init__(self, names: Sequence[str], *, known: Container[str] = (), unknown: Exception | None = None) -> None:
        """`known`: tools whose calls are all recorded. `unknown`: the error to raise for other tools."""
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
        """False; raises if the answer is not known."""
        if self._unknown is not None and name not in self._known:
            raise self._unknown
        return False


def called_tools(calls: Sequence[ToolCall] | None, *, complete: bool, known: Sequence[str]) -> CalledTools:
    """The names of the called tools. Raises if nothing is known."""
    message = NOT_RECORDED if calls is None else MAY_BE_MORE
    unknown = None if complete else TrialError(ErrorKind.CONFIG, f"tools_called: {message}", hint=RECORD_CALLS)
    if calls is None and not known and unknown is not None:
        raise unknown
    return CalledTools([call.name for call in calls or ()], known=known, unknown=unknown)


class TurnContext(Struct, frozen=True):
    """The input of an evaluator of one turn. `tool_calls` may contain names instead of calls."""

    user: str = ""
    reply: str = ""
    tool_calls: Sequence[ToolCall] | None = ()
    """The known calls; None: nothing is known."""
    history: Sequence[Message] = ()
    """The messages before this turn."""
    scenario: Scenario | None = None
    trial: int = 0
    turn: int = 0
    redacted: Sequence[str] = ()
    """Names of the variables and settings whose values were redacted in the trial."""
    calls_complete: bool = True
    """False: the agent may have made other calls."""
    reachable_tools: tuple[str, ...] = ()
    """Tools that the agent calls through Seatrial. If no call to one is known, none was made."""
    guardrail: str | None = None
    """The guardrail that stopped the agent in this turn."""
    attachments: tuple[Attachment, ...] = ()
    """Images and files of the user's message."""
    reply_attachments: tuple[Attachment, ...] = ()
    """Images and files of the reply."""
    contexts: tuple[RetrievedText, ...] | None = None
    """The texts that the agent retrieved; None: not known."""

    def __post_init__(self) -> None:
        calls: Sequence[Any] = self.tool_calls or ()
        if any(isinstance(call, str) for call in calls):
            named = tuple(ToolCall(call) if isinstance(call, str) else call for call in calls)
            set_field(self, "tool_calls", named)

    @property
    def seen_calls(self) -> Sequence[ToolCall]:
        """The known calls; there may be others."""
        return self.tool_calls or ()

    @property
    def knows_all_calls(self) -> bool:
        return self.tool_calls is not None and self.calls_complete

    @property
    def tools_called(self) -> list[str]:
        """The names of the called tools, in order. Raises if a question has no known answer."""
        return called_tools(self.tool_calls, complete=self.knows_all_calls, known=self.reachable_tools)


class TrialContext(Struct, frozen=True, kw_only=True):
    """The input of an evaluator of a whole trial: the last reply, all calls, the transcript."""

    transcript: Transcript
    scenario: Scenario | None = None
    trial: int = 0
    world: WorldView | None = None
    """The world of the scenario: `initial`, `final`, `gold`, `diff`. None without one, or if its end is not known."""

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
    def guardrail(self) -> str | None:
        """The last guardrail that stopped the agent."""
        found = [turn.guardrail for turn in self.transcript.turns if turn.guardrail is not None]
        return found[-1] if found else None

    @property
    def history(self) -> Sequence[Message]:
        return self.transcript.history

    @property
    def redacted(self) -> Sequence[str]:
        return self.transcript.redacted


Context = TurnContext | TrialContext


@runtime_checkable
class Evaluator(Protocol):
    """Evaluates a turn or a trial. An evaluator may have a `name`; the default is its class name."""

    async def evaluate(self, ctx: Any) -> EvalResult: ...


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a mock or of the world: a result, or an error that the agent sees."""

    result: Any = None
    error: str | None = None
    is_plain: bool = False
    """The agent sees the text of the error alone, instead of `{"error": text}`."""
    changes: tuple[Change, ...] = ()
    """What the call changed in the world."""
    altered: str | None = None
    """In a sweep: the id of the payload or the fault that replaced what the tool answered."""


class ToolBox(Protocol):
    """The mocks and the world of one trial."""

    @property
    def state(self) -> dict[str, Any]: ...

    @property
    def has_ended(self) -> bool:
        """Whether a call has ended the conversation (`world.ends`)."""
        ...

    def record_world(self) -> WorldRecord | None:
        """The world now; None without one. Raises TrialError if something else than a call has changed it."""
        ...

    def knows(self, name: str) -> bool:
        """Whether a mock or the world answers the tool."""
        ...

    def lets_run(self, name: str) -> bool:
        """Whether the agent's real tool may run; otherwise `call` answers."""
        ...

    async def call(self, name: str, arguments: Any, *, turn: int) -> ToolAnswer:
        """Answer a call. Raises TrialError if the trial must end (no mock, or a bug in a mock)."""
        ...

    def offered(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of all tools: name, description, parameters, output_schema."""
        ...


class TrialStart(Struct, frozen=True, kw_only=True):
    """The input of an agent's session at the start of a trial."""

    trial_id: str
    scenario: str
    index: int
    seed: int
    tools: ToolBox
    record: Callable[[ToolCall], None]
    """Records a call that an in-process agent makes through ctx or a wrapped tool."""
    turn: Callable[[], int]
    """The index of the current turn."""
    elapsed_ms: Callable[[], float]
    tool_schemas: Sequence[Mapping[str, Any]] = ()
    timeout_seconds: float = 30.0
    definition: Scenario | None = None
    """The scenario; replayed recordings are found by its user messages."""
    mcp_url: str | None = None
    """The address of the trial's tools over MCP; None unless the agent uses it."""
    decides: bool = False
    """Turns of the scenario approve or reject calls that wait for a person."""
    attachments: Callable[[], tuple[Attachment, ...]] | None = None
    """Images and files of the current user message, with their names; None: they are in the messages."""


class AgentReply(Struct, frozen=True, kw_only=True):
    """The answer of the agent to one request."""

    reply: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    """Calls that the agent made itself; None: not recorded."""
    hides_calls: bool = False
    """The recorded calls may not be all."""
    requested: tuple[ToolCall, ...] = ()
    """Calls that Seatrial must answer before the agent continues."""
    messages: tuple[Message, ...] = ()
    """Messages to append to the conversation; empty: an assistant message with the reply."""
    usage: Usage | None = None
    cost_usd: float | None = None
    attachments: tuple[Attachment, ...] = ()
    """Images and files of the reply."""
    contexts: tuple[RetrievedText, ...] | None = None
    """The texts that the agent retrieved; None: not known."""
    waited_ms: float = 0.0
    """Time before the agent started to work, such as the start of its process; it is not part of the latency."""
    awaits: tuple[str, ...] = ()
    """Calls that wait for a person: the next turn must approve, reject or resume them."""
    guardrail: str | None = None
    """The name of the guardrail that stopped the agent in this turn."""


class AgentSession(Protocol):
    """An agent during one trial. Raises AgentFailure for errors of the agent.

    An optional `reachable_tools` names the tools that the agent calls through Seatrial; None: all of the scenario.
    """

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply: ...

    async def close(self) -> None: ...


class Agent(Protocol):
    """The system under test, behind an adapter."""

    name: str
    answers_own_tools: bool
    """False if Seatrial answers its tool calls (endpoint, command)."""
    keeps_conversation: bool
    """False for a function that takes only the latest text; it cannot have several turns.

    An optional `takes_attachments` says whether it can receive images and files; without it, it cannot. An optional
    `continues` says whether it can continue a conversation from its messages (`seatrial fork`).
    """

    def open(self, start: TrialStart) -> AgentSession: ...

    async def close(self) -> None:
        """Release what the trials of the run share."""
        ...


class ScenarioWorld(Protocol):
    """The world of a scenario, for judging its trials."""

    def seed_documents(self) -> Mapping[str, Any]:
        """What a store keeps of the seed, by hash."""
        ...

    async def view(self, record: WorldRecord, *, seed: int, gold: Sequence[GoldCall] | None) -> WorldView:
        """The world at the end of a trial. Raises TrialError if the record was made with another seed."""
        ...

    async def check_gold(self, calls: Sequence[GoldCall]) -> list[str]:
        """What is wrong with gold calls."""
        ...

    async def reenact(
        self, transcript: Transcript, *, mocked: Container[str], real_tools: bool, seed: int
    ) -> Transcript:
        """The recorded transcript, with the end state that its calls produce."""
        ...


class UserMove(Struct, frozen=True, kw_only=True):
    """The next step of the user: a message, a decision, or the end."""

    message: str | None = None
    decision: Decision | None = None
    """The answer to an agent that waits for a person; `message` shows it."""
    goal_met: bool = False
    stop: bool = False
    attachments: tuple[Attachment, ...] = ()
    """Images and files of the message."""
    use: ModelUse | None = None
    """Model calls of a simulated user."""


class TrialUser(Protocol):
    """The user's side of one trial."""

    async def next(self, conversation: Sequence[tuple[str, str]]) -> UserMove:
        """The next step after these (user, reply) pairs. Raises TrialError(simulator)."""
        ...


class TrialJudge(Protocol):
    """Judges metrics, outcomes and behaviour failures of a trial in one request."""

    async def judge(self, ctx: TrialContext) -> tuple[Judgement, ModelUse]: ...


Hook = Callable[[Any], Any | Awaitable[Any]]


class ForkPoint(Struct, frozen=True, kw_only=True):
    """A stored conversation up to the point from which new trials continue."""

    turns: tuple[PlayedTurn, ...]
    """The complete turns before it."""
    open_turn: PlayedTurn | None
    """The turn in which it lies: its user message, and the calls before the point. None: between two turns."""
    next_call: ToolCall | None = None
    """A call that is made at the point, before the agent goes on."""
    seed: int
    """The seed of the stored trial. Its tools are restored with it."""


class PreparedScenario(Struct, frozen=True, kw_only=True):
    """A scenario with all the objects that running it needs."""

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
    """For every turn."""
    trial_evaluators: tuple[Evaluator, ...] = ()
    on_failure: tuple[Evaluator, ...] = ()
    """In a sweep over faults: what a reply must be that tells the user of the failure."""
    judge: TrialJudge | None = None
    history: tuple[Message, ...] = ()
    scripted: bool = True
    """The user follows a script; otherwise a simulated or programmed user decides when to stop."""
    max_turns: int = 8
    """The limit of turns without a script."""
    timeout_seconds: float = 30.0
    trial_timeout_seconds: float = 600.0
    retries: int = 0
    setup: tuple[Hook, ...] = ()
    teardown: tuple[Hook, ...] = ()
    tool_schemas: tuple[Mapping[str, Any], ...] = ()
    world: ScenarioWorld | None = None
    fork: ForkPoint | None = None
    """Where trials continue a stored conversation (`seatrial fork`); None: they begin at the beginning."""


@dataclass(slots=True)
class HookContext:
    """The input of setup and teardown functions."""

    scenario: Scenario
    trial_id: str
    index: int
    seed: int
    state: dict[str, Any] = field(default_factory=dict)
    """The state of the mocks: setup may fill it, teardown sees the end state."""


class RunRecord(Protocol):
    """A run and its trials, for reports and pages."""

    @property
    def run(self) -> Run: ...

    @property
    def outcome(self) -> RunOutcome:
        """The verdicts, from the stored rows."""
        ...

    @property
    def causes(self) -> Sequence[Cause]:
        """The causes of failures, with the most trials first."""
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
    """Trials already stored, in a resumed run."""


class TrialFinished(Struct, frozen=True, kw_only=True):
    """A trial was committed."""

    trial: Trial


class RunFinished(Struct, frozen=True, kw_only=True):
    run: Run


Event = RunStarted | ScenarioPlanned | TrialFinished | RunFinished
