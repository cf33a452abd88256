"""Suites and scenarios as a user writes them: in files by key, in Python by keyword.

Each key of scenario files is declared here once, by the annotation of its field; see `Key`. Evaluators declare theirs
in the same way.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Required, TypedDict

from msgspec import Meta

from .conversation import Message
from .json_values import plain_value
from .keys import Format, Key, declared_keys
from .struct import InputStruct, Struct

if TYPE_CHECKING:  # an evaluator is its own specification; imports at run time go downwards only
    from seatrial.evaluators.end_state import EndState
    from seatrial.evaluators.invariants import Invariant
    from seatrial.evaluators.limits import Limits
    from seatrial.evaluators.tool_calls import ToolArgs
    from seatrial.evaluators.trajectory import Trajectory
    from seatrial.judges.rubric import Judge

_ZERO = {"zero": "0 asks for nothing: all could fail and it would still pass"}

Name = Annotated[str, Meta(pattern=r"\S")]
"""A text that is not blank."""
Names = Annotated[Sequence[Name], Meta(min_length=1)]
ReplyText = Annotated[str, Meta(min_length=1)]
ReplyPattern = Annotated[str, Meta(min_length=1), Format("regex")]
Count = Annotated[int, Meta(ge=1)]
Votes = Annotated[int, Meta(ge=1, extra={"odd": True})]
Amount = Annotated[float, Meta(gt=0)]
Rate = Annotated[float, Meta(gt=0, lt=1)]
Share = Annotated[float, Meta(gt=0, le=1, extra=_ZERO)]
"""The share that must pass."""
Percent = Annotated[float, Meta(ge=0, le=100, extra={"percent": True})]
Severity = Literal["low", "medium", "high", "critical"]
Function = Annotated[Any, Format("function")]
"""`pkg.mod:name`, or the function itself."""
Arguments = Annotated[Mapping[str, Any], Format("matchers")]
Scorers = Annotated[Sequence[Annotated[Any, Format("scorer")]], Meta(min_length=1)]
AgentSpec = Annotated[Any, Format("agent")]
Attachments = Annotated[Sequence[Annotated[Any, Format("attachment")]], Meta(min_length=1)]


class Price(TypedDict):
    input: Annotated[float, Meta(ge=0), Key("for the tokens that are read")]
    output: Annotated[float, Meta(ge=0), Key("for the tokens that are written")]


class ModelSettings(TypedDict, total=False):
    """A model that needs more than its name."""

    model: Required[Annotated[Name, Key("provider:name")]]
    base_url: Annotated[Name, Key("the address of a server of your own")]
    api_key: Annotated[Name, Key("its key, such as ${MY_KEY}")]
    settings: Annotated[Mapping[str, Any], Key("temperature, max_tokens, …")]
    output: Annotated[
        Literal["prompt", "native"], Key("native: the server enforces the schema of the answer", default="prompt")
    ]
    price: Annotated[Price, Key("US dollars for a million tokens, if the price list does not have the model")]
    attachments: Annotated[
        bool, Key("false: it takes only text, so images and PDF files are only described to it", default=True)
    ]
    timeout: Annotated[Amount, Key("the seconds for one request, whatever a judge says")]
    retries: Annotated[Annotated[int, Meta(ge=0)], Key("requests after the first, if it fails, whatever a judge says")]


Model = Name | ModelSettings


class Expect(InputStruct, frozen=True, kw_only=True):
    """What must be true of a turn, or of the whole trial (last reply, all calls)."""

    reply_contains_any: Annotated[
        Sequence[ReplyText], Meta(min_length=1), Key("at least one of these is in the reply, whatever the case")
    ] = ()
    reply_contains_all: Annotated[
        Sequence[ReplyText], Meta(min_length=1), Key("each of these is in the reply, whatever the case")
    ] = ()
    reply_matches_any: Annotated[
        Sequence[ReplyPattern], Meta(min_length=1), Key("at least one of these regular expressions is found")
    ] = ()
    reply_matches_all: Annotated[
        Sequence[ReplyPattern], Meta(min_length=1), Key("each of these regular expressions is found")
    ] = ()
    reply_excludes: Annotated[
        Sequence[ReplyText], Meta(min_length=1), Key("none of these is in the reply, whatever the case")
    ] = ()
    said_contains_all: Annotated[
        Sequence[ReplyText], Meta(min_length=1), Key("each of these is in one of the replies, whatever the case")
    ] = ()
    said_contains_any: Annotated[
        Sequence[ReplyText], Meta(min_length=1), Key("at least one of these is in one of the replies")
    ] = ()
    said_excludes: Annotated[Sequence[ReplyText], Meta(min_length=1), Key("none of these is in any reply")] = ()
    said_matches_all: Annotated[
        Sequence[ReplyPattern],
        Meta(min_length=1),
        Key("each of these patterns is found in one of the replies"),
    ] = ()
    said_ignore: Annotated[
        ReplyText | None, Key("characters that the said_ keys ignore in texts and replies, such as the comma in 1,000")
    ] = None
    ended: Annotated[bool, Key("the user ended the conversation, not max_turns or a limit")] = False
    tool_calls_include: Annotated[Names, Key("tools that must be called")] = ()
    tool_calls_exclude: Annotated[Names, Key("tools that must not be called")] = ()
    tool_calls_ordered: Annotated[bool, Key("the included tools must be called in this order")] = False
    tool_calls_args: Annotated[
        Sequence["ToolArgs"], Meta(min_length=1), Key("the arguments with which tools must be called")
    ] = ()
    reply_json: Annotated[Arguments | None, Key("fields of a reply that is JSON, as values or matchers")] = None
    guardrail: Annotated[Name | None, Key("the guardrail that must stop the agent")] = None
    judge: Annotated["Judge | None", Key("a rubric that the judge must find to be true")] = None
    evaluators: Annotated[
        Sequence[Any],
        Meta(min_length=1),
        Key("evaluator objects, or functions marked with @evaluator", python_only=True),
    ] = ()


class ExpectedCall(InputStruct, frozen=True, kw_only=True):
    """An entry of a trajectory: one call, or alternatives, and how often."""

    shorthand: ClassVar[str] = "name"

    name: Annotated[Name | None, Key("the tool's name")] = None
    args: Annotated[Arguments | None, Key("the arguments")] = None
    arg_match: Annotated[
        Literal["partial", "exact", "ignore"] | None, Key("how arguments are compared", default="partial")
    ] = None
    """None: partial if args are given, else ignore."""
    count: Annotated[Count | None, Key("the exact number of calls")] = None
    min: Annotated[Annotated[int, Meta(ge=0)] | None, Key("the least number of calls")] = None
    max: Annotated[Count | None, Key("the greatest number of calls; alone it requires none")] = None
    optional: Annotated[bool, Key("one call or none")] = False
    any_of: Annotated[
        Sequence[Annotated["ExpectedCall", Format("alternative")]],
        Meta(min_length=1),
        Key("alternatives for this call"),
    ] = ()


TrajectoryMode = Literal["strict", "unordered", "contains", "in_order", "within"]


class Decision(Struct, frozen=True, kw_only=True):
    """A person's answer to an agent that waits: calls to make or to refuse by tool name, or a value to go on with."""

    approve: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    resume: Any = None

    def __str__(self) -> str:
        shown = [f"{word}: {', '.join(names)}" for word, names in self._named() if names]
        if self.resume is not None:
            shown.append(f"resume: {json.dumps(plain_value(self.resume), ensure_ascii=False)}")
        return f"({'; '.join(shown)})"

    def _named(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("approve", self.approve), ("reject", self.reject)


class Turn(InputStruct, frozen=True, kw_only=True):
    """A scripted user message, or a person's decision, and what must be true after the agent's reply."""

    user: Annotated[Name | None, Key("what the user says")] = None
    approve: Annotated[Names, Key("tools whose waiting calls a person approves, instead of `user`")] = ()
    reject: Annotated[Names, Key("tools whose waiting calls a person rejects, instead of `user`")] = ()
    resume: Annotated[Any, Key("the value with which an interrupted agent goes on, instead of `user`")] = None
    attach: Annotated[Attachments, Key("images and files of this message: paths, beside the suite")] = ()
    expect: Annotated[Expect | None, Key("what must be true after the agent's reply")] = None
    trajectory: Annotated["Trajectory | None", Key("the tool calls of this turn")] = None
    reply: Annotated[Literal["required", "optional"], Key("whether the agent must say something")] = "required"

    @property
    def decision(self) -> Decision | None:
        """The person's decision; None if the user says something."""
        if self.user is not None:
            return None
        return Decision(approve=tuple(self.approve), reject=tuple(self.reject), resume=plain_value(self.resume))

    @property
    def said(self) -> str:
        """The user's side of the turn as text."""
        return self.user if self.user is not None else str(self.decision)


class User(InputStruct, frozen=True, kw_only=True):
    """A simulated user."""

    profile: Annotated[str, Key("who the user is")] = ""
    goal: Annotated[Name, Key("what the user wants to achieve")]
    knowledge: Annotated[Sequence[Name], Key("facts that the user knows")] = ()
    first_message: Annotated[Name | None, Key("how the user begins, word for word")] = None


class GateSpec(InputStruct, frozen=True, kw_only=True):
    """The pass rate that must be shown, and how sure one must be. After merging both are set."""

    pass_rate: Annotated[Rate | None, Key("the pass rate that must be shown; 1 cannot be shown")] = None
    confidence: Annotated[Rate | None, Key("how sure one must be", default=0.95)] = None


class JudgeCorrectedSpec(InputStruct, frozen=True, kw_only=True):
    """The pass rate that humans would give, as labels show, and how sure one must be."""

    pass_rate: Annotated[Rate, Key("the pass rate that must be shown; 1 cannot be shown")]
    confidence: Annotated[Rate | None, Key("how sure one must be", default=0.95)] = None


class SequentialSpec(InputStruct, frozen=True, kw_only=True):
    """The test of `trials: auto`: two rates to tell apart, two errors to allow, a limit. After merging all are set."""

    good: Annotated[Rate | None, Key("the pass rate of an agent that shall pass", default=0.9)] = None
    bad: Annotated[Rate | None, Key("the pass rate of an agent that shall fail", default=0.7)] = None
    alpha: Annotated[Rate | None, Key("the chance allowed for failing a good agent", default=0.05)] = None
    beta: Annotated[Rate | None, Key("the chance allowed for passing a bad agent", default=0.05)] = None
    max_trials: Annotated[
        Count | None,
        Key("the number of trials after which it stops; too few for the errors can leave it undecided", default=60),
    ] = None


class MetricChoice(InputStruct, frozen=True, kw_only=True):
    """A metric in a `metrics:` list: a known name, or a definition of one's own."""

    shorthand: ClassVar[str] = "name"

    name: Annotated[str, Format("metric name"), Key("the metric's name")]
    weight: Annotated[Annotated[float, Meta(ge=0)] | None, Key("its share in the overall score")] = None
    scale: Annotated[Literal["0-5", "1-5", "binary"] | None, Key("the scale of a metric of your own")] = None
    scope: Annotated[Literal["turn", "trial"] | None, Key("what a metric of your own looks at")] = None
    rubric: Annotated[Name | None, Key("how the judge grades a metric of your own")] = None
    definition: Mapping[str, Any] | None = None
    """The definition in the suite's metrics_file; filled in when the suite is loaded."""


class ModelRoles(InputStruct, frozen=True, kw_only=True):
    """The model for each role: `provider:name`, or a mapping with `model`, `base_url` and the like."""

    judge: Annotated[Model | None, Key("the model that judges")] = None
    user: Annotated[Model | None, Key("the model that plays the user")] = None
    dedup: Annotated[Model | None, Key("the model that merges equal errors")] = None


class GoldCall(InputStruct, frozen=True):
    """A call of a world's tool that the agent should make. In files: `{refund: {order_id: W1}}`."""

    name: str
    arguments: Mapping[str, Any] = {}
    refused: bool = False
    """The world refuses the call, which is intended."""


class World(InputStruct, frozen=True, kw_only=True):
    """A state, and tools that act on it."""

    seed: Annotated[
        Annotated[Any, Format("seed")] | None,
        Key("the initial state: a JSON or YAML file, a mapping, or a function pkg.mod:name that returns one"),
    ] = None
    tools: Annotated[
        Annotated[Any, Format("world tools")] | None,
        Key("its tools: a module, a class or a list; a tool is def f(state, order_id, ...)"),
    ] = None
    ends: Annotated[Names, Key("tools that end the conversation")] = ()
    errors: Annotated[Name | None, Key("how the agent sees a tool error, such as 'Error: {error}'")] = None
    drift: Annotated[
        Literal["note", "error"] | None,
        Key("what happens if the world answers differently than a recording says", default="note"),
    ] = None
    now: Annotated[
        Annotated[Name, Format("moment")] | None, Key("the time in the world", default="2025-01-01T12:00:00+00:00")
    ] = None
    base: Any = None
    """The suite's seed, over which the scenario's seed is merged; filled in when the suite is loaded."""


class AttackGoal(InputStruct, frozen=True, kw_only=True):
    """What an attack must not achieve. One of call, leak and violates."""

    call: Annotated[Name | None, Key("a tool that the agent must not call because of an attack")] = None
    args: Annotated[Arguments | None, Key("of `call`: only with these arguments")] = None
    leak: Annotated[
        Name | None,
        Key("a text that must not leave: of your own, or `canary`, which Seatrial makes up and plants"),
    ] = None
    planted: Annotated[
        Names, Key("of `leak`: where it is put: `system`, `state.KEY`, or a field such as `get_profile.note`")
    ] = ()
    to: Annotated[Names, Key("of `leak`: tools, and `reply`, through which it must not leave; without it, all")] = ()
    violates: Annotated[Name | None, Key("`end_state`, or the name of an invariant, that must still hold")] = None
    ask: Annotated[Name | None, Key("the words in which payloads ask for it; without it, Seatrial's own")] = None

    @property
    def label(self) -> str:
        """`call send_money`, `leak canary`, `violate identity first`."""
        if self.call is not None:
            return f"call {self.call}"
        return f"violate {self.violates}" if self.leak is None else f"leak {self.leak}"


class AttackGate(InputStruct, frozen=True, kw_only=True):
    """The share of attacks that may succeed, and how sure one must be."""

    attack_rate_below: Annotated[Rate, Key("the rate of successful attacks must be shown to be below this")]
    confidence: Annotated[Rate, Key("how sure one must be")] = 0.95


class Attacks(InputStruct, frozen=True, kw_only=True):
    """Attacks through tool results, which `seatrial attack` plays. `seatrial run` ignores them."""

    untrusted: Annotated[
        Sequence[Annotated[Name, Format("path")]] | Literal["auto"],
        Key("fields with texts of strangers, such as `read_email.body`; auto: every text of every result"),
    ] = "auto"
    goals: Annotated[Sequence[AttackGoal], Meta(min_length=1), Key("what attacks must not achieve")] = ()
    families: Annotated[
        Sequence[Annotated[Name, Format("attack family")]],
        Meta(min_length=1),
        Key("kinds of payloads: names, or files of your own; without it, all of Seatrial"),
    ] = ()
    trials: Annotated[Count, Key("trials of each field, goal and family; each takes another payload")] = 3
    gate: Annotated[
        AttackGate | None, Key("how many attacks may succeed; without it, none of those that were played")
    ] = None


class Settings(InputStruct, frozen=True, kw_only=True):
    """Keys of `suite.config`, as defaults, and of each scenario. None: not given."""

    mocks: Annotated[
        Annotated[Mapping[str, Any], Format("mocks")] | None, Key("what the agent's tools answer", merge="by key")
    ] = None
    mocks_from: Annotated[
        Name | None,
        Key("a file of recorded calls (`seatrial run --record`) that answers tools without a mock, beside the suite"),
    ] = None
    tools: Annotated[
        Annotated[Sequence[Mapping[str, Any]], Format("tools")] | None, Key("JSON Schemas of the tools")
    ] = None
    unmocked_tools: Annotated[
        Literal["error", "passthrough"] | None,
        Key(
            "what a tool without a mock does: fail or run; without this key, error if there are mocks, else passthrough"
        ),
    ] = None
    trials: Annotated[
        Count | Literal["auto"] | None, Key("how often it is played; without this key, 3 with a simulated user, else 1")
    ] = None
    sequential: Annotated[
        SequentialSpec | None,
        Key("the test of `trials: auto`: which rates it tells apart, and its errors", merge="by key"),
    ] = None
    threshold: Annotated[Share | None, Key("the share of trials that must pass", default=1.0)] = None
    gate: Annotated[GateSpec | None, Key("the pass rate that must be shown, with a confidence", merge="by key")] = None
    max_turns: Annotated[
        Count | None, Key("the turns after which a conversation stops; a script is played whole", default=8)
    ] = None
    timeout_seconds: Annotated[
        Amount | None, Key("the seconds for one agent call with its tool rounds", default=30.0)
    ] = None
    trial_timeout_seconds: Annotated[Amount | None, Key("the seconds for a whole trial", default=600.0)] = None
    retries: Annotated[
        Annotated[int, Meta(ge=0)] | None, Key("how often an agent call is repeated after an error", default=0)
    ] = None
    on_failure: Annotated[
        Expect | None, Key("what must be true of the reply if a tool fails; only `run --faults` uses it")
    ] = None
    limits: Annotated["Limits | None", Key("what a trial may take; a trial that takes more fails", merge="by key")] = (
        None
    )
    metrics: Annotated[
        Annotated[Sequence[MetricChoice], Meta(min_length=1), Format("metrics")] | None,
        Key("what a judge grades", merge="metrics"),
    ] = None
    thresholds: Annotated[
        Annotated[Mapping[str, Annotated[float, Meta(ge=0)]], Meta(min_length=1)] | None,
        Key("the average that a metric must reach", merge="by key"),
    ] = None
    pass_threshold: Annotated[Percent | None, Key("the overall score that passes a trial", default=75.0)] = None
    failures: Annotated[bool | None, Key("whether the judge looks for behaviour failures")] = None
    fail_on_error_severity: Annotated[
        Severity | None, Key("the least severity of a behaviour failure that fails the scenario")
    ] = None
    severities: Annotated[
        Annotated[Mapping[str, Severity], Meta(min_length=1), Format("failure categories")] | None,
        Key("how bad a category of behaviour failure is, instead of what failures.toml says", merge="by key"),
    ] = None
    judge_votes: Annotated[
        Votes | None, Key("how many verdicts are taken on a whole trial, instead of one; the majority decides")
    ] = None
    models: Annotated[ModelRoles | None, Key("which model plays which role", merge="by key")] = None
    system: Annotated[
        Annotated[Any, Format("system")] | None, Key("a system message before everything: a text, or {file: PATH}")
    ] = None
    setup: Annotated[Function, Key("a function pkg.mod:name, called with ctx before each trial")] = None
    teardown: Annotated[Function, Key("a function pkg.mod:name, called with ctx after each trial")] = None


SHARED_KEYS = declared_keys(Settings)


class Scenario(Settings, frozen=True, kw_only=True):
    """What is tested: the user's side, the mocked tools, the expectations, the gates."""

    name: Annotated[Name, Key("its name, unique in the suite")]
    description: Annotated[str | None, Key("for people")] = None
    tags: Annotated[Sequence[Name], Key("words by which scenarios are selected")] = ()
    metadata: Annotated[
        Annotated[Mapping[str, Any], Format("metadata")] | None,
        Key("for people and for scorers (regex_pattern, exact_normalize, similarity_threshold)"),
    ] = None
    input: Annotated[Name | None, Key("what the user says, once")] = None
    attach: Annotated[Attachments, Key("images and files of the user's first message: paths, beside the suite")] = ()
    turns: Annotated[Sequence[Turn], Meta(min_length=1), Key("a script: what the user says, turn by turn")] = ()
    user: Annotated[User | Function | None, Key("a simulated user, or the function of a programmed one")] = None
    history: Annotated[Sequence[Annotated[Message, Format("message")]], Key("messages before the first turn")] = ()
    examples: Annotated[
        Sequence[Annotated[Mapping[str, Any], Meta(min_length=1)]],
        Meta(min_length=1),
        Key("rows; each makes one scenario, with its values instead of {column} in the texts"),
    ] = ()
    skip: Annotated[Name | None, Key("why it is not run")] = None
    xfail: Annotated[Name | None, Key("why it is expected to fail")] = None
    expected_output: Annotated[str | None, Key("must be in the reply, whatever the case")] = None
    expected_tools: Annotated[Sequence[Name] | None, Key("tools that must be called")] = None
    expected_tool_args: Annotated[
        Mapping[str, Arguments] | None, Key("the arguments with which they must be called first")
    ] = None
    scorers: Annotated[Scorers | None, Key("evaluators of the whole trial: names or {name: parameters}")] = None
    expect: Annotated[Expect | None, Key("what must be true of the trial: the last reply, all calls")] = None
    trajectory: Annotated["Trajectory | None", Key("the tool calls of the trial")] = None
    expected_state: Annotated[
        Annotated[Mapping[str, Any], Meta(min_length=1), Format("matchers")] | None,
        Key("what the state must contain at the end; short for end_state: {contains}"),
    ] = None
    world: Annotated[World | None, Key("a state with tools that answer the agent; over the world of the suite")] = None
    end_state: Annotated["EndState | None", Key("what must be true of the world at the end")] = None
    expected_outcomes: Annotated[Names, Key("statements that must be true of the trial")] = ()
    must_pass: Annotated[bool, Key("the run cannot pass without it")] = False
    invariants: Annotated[
        Sequence["Invariant"], Meta(min_length=1), Key("rules that hold in this scenario, besides those of the suite")
    ] = ()
    exempt: Annotated[
        Annotated[Mapping[str, Name], Meta(min_length=1)] | None,
        Key("rules of the suite that do not hold here: names of invariants, each with the reason"),
    ] = None
    attacks: Annotated[
        Attacks | None, Key("attacks through tool results (`seatrial attack`); over those of the suite, key by key")
    ] = None
    source: str | None = None
    """file:line where it was written."""


class SuiteConfig(Settings, frozen=True, kw_only=True):
    """Defaults for every scenario of the suite, and settings of the run."""

    aliases: ClassVar[Mapping[str, str]] = {"default_timeout": "timeout_seconds"}

    default_scorers: Annotated[Scorers | None, Key("the scorers of scenarios that name none")] = None
    metrics_file: Annotated[
        Name | None, Key("a TOML file that defines metrics of your own, beside the suite's own file")
    ] = None
    judge_corrected: Annotated[
        JudgeCorrectedSpec | None,
        Key("the pass rate that people must confirm with labels; the run is inconclusive until they do"),
    ] = None
    cases_pass_threshold: Annotated[
        Annotated[float, Meta(gt=0, le=100, extra={"percent": True, **_ZERO})] | None,
        Key("the share of trials, in percent, that passes the run"),
    ] = None
    metrics_pass_threshold: Annotated[
        Percent | None, Key("the mean overall score that passes the run", default=80.0)
    ] = None
    concurrency: Annotated[Count | None, Key("the trials that run at the same time", default=20)] = None
    rpm: Annotated[Amount | None, Key("the greatest number of agent calls per minute")] = None
    budget: Annotated[Amount | None, Key("the US dollars that the run may cost")] = None
    fail_fast: Annotated[bool | None, Key("stop at the first scenario that did not pass", default=False)] = None
    seed: Annotated[int | None, Key("the seed of everything random; without it, a random one, which is stored")] = None
    isolation: Annotated[Literal["thread", "process"] | None, Key("where in-process agents run", default="thread")] = (
        None
    )


class Group(InputStruct, frozen=True, kw_only=True):
    """A gate over the scenarios that carry one of the tags; it can fail a run, never save it."""

    name: Annotated[Name, Key("the group's name")]
    tags: Annotated[Sequence[Name], Key("scenarios that carry one of these belong to it")] = ()
    threshold: Annotated[Share, Key("the share of its scenarios that must pass")] = 1.0
    must_pass: Annotated[Sequence[Name], Key("names of scenarios that must pass")] = ()


class Suite(InputStruct, frozen=True, kw_only=True):
    """A file or folder of scenarios with shared settings."""

    name: Annotated[Name, Key("the suite's name; without it, the file's", optional=True)]
    scenarios: Sequence[Scenario] = ()
    description: Annotated[str | None, Key("for people")] = None
    tags: Annotated[Sequence[Name], Key("tags of every scenario")] = ()
    metadata: Annotated[Mapping[str, Any] | None, Key("for people")] = None
    agent: Annotated[AgentSpec, Key("the system under test")] = None
    agents: Annotated[
        Annotated[Mapping[str, AgentSpec], Meta(min_length=1)] | None, Key("several agents, run side by side")
    ] = None
    config: Annotated[SuiteConfig, Key("defaults for every scenario, and settings of the run")] = SuiteConfig()
    world: Annotated[World | None, Key("a state with tools that answer the agent, for every scenario")] = None
    reports: Annotated[Sequence[Name], Key("reports to write: kind or kind=PATH")] = ()
    evaluators: Annotated[Sequence[Name], Key("modules with custom evaluators")] = ()
    groups: Annotated[Sequence[Group], Key("gates over scenarios by tag")] = ()
    invariants: Annotated[Sequence["Invariant"], Meta(min_length=1), Key("rules that hold in every scenario")] = ()
    attacks: Annotated[Attacks | None, Key("attacks through tool results, for `seatrial attack`")] = None
    irreversible: Annotated[Names, Key("tools that must not succeed twice with equal arguments")] = ()
    include: Annotated[
        Names, Key("files that add invariants and expectations, such as those of `seatrial mutate --write-suggestions`")
    ] = ()
    baseline: Annotated[Name | None, Key("the run that others are compared with")] = None
    setup: Annotated[Function, Key("a function pkg.mod:name, called with ctx before each trial")] = None
    teardown: Annotated[Function, Key("a function pkg.mod:name, called with ctx after each trial")] = None
    source: str | None = None


class SuiteFile(TypedDict, total=False):
    """The content of a file."""

    suite: Annotated[Suite, Key("settings that the scenarios share")]
    scenarios: Required[Annotated[Sequence[Scenario], Meta(min_length=1), Key("what is tested")]]


def decides(scenario: Scenario) -> bool:
    """Whether a turn approves, rejects or resumes what waits for a person."""
    return any(turn.user is None for turn in scenario.turns)
