"""Why scenarios got worse: where their conversations part."""

from seatrial.session.comparing import StoredRuns
from seatrial.vocabulary.changes import Alignment, Change, Comparison, ScenarioChange

MOST_EXPLAINED = 10


def worse_scenarios(comparison: Comparison) -> list[ScenarioChange]:
    """Those beyond noise first."""
    worse = [one for one in comparison.scenarios if one.change is Change.REGRESSION or one.beyond_noise == "worse"]
    return sorted(worse, key=lambda one: (one.beyond_noise != "worse", 1.0 if one.p_worse is None else one.p_worse))


def explain_changes(runs: StoredRuns, comparison: Comparison) -> tuple[Alignment, ...]:
    """For the worst of them, a passing and a failing conversation side by side."""
    found = (runs.explain(one.key) for one in worse_scenarios(comparison)[:MOST_EXPLAINED])
    return tuple(alignment for alignment in found if alignment is not None)
