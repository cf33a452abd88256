"""The texts of a comparison: one function for each sentence.

They say what a developer needs, with counts. p-values appear only in `numbers`, for `--verbose`.
"""

from collections.abc import Sequence
from itertools import islice

from seatrial.model.comparison import FreshTrials, Regression, ScenarioChange
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
    """A share as points, with one decimal below ten."""
    value = 100.0 * share
    shown = f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")
    return f"{shown} point" if shown == "1" else f"{shown} points"


def how_often(p_value: float) -> str:
    """A p-value in words: how often a result this low comes up if nothing changed."""
    if p_value < 0.0001:
        return "if nothing had changed, a result this low would almost never come up"
    percent = f"{100 * p_value:.0f}" if p_value >= 0.0995 else f"{100 * p_value:.1g}"
    return f"if nothing had changed, a result this low comes up {percent} % of the time"


def chance(p_value: float) -> str:
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.2g}"


def shown_counts(counts: ScenarioCounts) -> str:
    """`5/5 → 4/5`."""
    return f"{counts.base_passed}/{counts.base_total} → {counts.candidate_passed}/{counts.candidate_total}"


def summary(
    pairs: Sequence[Pair],
    worse: Sequence[ScenarioKey],
    cannot_tell: Sequence[ScenarioKey],
    *,
    suite_p: float | None,
) -> str:
    """Which scenarios got worse, whether the suite did, and what cannot be told."""
    scenarios = counted(len(pairs), "scenario")
    lower = sum((counts.difference or 0.0) < 0 for _, counts in pairs)
    parts = [] if suite_p is None else [f"The suite as a whole got worse: {how_often(suite_p)}"]
    if worse:
        parts.insert(0, f"{len(worse)} of {scenarios} got worse ({named(worse)})")
    elif lower and parts:
        parts.append(f"{lower} of {scenarios} passed less often; no single one shows it alone")
    elif lower:
        noise = ", within noise" if lower > len(cannot_tell) else ""
        parts.append(f"{lower} of {scenarios} passed less often{noise}")
    else:
        parts.append(f"None of {scenarios} got worse")
    if cannot_tell:
        parts.append(f"Too few trials to tell: {named(cannot_tell)}")
    return ". ".join(parts) + "."


def noticeable(pairs: Sequence[Pair], drop: float | None) -> str:
    """Which drop these trials would have shown."""
    if drop is None:
        return f"With {_repeats(pairs)}, no drop of the pass rate could have been noticed."
    return (
        f"With {_repeats(pairs)}, a drop of {points(drop)} in every scenario would have been noticed 4 times in 5; "
        "smaller ones, or one in a single scenario, less often."
    )


def _repeats(pairs: Sequence[Pair]) -> str:
    base = {counts.base_total for _, counts in pairs}
    candidate = {counts.candidate_total for _, counts in pairs}
    if base == candidate and len(base) == 1:
        return f"{counted(base.pop(), 'trial')} each"
    return f"{_range(base)} against {_range(candidate)} trials"


def _range(numbers: set[int]) -> str:
    return str(min(numbers)) if len(numbers) == 1 else f"{min(numbers)}-{max(numbers)}"


def details(
    pairs: Sequence[Pair], *, untested: Sequence[ScenarioKey], left_out: int, pooled_runs: Sequence[str]
) -> tuple[str, ...]:
    """What a reader must know about the counts."""
    lines = []
    if pooled_runs:
        lines.append(f"the baseline was pooled with {counted(len(pooled_runs), 'run')}: {', '.join(pooled_runs)}")
    stopped = [change.key for change, _ in pairs if change.stops_by_results]
    if stopped:
        lines.append(
            f"`trials: auto` and `--against` stop by results, so only the first trials of {named(stopped)} count; "
            "run a fixed number of trials, or compare with `run --against baseline`"
        )
    if left_out:
        lines.append(f"{counted(left_out, 'trial')} could not be judged, because an instrument failed: left out")
    if untested:
        lines.append(f"not tested, because one side has no answer: {named(untested)}")
    return tuple(lines)


def numbers(test: StratifiedTest) -> tuple[str, ...]:
    """The numbers of the suite test, for `--verbose`."""
    p_values = f"worse: {chance(test.mid_p_regression)}, exact {chance(test.p_regression)}"
    return (
        f"suite: {counted(test.observed, 'trial')} passed, {test.expected:.1f} expected if nothing had changed "
        f"({p_values}; better: {chance(test.p_improvement)})",
    )


def luck(p_value: float) -> str:
    """How easily noise explains a lower count."""
    return "as likely luck as not" if p_value >= 0.4 else how_often(p_value)


def cannot_tell(pairs: Sequence[Pair], trials: int) -> str:
    """The scenarios that need more trials, and how many."""
    shown = ", ".join(f"{change.key.label} {shown_counts(counts)}" for change, counts in pairs[:5])
    more = f" and {len(pairs) - 5} more" if len(pairs) > 5 else ""
    return (
        f"cannot tell: {shown}{more}. Not enough trials: even a complete break would be within noise. "
        f"Decide it with --confirm, or run both versions with {trials} trials each"
    )


def within_noise(regression: Regression) -> str:
    """A note for a limit that is exceeded by noise, or that cannot be tested."""
    if regression.beyond_noise is None:
        return f"{regression.text}; too few trials to tell it from noise"
    return f"{regression.text}; noise explains it"


def not_judged(keys: Sequence[ScenarioKey], trials: int, *, consequence: str, run: Run) -> str:
    """Trials without an answer could change the decision."""
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
    """The result of `--confirm`."""
    if not suspects:
        return "No scenario is suspected, so none was run again."
    if not trials:
        return f"Nothing was run again: the baseline is too short to decide ({named([one.key for one in suspects])})."
    groups = {word: [one for one in suspects if one.answer == word] for word in ("confirmed", "cleared", "not decided")}
    parts = [f"{len(some)} {word} ({_fresh(some)})" for word, some in groups.items() if some]
    played = sum(one.total + one.left_out > 0 for one in suspects)
    text = f"{counted(played, 'suspect')} got {counted(trials, 'fresh trial')} each: {', '.join(parts)}"
    return f"{text}; the suite as a whole got worse all the same." if suite else f"{text}."


def _fresh(some: Sequence[FreshTrials]) -> str:
    shown = [f"{one.key.label}: {one.passed}/{one.total} after {one.base_passed}/{one.base_total}" for one in some[:5]]
    return ", ".join(shown) + (", …" if len(some) > 5 else "")


def not_decided(one: FreshTrials) -> str:
    """Why a suspect is neither confirmed nor cleared, and what decides it."""
    needed = one.baseline_needed
    if not one.total and needed is not None:
        short = f"its baseline is {counted(one.base_total, 'trial')}, too short to decide"
        return f"{one.key.label}: {short}. Run the baseline with at least {counted(needed, 'trial')}"
    if not one.total:
        return f"{one.key.label}: none of its fresh trials has an answer"
    now = f"{one.key.label} passed {one.passed}/{one.total} now after {one.base_passed}/{one.base_total}"
    drop = "" if one.largest_drop is None else f", so a drop of {points(one.largest_drop)} is possible"
    if one.more_trials is not None:
        return f"{now}{drop}. Use --confirm-trials {one.more_trials}"
    if needed is not None:
        return f"{now}{drop}. Run the baseline with {needed} trials, then use --confirm-trials {needed}"
    return f"{now}{drop}. Run the baseline more often"
