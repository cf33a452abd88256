"""The report on the terminal: what passed, what did not and why, and the command that shows details."""

import shlex
from collections import Counter
from collections.abc import Iterator
from heapq import merge
from itertools import filterfalse, islice
from typing import TYPE_CHECKING, TextIO

from seatrial.model.run import Run, RunOutcome, RunState, ScenarioCounts, ScenarioOutcome, Status, Trial

from .causes import causes_title, print_cause
from .conversation import conversation_lines, failed_reply
from .failing_checks import failing_check, first_check, mask
from .scenario_totals import flaky_line, is_flaky
from .terminal import TerminalWriter, one_line, shorten
from .texts import (
    VERDICT_WORDS,
    counted,
    counts_of,
    explain,
    explain_error,
    failing_in_order,
    gates_of,
    history_line,
    history_text,
    invariant_line,
    is_failing,
    measures_of,
    not_counted_reason,
    run_facts,
    scenario_counts_line,
    summarise,
    trials_line,
    trials_of,
    verdict_line,
)

if TYPE_CHECKING:
    from seatrial.model.protocols import RunRecord

PASSING_SHOWN = 30
FAILING_SHOWN = 50
CAUSES_SHOWN = 20
TRIALS_SHOWN = 10
EXPLAINED = 3
"""For how many scenarios the same failing check is explained. Ids and numbers in it may differ."""
UNTOUCHED_SHOWN = 10
"""If a run stopped early and more scenarios were not run, only their number is shown."""
TEXT_LIMIT = 2_000
SAID_LIMIT = 300
"""Characters of the agent's reply: enough to see why a check failed. `seatrial show` prints all of it."""


def print_run(record: "RunRecord", stream: TextIO, *, verbose: bool = False, colour: bool | None = None) -> None:
    """Write the report, one scenario at a time, so that memory does not grow with the run."""
    _Console(record, TerminalWriter(stream, colour=colour), verbose=verbose).print()


class _Console:
    def __init__(self, record: "RunRecord", writer: TerminalWriter, *, verbose: bool) -> None:
        self._record = record
        self._writer = writer
        self._verbose = verbose
        self._explained: Counter[str] = Counter()

    def print(self) -> None:
        outcome = self._record.outcome
        if outcome.attacks is not None:
            from .attacks import print_attacks

            print_attacks(self._record, self._writer, verbose=self._verbose)
        elif outcome.faults is not None:
            from .faults import print_faults

            print_faults(self._record, self._writer, verbose=self._verbose)
        if outcome.attacks is not None or outcome.faults is not None:
            if self._record.run.state is RunState.INTERRUPTED:
                self._writer.line(_how_to_go_on(self._record.run))
            return
        self._print_scenarios(outcome)
        for name, verdict in outcome.groups:
            reasons = "; ".join(verdict.failure_reasons)
            text = f"group {one_line(name)}: {VERDICT_WORDS[verdict.status]}"
            self._writer.line(f"{text}  {reasons}" if reasons else text, mark=verdict.status)
        for gate in gates_of(self._record.run, outcome.totals):
            self._writer.line(gate.text)
        self._print_invariants(outcome)
        self._print_verdict(outcome)
        self._print_causes(outcome)

    def _print_invariants(self, outcome: RunOutcome) -> None:
        """The rules that were violated; with `verbose`, all of them. A note lists those that were never triggered."""
        for rule in outcome.invariants:
            if rule.violated or self._verbose:
                mark = Status.FAILED if rule.violated else Status.PASSED if rule.trials else Status.NOT_RUN
                self._writer.line(f"invariant {one_line(invariant_line(rule))}", mark=mark)
            if self._verbose:
                for exempt in rule.exempt:
                    self._writer.line(f"exempt: {one_line(exempt)}", indent=2, style="dim")

    def _print_scenarios(self, outcome: RunOutcome) -> None:
        counts = counts_of(outcome)
        suite = None
        for one in outcome.scenarios if self._verbose else _first(outcome, counts, untouched=_shows_untouched(counts)):
            if counts.suites > 1 and one.entry.key.suite != suite:
                suite = one.entry.key.suite
                self._writer.line(one_line(suite), style="bold")
            self._print_scenario(one)
        if not self._verbose:
            self._print_rest(_good(counts) - PASSING_SHOWN, "passed")
            self._print_rest(_bad(counts) - FAILING_SHOWN, "did not pass")
            if not _shows_untouched(counts):
                self._writer.line(f"… {counts.untouched:,} were not run", style="dim")

    def _print_rest(self, count: int, words: str) -> None:
        if count > 0:
            self._writer.line(f"… {count:,} more {words}", style="dim")

    def _print_scenario(self, outcome: ScenarioOutcome) -> None:
        name = one_line(outcome.entry.key.label)
        reason = not_counted_reason(outcome)
        if reason is not None:
            self._writer.line(f"{name}  {one_line(reason)}", mark=Status.NOT_RUN)
            if self._verbose and not outcome.skipped:
                self._print_trials(outcome)
            return
        history = history_text(outcome)
        beside = f"  {history}" if history else ""
        only = next(self._record.trials(outcome.entry.key), None) if trials_of(outcome) == 1 else None
        if only is not None:
            self._print_only_trial(outcome, only, beside)
        else:
            self._writer.line(f"{name}  {trials_line(outcome)}{beside}", mark=outcome.verdict.status)
            self._print_trials(outcome)
        self._print_findings(outcome)

    def _print_trials(self, outcome: ScenarioOutcome) -> None:
        shown = dict.fromkeys(Status, 0)
        first: dict[tuple[str, ...], str] = {}
        for trial in self._record.trials(outcome.entry.key):
            shown[trial.status] += 1
            if shown[trial.status] > TRIALS_SHOWN and not self._verbose:
                continue
            # Equal reasons are told once: a flaky agent fails in the same way again and again.
            told = first.setdefault(tuple(explain(trial)), trial.id)
            again = trial.status is Status.FAILED and told != trial.id and not self._verbose
            text = f"{trial.id} {shorten(summarise(trial), TEXT_LIMIT)}" + (f", as {told}" if again else "")
            self._writer.line(text, indent=2, mark=trial.status)
            if not again:
                self._print_reasons(trial, indent=6)
        for status, count in shown.items():
            if count > TRIALS_SHOWN and not self._verbose:
                self._writer.line(f"… {counted(count - TRIALS_SHOWN, 'more trial')} {status}", indent=2, style="dim")

    def _print_only_trial(self, outcome: ScenarioOutcome, trial: Trial, beside: str) -> None:
        """The trial in a line, and why it did not pass, unless the same was explained for several scenarios."""
        check = first_check(trial)
        self._explained[mask(check)] += 1
        again = trial.status is not Status.PASSED and self._explained[mask(check)] > EXPLAINED and not self._verbose
        text = f"{shorten(one_line(check), SAID_LIMIT)} (as above)" if again else shorten(summarise(trial), TEXT_LIMIT)
        self._writer.line(f"{one_line(outcome.entry.key.label)}  {text}{beside}", mark=outcome.verdict.status)
        if not again:
            self._print_reasons(trial, indent=4)

    def _print_reasons(self, trial: Trial, *, indent: int) -> None:
        if trial.status is not Status.PASSED:
            for reason in explain(trial):
                text = reason if self._verbose else failing_check(reason, whole=True)
                self._writer.line(shorten(text, TEXT_LIMIT), indent=indent)
        if self._verbose:
            for depth, text in conversation_lines(trial):
                self._writer.line(text, indent=indent + 2 * depth)
        elif trial.status is Status.FAILED and (said := failed_reply(trial)) is not None:
            self._writer.line(shorten(one_line(said), SAID_LIMIT), indent=indent, style="dim")

    def _print_findings(self, outcome: ScenarioOutcome) -> None:
        measures = "   ".join(one_line(measure.text) for measure in measures_of(outcome))
        if measures:
            self._writer.line(measures, indent=2)
        if is_flaky(outcome):
            self._writer.line(flaky_line(outcome), indent=2)
        if outcome.unique_errors:
            self._writer.line("Unique errors:", indent=2)
        for error in outcome.unique_errors:
            for text in explain_error(error):
                self._writer.line(shorten(text, TEXT_LIMIT), indent=4)
        if not outcome.verdict.passed and _has_reasons_of_its_own(outcome):
            for reason in outcome.verdict.failure_reasons:
                self._writer.line(shorten(reason, TEXT_LIMIT), indent=4)
        for note in outcome.notes:
            self._writer.line(f"note: {note}", indent=2)

    def _print_verdict(self, outcome: RunOutcome) -> None:
        run = self._record.run
        self._writer.line(scenario_counts_line(outcome))
        self._writer.line(verdict_line(outcome), style="green" if outcome.verdict.passed else "red")
        if (history := history_line(run, outcome)) is not None:
            self._writer.line(history)
        for note in outcome.notes:
            self._writer.line(f"note: {note}")
        self._writer.line(run_facts(run, outcome.totals), style="dim")
        if run.state is RunState.INTERRUPTED:
            self._writer.line(_how_to_go_on(run))

    def _print_causes(self, outcome: RunOutcome) -> None:
        """The failures, grouped by cause. The scenarios above show each trial."""
        if not counts_of(outcome).failing:
            return
        is_whole = self._record.run.state is not RunState.INTERRUPTED  # else it is told how many were not run
        causes = [cause for cause in self._record.causes if cause.counts and (cause.trials or is_whole)]
        if not causes:
            return
        shown = causes if self._verbose else causes[:CAUSES_SHOWN]
        self._writer.line()
        self._writer.line(causes_title(causes), style="bold")
        for cause in shown:
            print_cause(cause, self._record.run.id, self._writer)
        if len(causes) > len(shown):
            command = f"seatrial explain {shlex.quote(one_line(self._record.run.id))}"
            self._writer.line(f"… {len(causes) - len(shown):,} more: {command}", indent=2)


def _has_reasons_of_its_own(outcome: ScenarioOutcome) -> bool:
    """Whether no trial shows the reason: a gate on the pass rate, an unexpected pass, or no trial at all."""
    gates = outcome.entry.gates
    entry = outcome.entry
    tested = entry.sequential is not None or entry.history is not None
    of_several = gates.threshold < 1 and trials_of(outcome) > 1
    return tested or gates.pass_rate is not None or of_several or not (outcome.failed or outcome.errored)


def _how_to_go_on(run: Run) -> str:
    if run.parent is not None:
        return f"interrupted; judged trials are kept. To judge all: seatrial regrade {shlex.quote(run.parent)}"
    if run.sweep is not None and run.sweep.get("kind") == "attack":
        return f"interrupted; finished trials are kept. Continue: seatrial attack --resume {shlex.quote(run.id)}"
    command = (run.config or {}).get("command") or ""
    if command.startswith("pytest"):
        return f"interrupted; finished trials are kept. To run all: {one_line(command)}"
    return f"interrupted; finished trials are kept. Continue: seatrial run --resume {shlex.quote(run.id)}"


def _good(counts: ScenarioCounts) -> int:
    """How many scenarios do not count against the run."""
    return counts.passed + counts.skipped + counts.xfailed


def _shows_untouched(counts: ScenarioCounts) -> bool:
    return counts.untouched <= UNTOUCHED_SHOWN


def _bad(counts: ScenarioCounts) -> int:
    """How many scenarios count against the run, without those that are not listed."""
    return counts.failing if _shows_untouched(counts) else counts.failing - counts.untouched


def _first(outcome: RunOutcome, counts: ScenarioCounts, *, untouched: bool) -> Iterator[ScenarioOutcome]:
    """The scenarios to show, in order. Reads no more of a large run than it needs."""
    good = islice(filterfalse(is_failing, outcome.scenarios), min(_good(counts), PASSING_SHOWN))
    bad = islice(failing_in_order(outcome, untouched=untouched), min(_bad(counts), FAILING_SHOWN))
    return merge(good, bad, key=lambda one: one.entry.position)
