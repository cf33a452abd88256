"""What is tested, as a user writes it down: in YAML by key, in Python by keyword."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .conversation import Message
from .struct import InputStruct

if TYPE_CHECKING:  # an evaluator is its own specification; imports at run time go downwards only
    from seatrial.evaluators.limits import Limits
    from seatrial.evaluators.tool_calls import ToolArgs
    from seatrial.evaluators.trajectory import Trajectory
    from seatrial.judges.rubric import Judge


class Expect(InputStruct, frozen=True, kw_only=True):
    """What must be true of a turn, or of the whole trial (last reply, all calls)."""

    reply_contains_any: Sequence[str] = ()
    reply_contains_all: Sequence[str] = ()
    reply_matches_any: Sequence[str] = ()
    reply_matches_all: Sequence[str] = ()
    reply_excludes: Sequence[str] = ()
    tool_calls_include: Sequence[str] = ()
    tool_calls_exclude: Sequence[str] = ()
    tool_calls_ordered: bool = False
    tool_calls_args: Sequence["ToolArgs"] = ()
    judge: "Judge | None" = None
    evaluators: Sequence[Any] = ()
    """Python only: evaluator objects, or functions marked with @evaluator."""


class ExpectedCall(InputStruct, frozen=True, kw_only=True):
    """An entry of a trajectory: one call, or alternatives, and how often."""

    name: str | None = None
    args: Mapping[str, Any] | None = None
    arg_match: Literal["partial", "exact", "ignore"] | None = None
    """None: partial when args are given, else ignore."""
    count: int | None = None
    min: int | None = None
    max: int | None = None
    optional: bool = False
    any_of: Sequence["ExpectedCall"] = ()


TrajectoryMode = Literal["strict", "unordered", "contains", "in_order", "within"]


class Turn(InputStruct, frozen=True, kw_only=True):
    """A scripted user message and what must be true after the agent's reply."""

    user: str
    expect: Expect | None = None
    trajectory: "Trajectory | None" = None
    reply: Literal["required", "optional"] = "required"


class User(InputStruct, frozen=True, kw_only=True):
    """A simulated user."""

    profile: str = ""
    goal: str
    knowledge: Sequence[str] = ()
    first_message: str | None = None


class GateSpec(InputStruct, frozen=True, kw_only=True):
    """The pass rate that must be shown, and how sure one must be. After merging both are set (confidence: 0.95)."""

    pass_rate: float | None = None
    confidence: float | None = None


class SequentialSpec(InputStruct, frozen=True, kw_only=True):
    """The test behind `trials: auto`: two rates to tell apart, two errors to allow, and where to give up.

    After merging all are set (0.9, 0.7, 0.05, 0.05, 60).
    """

    good: float | None = None
    bad: float | None = None
    alpha: float | None = None
    """The chance allowed for failing an agent that is good."""
    beta: float | None = None
    """The chance allowed for passing an agent that is bad."""
    max_trials: int | None = None


class MetricChoice(InputStruct, frozen=True, kw_only=True):
    """A metric in a `metrics:` list: a known name, or a definition of one's own."""

    name: str
    weight: float | None = None
    scale: Literal["0-5", "1-5", "binary"] | None = None
    scope: Literal["turn", "trial"] | None = None
    rubric: str | None = None
    definition: Mapping[str, Any] | None = None
    """What the suite's metrics_file says of it; filled in when the suite is loaded."""


class ModelRoles(InputStruct, frozen=True, kw_only=True):
    """Which model plays which role: `provider:name`, or a mapping with `model`, `base_url` and the like."""

    judge: str | Mapping[str, Any] | None = None
    user: str | Mapping[str, Any] | None = None
    dedup: str | Mapping[str, Any] | None = None


class Settings(InputStruct, frozen=True, kw_only=True):
    """Keys that may stand in `suite.config` as the default and in a scenario as its own. None: not given."""

    mocks: Mapping[str, Any] | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    unmocked_tools: Literal["error", "passthrough"] | None = None
    trials: int | Literal["auto"] | None = None
    sequential: SequentialSpec | None = None
    threshold: float | None = None
    gate: GateSpec | None = None
    max_turns: int | None = None
    timeout_seconds: float | None = None
    trial_timeout_seconds: float | None = None
    retries: int | None = None
    limits: "Limits | None" = None
    metrics: Sequence[MetricChoice] | None = None
    thresholds: Mapping[str, float] | None = None
    pass_threshold: float | None = None
    failures: bool | None = None
    fail_on_error_severity: Literal["low", "medium", "high", "critical"] | None = None
    severities: Mapping[str, Literal["low", "medium", "high", "critical"]] | None = None
    """How bad a category of behaviour failure is, instead of what failures.toml says."""
    judge_votes: int | None = None
    """How often the judge is asked about a whole trial; odd, the majority decides."""
    models: ModelRoles | None = None
    setup: Any = None
    """`pkg.mod:fn` or a function, called with ctx before each trial."""
    teardown: Any = None


SHARED_KEYS = Settings.__struct_fields__


class Scenario(Settings, frozen=True, kw_only=True):
    """What is tested: the user's side, the mocked tools, the expectations, the gates."""

    name: str
    description: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None
    input: str | None = None
    turns: Sequence[Turn] = ()
    user: Any = None
    """A User, `pkg.mod:function`, or a function."""
    history: Sequence[Message] = ()
    system: str | None = None
    examples: Sequence[Mapping[str, Any]] = ()
    skip: str | None = None
    xfail: str | None = None
    expected_output: str | None = None
    expected_tools: Sequence[str] | None = None
    expected_tool_args: Mapping[str, Mapping[str, Any]] | None = None
    scorers: Sequence[Any] | None = None
    expect: Expect | None = None
    trajectory: "Trajectory | None" = None
    expected_state: Mapping[str, Any] | None = None
    expected_outcomes: Sequence[str] = ()
    must_pass: bool = False
    source: str | None = None
    """file:line where it was written."""


class SuiteConfig(Settings, frozen=True, kw_only=True):
    """Defaults for every scenario of the suite, and how the run goes about it."""

    default_scorers: Sequence[Any] | None = None
    metrics_file: str | None = None
    """Metrics of one's own in the form of metrics.toml; also others in place of those that come with the package."""
    cases_pass_threshold: float | None = None
    metrics_pass_threshold: float | None = None
    concurrency: int | None = None
    rpm: float | None = None
    budget: float | None = None
    fail_fast: bool | None = None
    seed: int | None = None
    isolation: Literal["thread", "process"] | None = None


class Group(InputStruct, frozen=True, kw_only=True):
    """A gate over the scenarios that carry one of the tags; it can fail a run, never save it."""

    name: str
    tags: Sequence[str] = ()
    threshold: float = 1.0
    must_pass: Sequence[str] = ()


class Suite(InputStruct, frozen=True, kw_only=True):
    """A file or folder of scenarios with shared settings."""

    name: str
    scenarios: Sequence[Scenario] = ()
    description: str | None = None
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None
    agent: Any = None
    """A spec as in files, or a Python object."""
    agents: Mapping[str, Any] | None = None
    config: SuiteConfig = SuiteConfig()
    reports: Sequence[str] = ()
    evaluators: Sequence[str] = ()
    groups: Sequence[Group] = ()
    baseline: str | None = None
    setup: Any = None
    teardown: Any = None
    source: str | None = None
