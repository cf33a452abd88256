"""From a scenario with all settings to the evaluators, users, tools and hooks that a run uses."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import asdict, replace

from seatrial.errors import MissingExtra, UsageError
from seatrial.evaluators.text import ReplyProduced
from seatrial.foreign.import_path import import_attribute
from seatrial.model.protocols import (
    Agent,
    Evaluator,
    Hook,
    PreparedScenario,
    ToolBox,
    TrialJudge,
    TrialUser,
    UserMove,
)
from seatrial.model.results import Severity
from seatrial.model.run import Gates, ScenarioEntry, ScenarioKey
from seatrial.model.scenario import Scenario, Turn, User, decides
from seatrial.model.struct import Struct
from seatrial.tools.tool_box import NoMocks
from seatrial.tools.world import PreparedWorld
from seatrial.users.scripted import AttachingUser, ScriptedUser

from .build_evaluators import build_expectations, build_scorer, scorer_names
from .fingerprint import fingerprints
from .loaded_suite import LoadedSuite
from .merge import DEFAULTS, SEQUENTIAL, default_unmocked_tools
from .models import RunModels
from .tool_names import must_not_call, offered_definitions, offered_tools
from .worlds import world_of

if TYPE_CHECKING:
    from seatrial.tools.cassettes import RecordedTools

_REPLY = ReplyProduced()


class SuiteContext(Struct, frozen=True, kw_only=True):
    """What the scenarios of a suite share when one agent plays them."""

    suite: str
    agent: Agent
    agent_name: str = ""
    """Set if several agents run side by side."""
    agent_key: str = ""
    """Identifies the agent in fingerprints."""
    evaluators: Mapping[str, Any] = field(default_factory=dict)
    """The suite's custom evaluators."""
    setup: tuple[Hook, ...] = ()
    teardown: tuple[Hook, ...] = ()
    records: bool = False
    """Real tools run, to record their calls."""
    models: RunModels = field(default_factory=RunModels)


def prepare(scenario: Scenario, context: SuiteContext, *, position: int) -> PreparedScenario:
    """The scenario, ready to be played. Raises UsageError if it does not fit the agent."""
    _require_memory(scenario, context.agent)
    _require_decisions(scenario, context.agent)
    _require_attachments(scenario, context.agent)
    turns, every_turn = _turn_evaluators(scenario, context)
    world = world_of(scenario)
    setup = (*context.setup, *_hooks(scenario.setup, f"{_place(scenario)}setup"))
    entry = make_entry(
        scenario,
        key=ScenarioKey(context.suite, scenario.name, context.agent_name),
        agent_key=context.agent_key,
        evaluators=context.evaluators,
        position=position,
        known_tools=getattr(context.agent, "tool_names", None) or frozenset(),
    )
    uses_mocks = bool(scenario.mocks or scenario.mocks_from or setup or scenario.expected_state or scenario.end_state)
    return PreparedScenario(
        entry=replace(entry, recorded=world is None and uses_mocks and getattr(context.agent, "replays", False)),
        scenario=scenario,
        agent=context.agent,
        make_user=make_user(scenario, context),
        make_tools=make_tools(scenario, world, records=context.records),
        turn_evaluators=turns,
        every_turn_evaluators=every_turn,
        trial_evaluators=_trial_evaluators(scenario, context),
        judge=_judge(scenario, context),
        history=_history(scenario),
        scripted=scenario.user is None,
        max_turns=_setting(scenario, "max_turns"),
        timeout_seconds=_setting(scenario, "timeout_seconds"),
        trial_timeout_seconds=_setting(scenario, "trial_timeout_seconds"),
        retries=_setting(scenario, "retries"),
        setup=setup,
        teardown=(*_hooks(scenario.teardown, f"{_place(scenario)}teardown"), *context.teardown),
        tool_schemas=offered_definitions(scenario, world),
        world=world,
    )


def _setting(scenario: Scenario, key: str) -> Any:
    value = getattr(scenario, key)
    return DEFAULTS[key] if value is None else value


def make_entry(
    scenario: Scenario,
    *,
    key: ScenarioKey,
    agent_key: str,
    evaluators: Mapping[str, Any],
    position: int,
    known_tools: frozenset[str] = frozenset(),
) -> ScenarioEntry:
    """What a run stores about the scenario, played or not."""
    sequential = _sequential(scenario)
    known = known_tools | offered_tools(scenario) if scenario.tools or scenario.world else known_tools
    whole, of_trial = fingerprints(scenario, agent_key, evaluators=evaluators)
    return ScenarioEntry(
        key=key,
        position=position,
        fingerprint=whole,
        trial_fingerprint=of_trial,
        trials=int(scenario.trials or 1) if sequential is None else int(sequential["max_trials"]),
        sequential=sequential,
        gates=_gates(scenario),
        tags=tuple(scenario.tags),
        skip=scenario.skip,
        xfail=scenario.xfail,
        source=scenario.source,
        mocks=tuple(name for name in scenario.mocks or () if name not in known),
        must_not_call=tuple(name for name in must_not_call(scenario) if name not in known),
        invariants=tuple(rule.title for rule in scenario.invariants),
        exempt=dict(scenario.exempt) if scenario.exempt else None,
    )


def _gates(scenario: Scenario) -> Gates:
    gate = scenario.gate
    severity = Severity(scenario.fail_on_error_severity or "critical") if scenario.failures else None
    return Gates(
        threshold=_setting(scenario, "threshold"),
        pass_rate=None if gate is None else gate.pass_rate,
        confidence=None if gate is None else gate.confidence,
        metric_thresholds=dict(scenario.thresholds) if scenario.thresholds else None,
        fail_on_error_severity=severity,
        pass_threshold=_setting(scenario, "pass_threshold"),
        must_pass=scenario.must_pass,
    )


def _sequential(scenario: Scenario) -> Mapping[str, float] | None:
    if scenario.trials != "auto":
        return None
    spec = scenario.sequential or SEQUENTIAL
    return {**asdict(spec), "rule": 2}


def _require_memory(scenario: Scenario, agent: Agent) -> None:
    several = len(scenario.turns) > 1 or scenario.user is not None
    if (several or scenario.history or scenario.system) and not agent.keeps_conversation:
        raise UsageError(
            f"{_place(scenario)}scenario {scenario.name!r} has more than one message, but the agent {agent.name!r} "
            "takes only the latest one (input), so it cannot know the earlier ones; let it take messages, or give "
            "a class or a factory, which makes a new agent for each trial"
        )


def _require_attachments(scenario: Scenario, agent: Agent) -> None:
    """Refuse to drop images and files: the agent would be judged by what it never got."""
    attached = scenario.attach or any(turn.attach for turn in scenario.turns)
    if attached and not getattr(agent, "takes_attachments", False):
        raise UsageError(
            f"{_place(scenario)}scenario {scenario.name!r} attaches images or files, but the agent {agent.name!r} "
            "takes only text. A function gets them if it takes messages or ctx; type http, if its body has "
            "{{messages}}; endpoints, commands and most frameworks, always; smolagents and crewai, never"
        )


def _place(scenario: Scenario) -> str:
    return f"{scenario.source}: " if scenario.source else ""


def _history(scenario: Scenario) -> tuple[dict[str, Any], ...]:
    if not scenario.system and not scenario.history:
        return ()
    system = ({"role": "system", "content": scenario.system},) if scenario.system else ()
    return (*system, *(dict(message) for message in scenario.history))


def make_user(scenario: Scenario, context: SuiteContext) -> Callable[[int, int], TrialUser]:
    """(trial, seed) -> the user of that trial. Raises UsageError for a function that cannot be imported."""
    if scenario.user is None:
        first = UserMove(message=scenario.input or "", attachments=tuple(scenario.attach))
        moves = tuple(_move(turn) for turn in scenario.turns) or (first,)
        return lambda index, seed: ScriptedUser(moves)
    if isinstance(scenario.user, User):
        make = context.models.simulated_user(scenario.user, scenario)
        return lambda index, seed: _attaching(make(index), scenario)
    given = scenario.user
    function = import_attribute(given, what=f"{_place(scenario)}user") if isinstance(given, str) else given
    from seatrial.users.scripted import FunctionUser

    return lambda index, seed: _attaching(FunctionUser(function, trial=index, seed=seed), scenario)


def _attaching(user: TrialUser, scenario: Scenario) -> TrialUser:
    return AttachingUser(user, scenario.attach) if scenario.attach else user


def _move(turn: Turn) -> UserMove:
    return UserMove(message=turn.said, decision=turn.decision, attachments=tuple(turn.attach))


def _require_decisions(scenario: Scenario, agent: Agent) -> None:
    if decides(scenario) and not getattr(agent, "takes_decisions", False):
        from seatrial.agents.frameworks.registry import FRAMEWORKS

        kinds = ", ".join(kind for kind, framework in FRAMEWORKS.items() if framework.decisions)
        raise UsageError(
            f"{_place(scenario)}scenario {scenario.name!r} has a turn with approve, reject or resume, but the agent "
            f"{agent.name!r} cannot wait for a person; agents of these types can: {kinds}"
        )


def make_tools(
    scenario: Scenario, world: PreparedWorld | None, *, records: bool = False
) -> Callable[[str, int], ToolBox]:
    """(trial id, seed) -> the tools of that trial. Raises UsageError for mocks that cannot work.

    `records`: tools without a mock run, and recorded calls are not used.
    """
    if records:
        scenario = replace(scenario, unmocked_tools="passthrough", mocks_from=None)
    default = default_unmocked_tools(scenario.mocks or scenario.mocks_from, scenario.world)
    unmocked_tools = scenario.unmocked_tools or default
    if (
        scenario.mocks_from is None
        and not scenario.mocks
        and not scenario.tools
        and world is None
        and unmocked_tools == "passthrough"
    ):
        return NoMocks
    from seatrial.evaluators.built_in import check_expected
    from seatrial.evaluators.matchers import matches
    from seatrial.tools.tool_box import MockSet

    try:
        mocks = MockSet.parse(
            scenario.mocks,
            matches=matches,
            tools=scenario.tools,
            unmocked_tools=unmocked_tools,
            check_args=check_expected,
            world=world,
            recorded=_load_recorded(scenario),
        )
    except MissingExtra:
        raise
    except UsageError as problem:
        raise UsageError(f"{_place(scenario)}{problem}") from problem
    return mocks.open


def _load_recorded(scenario: Scenario) -> "RecordedTools | None":
    if scenario.mocks_from is None:
        return None
    from .cassette_files import load_recorded

    return load_recorded(scenario)


def _turn_evaluators(
    scenario: Scenario, context: SuiteContext
) -> tuple[tuple[tuple[Evaluator, ...], ...], tuple[Evaluator, ...]]:
    if not scenario.turns:
        if scenario.user is not None:
            return (), (_REPLY,)
        return (() if _check_empty_reply(scenario.scorers or ()) else ((_REPLY,),)), ()
    found = []
    for turn in scenario.turns:
        checks: list[Evaluator] = [_REPLY] if turn.reply == "required" else []
        if turn.expect is not None:
            checks += build_expectations(turn.expect, scenario, context.models)
        if turn.trajectory is not None:
            checks.append(turn.trajectory)
        found.append(tuple(checks))
    return tuple(found), ()


def _check_empty_reply(scorers: Sequence[Any]) -> bool:
    """Whether the scorers decide about an empty reply: passfail refuses it, and exact may expect it."""
    names = [*scorer_names(scorers), *(getattr(each, "name", None) for each in scorers)]
    return any(name in ("passfail", "exact") for name in names)


def _trial_evaluators(scenario: Scenario, context: SuiteContext) -> tuple[Evaluator, ...]:
    checks = [
        evaluator
        for scorer in scenario.scorers or ()
        for evaluator in build_scorer(scorer, scenario, context.evaluators, context.models)
    ]
    if scenario.expect is not None:
        checks += build_expectations(scenario.expect, scenario, context.models)
    if scenario.trajectory is not None:
        checks.append(scenario.trajectory)
    if scenario.expected_state is not None:
        from seatrial.evaluators.end_state import EndState

        checks.append(EndState(contains=scenario.expected_state))
    if scenario.end_state is not None:
        checks.append(scenario.end_state)
    if scenario.limits is not None:
        checks.append(scenario.limits)
    return (*checks, *scenario.invariants)


def _judge(scenario: Scenario, context: SuiteContext) -> TrialJudge | None:
    if not (scenario.metrics or scenario.expected_outcomes or scenario.failures):
        return None
    return context.models.trial_judge(scenario)


def _hooks(given: Any, what: str) -> tuple[Hook, ...]:
    if given is None:
        return ()
    return (import_attribute(given, what=what) if isinstance(given, str) else given,)


def read_hooks(loaded: LoadedSuite, which: str) -> tuple[Hook, ...]:
    """A suite's setup or teardown: `pkg.mod:fn`, a function, or nothing."""
    return _hooks(getattr(loaded.suite, which), f"{loaded.path}: {which}")
