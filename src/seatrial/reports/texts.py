"""The words and numbers that every report uses, so that all of them say the same thing in the same way."""

from collections.abc import Iterator
from heapq import nsmallest

from seatrial.model.run import Run, RunOutcome, ScenarioCounts, ScenarioOutcome, Status, Totals
from seatrial.model.struct import Struct
from seatrial.verdicts.reasons import exactly, number, number_beside

VERDICT_WORDS = {
    Status.PASSED: "PASS",
    Status.FAILED: "FAIL",
    Status.ERRORED: "ERROR",
    Status.INCONCLUSIVE: "INCONCLUSIVE",
    Status.NOT_RUN: "NOT RUN",
}
_WORST = (Status.FAILED, Status.ERRORED, Status.INCONCLUSIVE, Status.NOT_RUN, Status.PASSED)


class Measure(Struct, frozen=True, kw_only=True):
    """A number that may have a threshold, and whether it was reached."""

    name: str
    value: str
    threshold: str | None = None
    held: bool | None = None

    @property
    def text(self) -> str:
        """`helpfulness: 3.2 (threshold: 3.5 ✗)`."""
        text = f"{self.name}: {self.value}"
        if self.threshold is None:
            return text
        return f"{text} (threshold: {self.threshold} {'✓' if self.held else '✗'})"


def counted(count: int, noun: str) -> str:
    """`1 trial`, `2 trials`, `9,970 trials`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(share: float) -> str:
    """`99.9 %`; 100 only where all is in it, and 0 only where nothing is: one failure in 10,000 is not rounded away."""
    shown = round(100 * share, 1)
    return f"{min(max(shown, 0.1), 99.9) if 0 < share < 1 else shown:.1f} %"


def money(cost_usd: float | None) -> str | None:
    """Dollars with four decimals; None when the cost is not known."""
    return None if cost_usd is None else f"${cost_usd:,.4f}"


def duration(milliseconds: float | None) -> str | None:
    """`830 ms`, `12.3 s` or `4 min 05 s`."""
    if milliseconds is None:
        return None
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 99_950:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes:,} min {seconds:02d} s"


def interval(outcome: ScenarioOutcome) -> str | None:
    """`[0.21, 0.94]`; None for a single trial, whose interval says nothing."""
    if outcome.interval is None or trials_of(outcome) < 2:
        return None
    return f"[{outcome.interval.low:.2f}, {outcome.interval.high:.2f}]"


def trials_of(outcome: ScenarioOutcome) -> int:
    """How many trials there should be: those played and those still missing."""
    return outcome.played + outcome.not_run


def share(outcome: ScenarioOutcome) -> str:
    """`2/3 trials passed [0.21, 0.94]`, and how many were not run."""
    text = f"{outcome.passed}/{counted(trials_of(outcome), 'trial')} passed"
    if outcome.not_run:
        text += f" ({outcome.not_run:,} not run)"
    found = interval(outcome)
    return f"{text} {found}" if found else text


def aside(outcome: ScenarioOutcome) -> str | None:
    """Why a scenario's verdict does not count against the run; None when it counts."""
    if outcome.skipped:
        return f"skipped: {outcome.entry.skip}"
    return f"xfail: {outcome.entry.xfail}" if outcome.xfailed else None


def is_failing(outcome: ScenarioOutcome) -> bool:
    """Whether the scenario speaks against the run."""
    return not outcome.verdict.passed and aside(outcome) is None


def failing_in_order(outcome: RunOutcome, *, untouched: bool = True) -> Iterator[ScenarioOutcome]:
    """The scenarios that speak against the run, in the order of the report; `untouched`: also those not played."""
    found = filter(is_failing, outcome.scenarios if outcome.others is None else outcome.others)
    return found if untouched else (one for one in found if not one.is_untouched)


def failing(outcome: RunOutcome, *, most: int | None = None, untouched: bool = True) -> list[ScenarioOutcome]:
    """The scenarios that speak against the run, worst first; so many of them, or all."""
    found = failing_in_order(outcome, untouched=untouched)
    return sorted(found, key=_how_bad) if most is None else nsmallest(most, found, key=_how_bad)


def _how_bad(outcome: ScenarioOutcome) -> tuple[bool, int, float, int]:
    return (
        not outcome.entry.gates.must_pass,
        _WORST.index(outcome.verdict.status),
        outcome.passed / max(trials_of(outcome), 1),
        outcome.entry.position,
    )


def counts_of(outcome: RunOutcome) -> ScenarioCounts:
    """How many scenarios came to what."""
    if outcome.counts is not None:
        return outcome.counts
    skipped = sum(one.skipped for one in outcome.scenarios)
    xfailed = sum(one.xfailed for one in outcome.scenarios)
    bad = sum(map(is_failing, outcome.scenarios))
    return ScenarioCounts(
        passed=len(outcome.scenarios) - skipped - xfailed - bad,
        failing=bad,
        untouched=sum(is_failing(one) and one.is_untouched for one in outcome.scenarios),
        skipped=skipped,
        xfailed=xfailed,
        suites=len({one.entry.key.suite for one in outcome.scenarios}),
    )


def tally_line(outcome: RunOutcome) -> str:
    """`2/3 scenarios passed, 1 skipped`."""
    counts = counts_of(outcome)
    text = f"{counts.passed:,}/{counted(counts.passed + counts.failing, 'scenario')} passed"
    skipped, foretold = counts.skipped, counts.xfailed
    return text + (f", {skipped:,} skipped" if skipped else "") + (f", {foretold:,} xfailed" if foretold else "")


def verdict_line(outcome: RunOutcome) -> str:
    """`PASS`, or `FAIL: ` with the reasons."""
    word = VERDICT_WORDS[outcome.verdict.status]
    return ": ".join(filter(None, (word, "; ".join(outcome.verdict.failure_reasons))))


def run_facts(run: Run, totals: Totals) -> str:
    """What the run took: trials, time, money, model calls, and its name."""
    took = (run.finished_at - run.started_at).total_seconds() * 1000 if run.finished_at else None
    trials = counted(totals.total_executions, "trial")
    if totals.not_run_count:
        trials += f" ({totals.not_run_count:,} not run)"
    facts = (trials, duration(took), money(totals.cost_usd), _model_facts(totals), f"run {run.id}")
    return ", ".join(filter(None, facts))


def _model_facts(totals: Totals) -> str | None:
    """What users and judges took: `12 model calls (3 more cached, 4,210 tokens, $0.0123)`; None when none was asked."""
    if not totals.model_calls and not totals.cache_hits:
        return None
    about = [f"{totals.cache_hits:,} more cached"] if totals.cache_hits else []
    if totals.model_calls:
        tokens = totals.model_tokens
        about.append("tokens unknown" if tokens is None else counted(tokens, "token"))
        about.append(money(totals.model_cost_usd) or "cost unknown")
    return f"{counted(totals.model_calls, 'model call')} ({', '.join(about)})"


def gates_of(run: Run, totals: Totals) -> Iterator[Measure]:
    """The run's own gates where they were set, and whether they held."""
    if run.gates.cases_pass_threshold is not None and totals.cases_passed is not None:
        counts = f", {totals.passed_count:,}/{counted(totals.total_executions, 'trial')}"
        rate, threshold = totals.cases_pass_rate_pct, totals.cases_pass_threshold
        yield _gate("cases pass rate", rate, threshold, totals.cases_passed, counts=counts)
    if totals.metrics_passed is not None:
        score, threshold = totals.weighted_metrics_score_pct, totals.metrics_pass_threshold
        yield _gate("weighted metrics score", score, threshold, totals.metrics_passed)


def _gate(name: str, value: float | None, threshold: float | None, held: bool, *, counts: str = "") -> Measure:
    if value is None or threshold is None:
        return Measure(name=name, value="unknown" if value is None else f"{number(value)} %")
    shown = f"{number_beside(value, threshold)} %{counts}"
    return Measure(name=name, value=shown, threshold=exactly(threshold), held=held)
