"""A comparison on the terminal: the conclusion, then the figures, then each scenario."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from seatrial.model.comparison import (
    Alignment,
    ChangeKind,
    Comparison,
    GateDecision,
    ScenarioChange,
    ScenarioFigures,
)
from seatrial.model.run import Run, ScenarioKey, Status
from seatrial.verdicts.reasons import number

from .terminal import TerminalWriter, one_line, shorten
from .texts import counted, duration, money, percent

SHOWN = 30
TEXT_LIMIT = 300
_MARKS = {
    ChangeKind.REGRESSION: Status.FAILED,
    ChangeKind.ERROR: Status.ERRORED,
    ChangeKind.MISSING: Status.NOT_RUN,
}
"""Other scenarios show the candidate's verdict: one that fails as before, or less often, still fails."""
TITLES = {
    ChangeKind.REGRESSION: "regressed",
    ChangeKind.ERROR: "without a verdict in one of the runs",
    ChangeKind.MISSING: "missing in the candidate",
    ChangeKind.IMPROVEMENT: "improved",
    ChangeKind.NEW: "new in the candidate",
    ChangeKind.UNCHANGED: "unchanged",
}


def print_comparison(
    comparison: Comparison,
    stream: TextIO,
    *,
    decision: GateDecision,
    alignments: tuple[Alignment, ...] = (),
    verbose: bool = False,
) -> None:
    """Write the comparison. `decision` is the last line; `verbose` also lists the unchanged scenarios."""
    writer = TerminalWriter(stream)
    writer.line(f"baseline   {_run(comparison.base)}", style="dim")
    writer.line(f"candidate  {_run(comparison.candidate)}", style="dim")
    writer.line(comparison.evidence.sentence, style="bold")
    for detail in comparison.evidence.details:
        writer.line(detail, indent=2, style="dim")
    for line in _figures(comparison):
        writer.line(line)
    if verbose:
        for line in comparison.evidence.numbers:
            writer.line(line, indent=2, style="dim")
    _print_scenarios(writer, comparison, {alignment.key: alignment for alignment in alignments}, verbose=verbose)
    _print_differences(writer, comparison)
    for note in comparison.notes:
        writer.line(f"note: {note}")
    for regression in decision.regressions:
        writer.line(regression, mark=Status.FAILED)
    for doubt in decision.doubts:
        writer.line(doubt, mark=Status.INCONCLUSIVE)
    if comparison.evidence.worse and not decision.objections:
        names = ", ".join(one_line(key.label) for key in comparison.evidence.worse)
        writer.line(f"note: worse, but within the limits: {names}. To fail on this: --gate auto")
    writer.line(decision.verdict, style=_STYLES[decision.verdict])


_STYLES = {"REGRESSION": "red", "UNDECIDED": "yellow", "NO REGRESSION": "green"}


def _run(run: Run) -> str:
    commit = f", commit {run.git_commit[:12]}{' with changes' if run.git_dirty else ''}" if run.git_commit else ""
    return f"{one_line(run.id)} ({one_line(run.name)}{commit})"


def _figures(comparison: Comparison) -> Iterator[str]:
    base, now = comparison.base_figures, comparison.candidate_figures
    yield f"pass rate    {_pass_rates(comparison)}"
    if base.avg_score is not None and now.avg_score is not None:
        yield f"avg score    {number(base.avg_score)} → {number(now.avg_score)}"
    if base.avg_latency_ms is not None and now.avg_latency_ms is not None:
        yield f"avg latency  {duration(base.avg_latency_ms)} → {duration(now.avg_latency_ms)}"
    if base.avg_cost_usd is not None and now.avg_cost_usd is not None:
        yield f"avg cost     {money(base.avg_cost_usd)} → {money(now.avg_cost_usd)} a trial"


def _pass_rates(comparison: Comparison) -> str:
    """`100.0 % → 50.0 %   (12/12 trials → 6/12 trials)`; says if a rate is a mean that differs from its counts."""
    base, now = comparison.base_figures, comparison.candidate_figures
    if base.pass_rate is None or now.pass_rate is None:
        return "unknown: no scenario has an answer in both runs"
    counts = " → ".join(f"{side.rated_passed:,}/{counted(side.rated, 'trial')}" for side in (base, now))
    sides = ((base, base.pass_rate), (now, now.pass_rate))
    is_mean = any(abs(side.rated_passed / side.rated - rate) > 1e-9 for side, rate in sides)
    mean = "; mean over scenarios" if is_mean else ""
    first = "; first trials only" if any(one.stops_by_results for one in comparison.scenarios) else ""
    return f"{percent(base.pass_rate)} → {percent(now.pass_rate)}   ({counts}{mean}{first})"


def _print_scenarios(
    writer: TerminalWriter, comparison: Comparison, alignments: Mapping[ScenarioKey, Alignment], *, verbose: bool
) -> None:
    """Scenarios with different counts, strongest evidence first; then those that cannot be compared; then the rest."""
    differing = comparison.differing() or tuple(one for one in comparison.scenarios if moved(one))
    printer = _ScenarioPrinter(writer, alignments, verbose=verbose)
    printer.section(f"{counted(len(differing), 'scenario')} with different counts, strongest evidence first", differing)
    for change in (ChangeKind.ERROR, ChangeKind.MISSING, ChangeKind.NEW):
        some = [one for one in comparison.scenarios if one.change is change and one not in differing]
        printer.section(f"{counted(len(some), 'scenario')} {TITLES[change]}", some)
    shown = {one.key for one in differing}
    rest = [one for one in comparison.scenarios if one.key not in shown and one.base and one.candidate]
    same = [one for one in rest if one.change is not ChangeKind.ERROR]
    notable = [one for one in same if verbose or one.edited or one.change is not ChangeKind.UNCHANGED]
    printer.section(f"{counted(len(same), 'scenario')} with the same pass rate", notable, always=bool(same))


class _ScenarioPrinter:
    """Prints sections of scenarios. Shows where the conversations of a scenario differ."""

    def __init__(self, writer: TerminalWriter, alignments: Mapping[ScenarioKey, Alignment], *, verbose: bool) -> None:
        self._writer = writer
        self._alignments = alignments
        self._verbose = verbose

    def section(self, title: str, scenarios: Sequence[ScenarioChange], *, always: bool = False) -> None:
        if scenarios or always:
            self._writer.line(title, style="bold")
        limit = len(scenarios) if self._verbose else SHOWN
        for scenario in scenarios[:limit]:
            self._writer.line(_describe(scenario, verbose=self._verbose), indent=2, mark=mark_of(scenario))
            alignment = self._alignments.get(scenario.key)
            if alignment is not None:
                self._writer.line(shorten(one_line(alignment.text), TEXT_LIMIT), indent=6)
                self._writer.line(f"({alignment.passing} and {alignment.failing})", indent=6, style="dim")
        if len(scenarios) > limit:
            self._writer.line(f"… {len(scenarios) - limit:,} more", indent=2, style="dim")


def mark_of(scenario: ScenarioChange) -> Status:
    """The status whose mark is shown before the scenario."""
    status = Status.INCONCLUSIVE if scenario.word == "cannot tell" else _MARKS.get(scenario.change)
    if status is None:
        assert scenario.candidate is not None, "only a missing scenario has no candidate"
        status = scenario.candidate.status
    return status


def moved(scenario: ScenarioChange) -> bool:
    if scenario.base is None or scenario.candidate is None:
        return False
    (before, of), (passed, total) = scenario.base.counts, scenario.candidate.counts
    return before * total != passed * of


def _describe(scenario: ScenarioChange, *, verbose: bool) -> str:
    """`refund  5/5 → 2/5  within noise (…)  edited: scenario`."""
    parts = [one_line(scenario.key.label), " → ".join(map(_share, (scenario.base, scenario.candidate)))]
    if scenario.word not in (None, "same"):
        parts.append(f"{scenario.word} ({scenario.luck})" if scenario.luck else str(scenario.word))
    if scenario.score_delta is not None and abs(scenario.score_delta) >= 0.005:
        parts.append(f"score {scenario.score_delta:+.1f}")
    p_value = _shown_p_value(scenario) if verbose else None
    if p_value is not None:
        parts.append(f"p = {p_value:.2g}")
    if scenario.pooled:
        parts.append(f"pooled baseline: {scenario.pooled_passed}/{scenario.pooled} more")
    if scenario.edits:
        parts.append(f"edited: {one_line(', '.join(scenario.edits))}")
    return "  ".join(parts)


def _shown_p_value(scenario: ScenarioChange) -> float | None:
    """The p-value in the direction that the scenario moved."""
    if scenario.p_worse is None or scenario.p_better is None or not moved(scenario):
        return None
    return min(scenario.p_worse, scenario.p_better)


def _share(figures: ScenarioFigures | None) -> str:
    if figures is None:
        return "-"
    asides = [f"{figures.errored - figures.not_judged} errored"] if figures.errored > figures.not_judged else []
    if figures.not_judged:
        asides.append(f"{figures.not_judged} could not be judged")
    passed, total = figures.counts
    if figures.tested is not None:
        asides.insert(0, f"all: {figures.passed}/{figures.answered}")
    return f"{passed}/{total}" + (f" ({', '.join(asides)})" if asides else "")


def _print_differences(writer: TerminalWriter, comparison: Comparison) -> None:
    if comparison.config_differences:
        writer.line("different settings", style="bold")
    for one in comparison.config_differences[:SHOWN]:
        sides = (
            shorten(one_line(str(value)), 100) if value is not None else "-" for value in (one.base, one.candidate)
        )
        writer.line(f"{one_line(one.what)}: {' → '.join(sides)}", indent=2)
