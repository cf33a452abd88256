"""The names of tools that a scenario mentions, and whether its agents have such tools."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from seatrial.evaluators.registry import EVALUATORS, build_evaluator
from seatrial.evaluators.tool_calls import ToolArgs
from seatrial.model.protocols import Agent
from seatrial.model.scenario import Expect, ExpectedCall, Scenario, Turn
from seatrial.tools.world import PreparedWorld
from seatrial.tools.world_tools import definitions

from .worlds import find_world_tools

if TYPE_CHECKING:
    from seatrial.evaluators.invariants import Invariant

_SHOWN = 20
"""The greatest number of the agent's tools in a message about an unknown one."""


_RULES = "invariants."


class NamedTool(NamedTuple):
    """A tool that a scenario mentions."""

    key: str
    """The key that names it."""
    name: str
    must_not: bool = False
    """The tool must not be called. A misspelt name would pass forever."""


def named_tools(scenario: Scenario) -> Iterator[NamedTool]:
    """Every tool that the scenario's mocks and expectations name."""
    yield from (NamedTool("mocks", name) for name in scenario.mocks or ())
    if scenario.end_state is not None:
        yield from (NamedTool("end_state.as_after", call.name) for call in scenario.end_state.as_after or ())
    yield from tools_in(scenario)
    yield from (
        named._replace(key=f"on_failure.{named.key}", must_not=False) for named in tools_in(scenario.on_failure)
    )
    for holder in _holders(scenario):
        yield from tools_in(holder.expect)
        yield from tools_in(holder.trajectory, "trajectory.")
    for evaluator in _evaluators(scenario):
        yield from tools_in(evaluator)
    for rule in scenario.invariants:
        yield from _in_rule(rule)


def must_not_call(scenario: Scenario) -> tuple[str, ...]:
    """The tools that must not be called, each once."""
    return tuple(dict.fromkeys(named.name for named in named_tools(scenario) if named.must_not))


def offered_tools(scenario: Scenario) -> frozenset[str]:
    """The tools under `tools:`, and those of the world."""
    named = _defined_tools(scenario)
    if scenario.world is None or scenario.world.tools is None:
        return named
    return named.union(find_world_tools(scenario.world))


def offered_definitions(scenario: Scenario, world: PreparedWorld | None) -> tuple[Mapping[str, Any], ...]:
    """The definitions that endpoints and programs get: those under `tools:`, and the other tools of the world."""
    defined = tuple(scenario.tools or ())
    if world is None:
        return defined
    named = _defined_tools(scenario)
    return (*defined, *definitions(tool for tool in world.tools.values() if tool.name not in named))


def _defined_tools(scenario: Scenario) -> frozenset[str]:
    functions = (tool.get("function", tool) for tool in scenario.tools or ())
    return frozenset(str(each.get("name")) for each in functions if isinstance(each, Mapping))


def find_unknown_tools(scenario: Scenario, agents: Sequence[Agent]) -> list[str]:
    """Problems with names of tools, as sentences. None if the tools of the agents are not known.

    With several agents, one of them must have the tool.
    """
    known = _known_tools(scenario, agents)
    if known is None:
        return []
    # Rules of a suite may name tools that an endpoint is offered in other scenarios.
    own = [named for named in named_tools(scenario) if not named.key.startswith(_RULES) or _has_own_tools(agents)]
    unknown = {(named.key, named.name): None for named in own if named.name not in known}
    place = f"{scenario.source}: " if scenario.source else ""
    return [f"{place}scenario {scenario.name!r}: {key}: {_unknown(name, known)}" for key, name in unknown]


def _has_own_tools(agents: Sequence[Agent]) -> bool:
    """Whether each agent says which tools it has, whatever a scenario offers."""
    return all(getattr(agent, "tool_names", None) is not None for agent in agents)


def can_know_tools(agents: Iterable[Agent]) -> bool:
    """Whether the tools of the agents can be known."""
    return all(getattr(agent, "tool_names", None) is not None or not agent.answers_own_tools for agent in agents)


def _known_tools(scenario: Scenario, agents: Sequence[Agent]) -> frozenset[str] | None:
    """The tools of all agents; None if those of one agent are not known.

    An endpoint or a program has the tools that the scenario offers; without an offer, they are not known.
    """
    offered = offered_tools(scenario)
    known = set(offered)
    for agent in agents:
        names: frozenset[str] | None = getattr(agent, "tool_names", None)
        if names is None and not agent.answers_own_tools:
            own: frozenset[str] = getattr(agent, "offered_tools", frozenset())
            names = own.union(scenario.mocks or ()) if own or offered else None
        if names is None:
            return None
        known |= names
    return frozenset(known)


def _unknown(name: str, known: frozenset[str]) -> str:
    close = get_close_matches(name, sorted(known), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    has = f"It has: {', '.join(sorted(known)[:_SHOWN])}{more}." if known else "It has none."
    return f"the agent has no tool {name!r}.{hint} {has} If the agent does have it, name it under `tools:`"


def tools_in(holder: Any, where: str = "") -> Iterator[NamedTool]:
    """The tools that a scenario, an `expect`, a trajectory or another evaluator names."""
    for key, must_not in _KEYS_WITH_NAMES.items():
        yield from (NamedTool(f"{where}{key}", name, must_not) for name in getattr(holder, key, None) or ())
    if isinstance(holder, Expect):
        yield from (NamedTool("tool_calls_args", entry.tool) for entry in holder.tool_calls_args)
    elif isinstance(holder, ToolArgs):
        yield NamedTool("tool", holder.tool)
    elif getattr(holder, "name", None) == "trajectory":
        yield from (NamedTool(f"{where}expected", name) for name in _call_names(holder.expected))
        yield from (NamedTool(f"{where}forbidden", name, must_not=True) for name in _call_names(holder.forbidden))


def _in_rule(rule: "Invariant") -> Iterator[NamedTool]:
    """The tools that an invariant names. A misspelt one would never trigger it."""
    for key in ("never", "before", "after", "always", "of", "every"):
        for one in getattr(rule, key) or ():
            names = (name for name in one.tools if not any(sign in name for sign in "*?["))
            yield from (NamedTool(f"{_RULES}{key}", name, must_not=True) for name in names)
    yield from (NamedTool(f"{_RULES}where", name) for name in rule.sources)


_KEYS_WITH_NAMES = {
    **dict.fromkeys(("expected_tools", "expected_tool_args", "tool_calls_include", "must_include"), False),
    **dict.fromkeys(("tool_calls_exclude", "must_exclude"), True),
}
"""Keys with names of tools, and whether these must not be called."""


def _call_names(calls: Iterable[ExpectedCall]) -> Iterator[str]:
    """The names in a trajectory, with alternatives."""
    for call in calls:
        if call.name is not None:
            yield call.name
        yield from _call_names(call.any_of)


def _evaluators(scenario: Scenario) -> Iterator[Any]:
    """The built-in evaluators of the scenario."""
    for scorer in scenario.scorers or ():
        if isinstance(scorer, Mapping):
            named = ((name, given) for name, given in scorer.items() if name in EVALUATORS)
            yield from (build_evaluator(name, given, scenario=scenario) for name, given in named)
    given = (holder.expect.evaluators for holder in _holders(scenario) if holder.expect is not None)
    for evaluator in chain(scenario.scorers or (), *given):
        if type(evaluator).__module__.startswith("seatrial."):
            yield evaluator


def _holders(scenario: Scenario) -> Iterator[Scenario | Turn]:
    yield scenario
    yield from scenario.turns
