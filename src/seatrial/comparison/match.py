"""Which scenarios two runs have in common, and which runs cannot be compared at all."""

from collections.abc import Sequence

from seatrial.errors import UsageError
from seatrial.model.run import Run, RunOutcome, RunState, ScenarioKey, ScenarioOutcome, TrialSummary
from seatrial.model.struct import Struct

from .aggregates import group_trials


class RunSide(Struct, frozen=True, kw_only=True):
    """One of the two runs: what it came to, and its trials."""

    run: Run
    outcome: RunOutcome
    summaries: Sequence[TrialSummary]
    original: str | None = None
    """The id of the run that held the conversations, where somebody looked it up."""

    @property
    def conversations(self) -> str:
        """The same for any two runs that judge the same conversations, as far as is known."""
        return self.original or self.run.parent or self.run.id

    def trials(self) -> dict[ScenarioKey, list[TrialSummary]]:
        return group_trials(self.summaries)

    def played(self) -> dict[ScenarioKey, ScenarioOutcome]:
        """The scenarios of which at least one trial was played; a skipped one is not there."""
        return {outcome.entry.key: outcome for outcome in self.outcome.scenarios if outcome.played}


def refuse_incomparable(base: RunSide, candidate: RunSide, *, allow_unfinished: bool) -> None:
    """Raise UsageError with every reason for which the two cannot be compared."""
    if base.run.id == candidate.run.id:
        raise UsageError(f"run {base.run.id}: was given on both sides. Give two runs: seatrial list runs")
    problems = [problem for side in (base, candidate) for problem in _problems(side, allow_unfinished)]
    if not problems:
        problems = _nothing_in_common(base, candidate)
    if problems:
        raise UsageError("\n".join(problems))


def _problems(side: RunSide, allow_unfinished: bool) -> list[str]:
    where = f"run {side.run.id}"
    if not side.played():
        return [f"{where}: has no results, so there is nothing to compare. Run it again, or choose another run."]
    gap = None if allow_unfinished else find_gap(side)
    if gap is None:
        return []
    remedy = f"Finish it: seatrial run --resume {side.run.id}; or compare what is there with --allow-unfinished."
    return [f"{gap}. {remedy}"]


def find_gap(side: RunSide) -> str | None:
    """What the run lacks where it is not whole, so that a comparison says less than it seems to; None where it is."""
    where = f"run {side.run.id}"
    if side.run.state is not RunState.FINISHED:
        return f"{where}: {'was interrupted' if side.run.state is RunState.INTERRUPTED else 'has not come to its end'}"
    missing = [outcome for outcome in side.outcome.scenarios if outcome.not_run and not outcome.skipped]
    if not missing:
        return None
    count = sum(outcome.not_run for outcome in missing)
    names = ", ".join(outcome.entry.key.label for outcome in missing[:3]) + (", …" if len(missing) > 3 else "")
    return f"{where}: {count} of its trials {'was' if count == 1 else 'were'} not run ({names})"


def _nothing_in_common(base: RunSide, candidate: RunSide) -> list[str]:
    before, now = base.played(), candidate.played()
    if any(key in before for key in now):
        return []
    suites = [sorted({key.suite for key in side}) for side in (before, now)]
    where = f"runs {base.run.id} and {candidate.run.id}"
    if not set(suites[0]) & set(suites[1]):
        names = [", ".join(map(repr, names)) for names in suites]
        return [f"{where}: are of different suites: {names[0]} and {names[1]}. Compare runs of one suite."]
    return [f"{where}: have no scenario in common. Compare runs of the same scenarios and agents."]
