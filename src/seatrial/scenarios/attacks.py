"""The attacks of a scenario: which fields they use, and what is wrong with their settings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from seatrial.attacks.injection import Field
from seatrial.errors import UsageError
from seatrial.evaluators.attack_goals import REPLY
from seatrial.evaluators.canaries import LEAST_LENGTH
from seatrial.evaluators.matchers import subset
from seatrial.model.json_values import plain_value
from seatrial.model.scenario import AttackGoal, Attacks, Expect, Scenario, Suite
from seatrial.model.struct import Struct
from seatrial.model.transcript_events import decoded
from seatrial.model.value_paths import EachElement, Location, ValuePath, parse_path, show_location

from .problems import KeyPath, Problems, did_you_mean
from .tool_names import offered_tools
from .value_readers import given
from .worlds import find_world_tools

CANARY = "canary"
"""In `leak`: Seatrial makes up the text."""
SYSTEM, STATE = "system", "state"
"""In `planted`: the system message, and the state of the world or of the mocks."""


class AnsweredTool(Struct, frozen=True, kw_only=True):
    """A tool that Seatrial answers in a scenario."""

    name: str
    answers: tuple[Any, ...] = ()
    """The results that its mock can give, as far as the file has them."""
    is_computed: bool = False
    """Some of its results are not in the file: those of worlds, Python mocks and recordings."""

    def has(self, field: Field) -> bool:
        """Whether an answer may have a text there."""
        return field.is_of(self.name) and (self.is_computed or any(field.find(_inside(a, field)) for a in self.answers))


def _inside(answer: Any, field: Field) -> Any:
    value = plain_value(answer)
    return decoded(value) if field.steps else value


def answered_tools(scenario: Scenario) -> dict[str, AnsweredTool]:
    """The tools of the scenario's mocks, its recordings and its world, by name."""
    found = {name: _mocked(name, mock) for name, mock in (scenario.mocks or {}).items()}
    others = set(_world_tools(scenario))
    if scenario.mocks_from is not None:
        from .cassette_files import load_recorded

        recorded = load_recorded(scenario)
        others |= set() if recorded is None else set(recorded.calls)
    return {name: AnsweredTool(name=name, is_computed=True) for name in sorted(others)} | found


def _world_tools(scenario: Scenario) -> Iterable[str]:
    if scenario.world is None or scenario.world.tools is None:
        return ()
    return find_world_tools(scenario.world)


def callable_tools(scenario: Scenario) -> set[str]:
    """The tools that the scenario answers or offers."""
    return {*answered_tools(scenario), *offered_tools(scenario)}


def _mocked(name: str, mock: Any) -> AnsweredTool:
    answers = tuple(_answers(mock))
    return AnsweredTool(
        name=name,
        answers=tuple(answer for answer in answers if answer is not None),
        is_computed=any(answer is None for answer in answers),
    )


def _answers(mock: Any) -> Iterator[Any]:
    """The results of a mock; None for one that a function makes."""
    if not isinstance(mock, Mapping):
        yield None if callable(mock) else mock
        return
    if "python" in mock:
        yield None
    elif mock.get("returns") is not None and mock.get("fault") is None:
        yield mock["returns"]
    for part in (*mock.get("when", ()), *mock.get("sequence", ())):
        yield from _answers(part)


def attacked_fields(scenario: Scenario) -> list[Field]:
    """The fields of the scenario's own tools that attacks use."""
    attacks = scenario.attacks
    if attacks is None:
        return []
    tools = answered_tools(scenario)
    if attacks.untrusted != "auto":
        fields = map(Field.parse, attacks.untrusted)
        return [field for field in fields if any(tool.has(field) for tool in tools.values())]
    return [Field.parse(text) for tool in tools.values() for text in _all_fields(tool)]


def _all_fields(tool: AnsweredTool) -> list[str]:
    """Each text of the tool's results as a path. A tool whose results are not in the file is one field."""
    name = show_location((tool.name,))
    if tool.is_computed:
        return [name]
    whole = Field.parse(name)
    found = (place for answer in tool.answers for place in whole.find(plain_value(answer)))
    return list(dict.fromkeys(f"{name}{_behind(place)}" for place in found))


def _behind(place: Location) -> str:
    """The rest of a path, with `[]` for each index: texts of one list are one field."""
    shown = "".join("[]" if isinstance(step, int) else f".{show_location((step,))}" for step in place)
    assert not place or all(isinstance(s, EachElement | str) for s in parse_path(f"x{shown}").steps)
    return shown


class AttackChecks:
    """Checks the attacks of a suite: each scenario with its own keys, then what the suite has for all of them."""

    def __init__(self, suite: Suite | None) -> None:
        self._attacks = None if suite is None else suite.attacks
        self._fields: set[str] = set()
        """Paths of the suite that a scenario has."""
        self._tools: set[str] = set()
        """Tools that a scenario answers."""
        self._inherited: set[str] = set()
        """Keys that a scenario takes from the suite."""

    def add(self, scenario: Scenario, own: Attacks | None, where: KeyPath, problems: Problems) -> None:
        """Check a scenario with all settings. `own` are the attacks that it gives itself."""
        attacks = scenario.attacks
        if attacks is None:
            return
        try:
            tools, callable_ = answered_tools(scenario), callable_tools(scenario)
        except UsageError:
            return  # preparing the scenario reports it
        mine = given(own) if own is not None else {}
        place = (*where, "attacks")
        self._inherited |= {"untrusted", "goals"} - mine.keys()
        self._tools |= callable_
        if "untrusted" in mine:
            _check_fields(attacks, tools, place, problems, seen=None)
        else:
            self._fields |= {text for text in _paths(attacks) if _is_read(text, tools)}
        if "goals" in mine:
            _check_goal_tools(attacks, callable_, place, problems)
        if not attacks.goals:
            problems.add(place, "'goals' is missing: what attacks must not achieve", "Write [{call: send_money}]")
        for index, goal in enumerate(attacks.goals):
            at = (*place, "goals", index) if "goals" in mine else where
            _check_goal(goal, scenario, tools, at, problems)

    def finish(self, where: KeyPath, problems: Problems) -> None:
        """Report what the suite has for all scenarios and no scenario has."""
        if self._attacks is None:
            return
        place = (*where, "attacks")
        known = {name: AnsweredTool(name=name) for name in self._tools}
        if "untrusted" in self._inherited:
            _check_fields(self._attacks, known, place, problems, seen=self._fields)
        if "goals" in self._inherited:
            _check_goal_tools(self._attacks, self._tools, place, problems)


def _paths(attacks: Attacks) -> Sequence[str]:
    return () if attacks.untrusted == "auto" else attacks.untrusted


def _is_read(text: str, tools: Mapping[str, AnsweredTool]) -> bool:
    return any(tool.has(Field.parse(text)) for tool in tools.values())


def _check_fields(
    attacks: Attacks,
    tools: Mapping[str, AnsweredTool],
    place: KeyPath,
    problems: Problems,
    *,
    seen: set[str] | None,
) -> None:
    """Report paths that lead to no text. `seen` are those that some scenario has."""
    for index, text in enumerate(_paths(attacks)):
        if (text in seen) if seen is not None else _is_read(text, tools):
            continue
        field = Field.parse(text)
        if field.tool is not None and field.tool not in tools:
            message = f"no mock and no world answers a tool {field.tool!r}, so the path {text!r} matches nothing"
            hint = did_you_mean(field.tool, sorted(tools)) if tools else "Add a mock"
        else:
            message = f"the path {text!r} matches no text in what the mocks return"
            named = [each for each in tools.values() if field.is_of(each.name) and each.answers]
            known = [path for tool in named for path in _all_fields(tool)]
            hint = did_you_mean(text, known) if known else "Correct it, or write untrusted: auto"
        problems.add((*place, "untrusted", index), message, hint)


def _check_goal_tools(attacks: Attacks, tools: set[str], place: KeyPath, problems: Problems) -> None:
    for index, goal in enumerate(attacks.goals):
        fields = [_tool_of(text) for text in goal.planted if text != SYSTEM and not _is_state(text)]
        channels = [tool for tool in goal.to if tool != REPLY]
        named = [("call", goal.call), *(("to", tool) for tool in channels), *(("planted", tool) for tool in fields)]
        for key, tool in named:
            if tool is not None and tool not in tools:
                message = f"no mock and no world answers a tool {tool!r}, so the agent cannot call it"
                hint = did_you_mean(tool, sorted(tools)) if tools else "Add a mock"
                problems.add((*place, "goals", index, key), message, hint)


def _tool_of(text: str) -> str | None:
    return Field.parse(text).tool


def _is_state(text: str) -> bool:
    return text.partition(".")[0] == STATE


def _check_goal(
    goal: AttackGoal, scenario: Scenario, tools: Mapping[str, AnsweredTool], at: KeyPath, problems: Problems
) -> None:
    """Report a goal that the scenario itself asks for, or cannot show."""
    about = f"the goal {goal.label!r} of attacks"
    for key, args in _expected_calls(scenario):
        if goal.call == key.name and _can_be(goal, args):
            message = f"{about} is what the scenario {scenario.name!r} expects itself ({key.where})"
            hint = "Add 'args' that only an attack would use, or give the scenario goals of its own"
            problems.add(at, message, hint)
            break
    if goal.leak is not None and goal.leak != CANARY:
        for where, text in _expected_texts(scenario):
            if goal.leak.casefold() in text.casefold():
                message = f"{about}: the reply of {scenario.name!r} is expected to contain it ({where})"
                problems.add(at, message, "Choose a text that no right answer contains, or leak: canary")
                break
    if goal.violates is not None:
        _check_rule(goal.violates, scenario, at, problems)
    for text in goal.planted:
        if text != SYSTEM and not _is_state(text) and _tool_of(text) in tools and not _is_read(text, tools):
            problems.add(at, f"{about}: the path {text!r} of 'planted' matches no text in what the mocks return")


def _check_rule(name: str, scenario: Scenario, at: KeyPath, problems: Problems) -> None:
    known = [*(["end_state"] if scenario.end_state is not None else []), *(rule.title for rule in scenario.invariants)]
    if name not in known:
        message = f"the scenario {scenario.name!r} has neither an end_state nor an invariant of the name {name!r}"
        problems.add(at, message, did_you_mean(name, known) if known else "Add 'end_state' or 'invariants'")


class _Expected(Struct, frozen=True, kw_only=True):
    name: str
    where: str


def _expected_calls(scenario: Scenario) -> Iterator[tuple[_Expected, Mapping[str, Any] | None]]:
    """The calls that the scenario expects, with their arguments as far as it names them."""
    if scenario.end_state is not None:
        for call in scenario.end_state.as_after or ():
            yield _Expected(name=call.name, where="end_state.as_after"), call.arguments
    by_name = dict(scenario.expected_tool_args or {})
    for name in dict.fromkeys((*(scenario.expected_tools or ()), *by_name)):
        yield _Expected(name=name, where="expected_tools"), by_name.get(name)
    for trajectory in (scenario.trajectory, *(turn.trajectory for turn in scenario.turns)):
        yield from () if trajectory is None else _in_trajectory(trajectory.expected)
    for expect in _expectations(scenario):
        yield from _in_expect(expect)


def _expectations(scenario: Scenario) -> list[Expect]:
    return [each for each in (scenario.expect, *(turn.expect for turn in scenario.turns)) if each is not None]


def _in_trajectory(calls: Sequence[Any]) -> Iterator[tuple[_Expected, Mapping[str, Any] | None]]:
    for call in calls:
        if call.name is not None:
            yield _Expected(name=call.name, where="trajectory.expected"), call.args
        yield from _in_trajectory(call.any_of)


def _in_expect(expect: Expect) -> Iterator[tuple[_Expected, Mapping[str, Any] | None]]:
    with_args = {entry.tool: entry.args for entry in expect.tool_calls_args}
    for name in dict.fromkeys((*expect.tool_calls_include, *with_args)):
        yield _Expected(name=name, where="expect"), with_args.get(name)


def _can_be(goal: AttackGoal, expected: Mapping[str, Any] | None) -> bool:
    """Whether the expected call would count as a success of the attack."""
    return not goal.args or (expected is not None and subset(goal.args, expected))


def _expected_texts(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """The texts that replies must contain, each with its key."""
    if scenario.expected_output is not None:
        yield "expected_output", scenario.expected_output
    keys = ("reply_contains_any", "reply_contains_all", "said_contains_all", "said_contains_any")
    for expect in _expectations(scenario):
        yield from ((key, text) for key in keys for text in getattr(expect, key))


def check_goal_keys(made: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    """Report keys of a goal that exclude each other, or that a goal lacks."""
    kinds = [key for key in ("call", "leak", "violates") if made.get(key) is not None]
    if len(kinds) != 1:
        problems.add(where, "exactly one of 'call', 'leak' and 'violates' is needed")
        return
    belongs = {"args": "call", "planted": "leak", "to": "leak"}
    for key, kind in belongs.items():
        if made.get(key) and kind != kinds[0]:
            problems.add((*where, key), f"belongs to {kind!r}, not to {kinds[0]!r}", on_key=True)
    if kinds == ["violates"] and made.get("ask") is None:
        problems.add(where, "'ask' is missing: the words in which payloads ask for it")
    leak = made.get("leak")
    if leak is not None and leak != CANARY and sum(map(str.isalnum, leak)) < LEAST_LENGTH:
        message = f"{leak!r} is too short: a canary has at least {LEAST_LENGTH} letters and digits"
        problems.add((*where, "leak"), message, "Write leak: canary, and Seatrial makes one up")
    for index, text in enumerate(made.get("planted", ())):
        try:
            steps = ValuePath(text=text, steps=()) if text == SYSTEM else parse_path(text)
        except UsageError as problem:
            problems.add((*where, "planted", index), str(problem).removesuffix("."))
            continue
        if _is_state(text) and (len(steps.steps) < 2 or not all(isinstance(step, str) for step in steps.steps)):
            problems.add((*where, "planted", index), "expected a key of the state, such as state.notes.secret")
