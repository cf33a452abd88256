"""What the statistical verdict says to people: one template for each sentence."""

from collections.abc import Sequence
from itertools import islice
from math import comb

from seatrial.model.comparison import FreshTrials, ScenarioChange
from seatrial.model.run import Run, ScenarioKey
from seatrial.statistics.significance import ScenarioCounts, StratifiedTest

Pair = tuple[ScenarioChange, ScenarioCounts]

NO_ANSWERS = "Nothing can be said: no scenario has a trial with an answer on both sides."


def counted(count: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def named(keys: Sequence[ScenarioKey], *, most: int = 5) -> str:
    """The first labels, and how many more there are."""
    more = f" and {len(keys) - most} more" if len(keys) > most else ""
    return ", ".join(key.label for key in islice(keys, most)) + more


def points(share: float) -> str:
    """A share as points, of which one decimal matters only below ten."""
    value = 100.0 * share
    shown = f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")
    return f"{shown} point" if shown == "1" else f"{shown} points"


def chance(p_value: float) -> str:
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.2g}"


def verdict(
    pairs: Sequence[Pair], worse: Sequence[ScenarioKey], *, p_suite: float, unseen: float | None, alpha: float
) -> str:
    """How many got worse, how many of them beyond noise, and which drop could not have been seen."""
    lower = sum((counts.difference or 0.0) < 0 for _, counts in pairs)
    if not lower:
        first = f"None of {counted(len(pairs), 'scenario')} got worse"
    else:
        first = f"{lower} of {counted(len(pairs), 'scenario')} got worse, "
        first += f"{'none' if not worse else len(worse)} beyond noise"
        if worse:
            first += f" ({named(worse)})"
    if p_suite <= alpha:
        first += f"; the suite as a whole fell beyond noise ({chance(p_suite)})"
    return f"{first}. {_unseen(pairs, unseen)}"


def _unseen(pairs: Sequence[Pair], unseen: float | None) -> str:
    with_so_many = f"With {_repeats(pairs)}"
    if unseen is None:
        return f"{with_so_many}, hardly any drop of the pass rate could have been seen."
    return f"{with_so_many}, a drop of the pass rate by less than {points(unseen)} would mostly have gone unseen."


def _repeats(pairs: Sequence[Pair]) -> str:
    base = {counts.base_total for _, counts in pairs}
    candidate = {counts.candidate_total for _, counts in pairs}
    if base == candidate and len(base) == 1:
        return f"{counted(base.pop(), 'trial')} each"
    return f"{_range(base)} against {_range(candidate)} trials"


def _range(numbers: set[int]) -> str:
    return str(min(numbers)) if len(numbers) == 1 else f"{min(numbers)}-{max(numbers)}"


def details(
    pairs: Sequence[Pair],
    test: StratifiedTest,
    *,
    untested: Sequence[ScenarioKey],
    left_out: int,
    pooled_runs: Sequence[str],
) -> tuple[str, ...]:
    """The numbers behind the verdict, and what a reader must know of them."""
    lines = [
        f"suite: {counted(test.observed, 'trial')} passed, {test.expected:.1f} expected if nothing had changed "
        f"(worse: {chance(test.p_regression)}, better: {chance(test.p_improvement)})"
    ]
    if pooled_runs:
        lines.append(f"the baseline was pooled with {counted(len(pooled_runs), 'run')}: {', '.join(pooled_runs)}")
    blind = sum(_is_blind(counts) for _, counts in pairs)
    if blind:
        lines.append(
            f"{counted(blind, 'scenario')} could break completely and not be singled out with so few trials; "
            "run more of them, pool more runs of the baseline, or use --confirm"
        )
    if left_out:
        lines.append(f"{counted(left_out, 'trial')} could not be judged, because an instrument failed: left out")
    if untested:
        lines.append(f"not tested, because one side has no answer: {named(untested)}")
    return tuple(lines)


def _is_blind(counts: ScenarioCounts) -> bool:
    """Whether even a fall from always to never would stay within noise."""
    return comb(counts.base_total + counts.candidate_total, counts.candidate_total) < 20


def not_judged(keys: Sequence[ScenarioKey], trials: int, *, consequence: str, run: Run) -> str:
    """Why nobody can tell: so many trials of the candidate have no answer, and they could change the verdict."""
    again = f"seatrial regrade {run.parent}" if run.parent else f"seatrial run --resume {run.id} --retry-errors"
    return (
        f"cannot tell: {counted(trials, 'trial')} of the candidate could not be judged ({named(keys)}). "
        f"If they had failed, {consequence}. Repeat them: {again}"
    )


def replayed(run_id: str) -> str:
    return f"Nothing can be tested: the trials of run {run_id} are replayed recordings, so they are not independent."


def regraded() -> str:
    return "Nothing can be tested: both runs judge the same conversations, so their trials are not independent."


def confirmed(suspects: Sequence[FreshTrials], trials: int, *, suite: bool) -> str:
    """What the second look came to."""
    if not suspects:
        return "No scenario is suspected, so none was run again."
    bad = [one for one in suspects if one.confirmed]
    open_ = [one for one in suspects if not one.confirmed and not one.could_confirm]
    cleared = len(suspects) - len(bad) - len(open_)
    parts = []
    if bad:
        parts.append(
            f"{len(bad)} confirmed ({', '.join(_fresh(one) for one in bad[:5])}{', …' if len(bad) > 5 else ''})"
        )
    if cleared:
        parts.append(f"{cleared} cleared")
    if open_:
        parts.append(f"{len(open_)} still open ({named([one.key for one in open_])})")
    text = f"{counted(len(suspects), 'suspect')} got {counted(trials, 'fresh trial')} each: {', '.join(parts)}"
    return f"{text}; the suite as a whole fell beyond noise all the same." if suite else f"{text}."


def _fresh(one: FreshTrials) -> str:
    return f"{one.key.label}: {one.passed}/{one.total} after {one.base_passed}/{one.base_total}"


def still_open(one: FreshTrials) -> str:
    """Why a suspect can be neither confirmed nor cleared."""
    if not one.total:
        return f"{one.key.label}: none of its fresh trials has an answer"
    return (
        f"{one.key.label}: {counted(one.base_total, 'trial')} of the baseline are too few to decide; "
        "run the baseline more often"
    )
