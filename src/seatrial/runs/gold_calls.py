"""Check the gold calls of scenarios (`end_state.as_after`) before any agent is called."""

from collections.abc import Iterable

from seatrial import foreign
from seatrial.errors import UsageError
from seatrial.model.protocols import ScenarioWorld
from seatrial.model.scenario import Scenario

from .event_loop import run_until_complete

_SHOWN = 20


def check_gold_calls(scenarios: Iterable[tuple[Scenario, ScenarioWorld | None]]) -> None:
    """Play the gold calls of scenarios in their worlds. Raises UsageError with all calls that are wrong."""
    checked = [(one, world) for one, world in scenarios if world is not None and _gold(one) is not None]
    if not checked:
        return
    # With several agents, each of them has the same gold calls.
    problems = [*dict.fromkeys(run_until_complete(_find_problems(checked)))]
    if problems:
        more = [f"… {len(problems) - _SHOWN:,} more"] if len(problems) > _SHOWN else []
        raise UsageError("\n".join([*problems[:_SHOWN], *more]))


def _gold(scenario: Scenario) -> object:
    return None if scenario.end_state is None else scenario.end_state.as_after


async def _find_problems(scenarios: Iterable[tuple[Scenario, ScenarioWorld | None]]) -> list[str]:
    with foreign.in_use():
        return [problem for scenario, world in scenarios for problem in await gold_problems(scenario, world)]


async def gold_problems(scenario: Scenario, world: ScenarioWorld | None) -> list[str]:
    """What is wrong with the gold calls of a scenario, as sentences."""
    calls = None if scenario.end_state is None else scenario.end_state.as_after
    if world is None or calls is None:
        return []
    place = f"{scenario.source}: " if scenario.source else ""
    found = await world.check_gold(calls)
    return [f"{place}scenario {scenario.name!r}: end_state.as_after: {problem}" for problem in found]
