"""The report of a run, read from stored rows, and whether a test asserts its verdict.

Reading a verdict is not an assertion: `if report.passed:` and `print(report.status)` fail no test. It is one if the
code that reads the verdict is part of an `assert` statement, or of a call of a unittest method such as
`self.assertTrue`.
"""

import ast
import linecache
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import islice
from types import FrameType
from typing import Any, overload

from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.causes import Cause
from seatrial.model.run import (
    MergedErrors,
    Run,
    RunOutcome,
    RunState,
    ScenarioEntry,
    ScenarioKey,
    ScenarioOutcome,
    Status,
    Trial,
    TrialSummary,
    Verdict,
    summarise,
)
from seatrial.store.runs import damaged
from seatrial.store.store import Store
from seatrial.verdicts.reasons import human_rate_text, labels_needed
from seatrial.verdicts.run import RunDecision, decide_run
from seatrial.verdicts.scenario import decide_scenario

from .explain import find_causes, passed_in_earlier_runs

unsettled: list[Any] = []
"""Reports that the current test has made."""


def in_a_test() -> bool:
    """Whether pytest runs the body of a test in this process."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").endswith("(call)")


def is_asserting(frame: FrameType) -> bool:
    """Whether the current code of the frame is part of an assertion. False if its source cannot be read."""
    code = frame.f_code
    line, _, column, _ = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if line is None:
        return False
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename, frame.f_globals))
    if column is None:  # Python runs without columns (-X no_debug_ranges)
        return any(start[0] <= line <= end[0] for start, end in _asserts(source))
    return any(start <= (line, column) < end for start, end in _asserts(source))


@lru_cache(maxsize=64)
def _asserts(source: str) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """Start and end of each assertion, as (line, column)."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(
        ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0))
        for node in nodes
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _is_of_unittest(node.func))
    )


def _is_of_unittest(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr.startswith("assert")


HELD = 500
"""Larger runs do not keep the outcomes of their scenarios in memory: each iteration derives them again."""
_SCENARIOS_NAMED = 10
"""How many scenarios an error lists when the requested one does not exist."""


class Report:
    """The result of a run. `report.passed` is the verdict; `report.failure_reasons` say why it did not pass."""

    def __init__(self, record: "StoredRecord | MemoryRecord", *, played: int = 0) -> None:
        self.record = record
        self.played = played
        """Trials played by this process; a resumed run has more."""
        self.asserted = True
        """Whether a test asserts the verdict; starts as False only for reports that a test creates."""

    @property
    def run(self) -> Run:
        return self.record.run

    @property
    def outcome(self) -> RunOutcome:
        return self._read()

    @property
    def passed(self) -> bool:
        return self._read().verdict.passed

    def __bool__(self) -> bool:
        """Whether the run passed, so that `assert run(...)` fails when it did not."""
        return self._read().verdict.passed

    @property
    def status(self) -> Status:
        return self._read().verdict.status

    def _read(self) -> RunOutcome:
        """The outcome. Notes whether the caller of the public property is part of an assertion."""
        if not self.asserted:
            self.asserted = is_asserting(sys._getframe(2))
        return self.record.outcome

    @property
    def failure_reasons(self) -> tuple[str, ...]:
        """Why the run did not pass: the run's own reasons, then those of each scenario."""
        outcome = self._read()
        of_scenarios = (
            f"{scenario.entry.key.label}: {reason}"
            for scenario in outcome.scenarios
            if not scenario.verdict.passed and not scenario.skipped and not scenario.xfailed
            for reason in scenario.verdict.failure_reasons
        )
        return (*outcome.verdict.failure_reasons, *of_scenarios)

    def trials(self, scenario: str | None = None) -> Iterator[Trial]:
        """The trials with their transcripts, of one scenario or of all.

        Raises UsageError if the run has no scenario of that name: `all(...)` over no trials would hold.
        """
        keys = [each.entry.key for each in self.record.outcome.scenarios]
        if scenario is not None:
            found = [key for key in keys if key.name == scenario]
            if not found:
                raise UsageError(f"run {self.run.id}: has no scenario {scenario!r}.{_list_names(scenario, keys)}")
            keys = found
        return (trial for key in keys for trial in self.record.trials(key))

    @property
    def exit_code(self) -> int:
        """0 passed, 1 not passed, 3 undecided (only with `--against`), 130 interrupted."""
        outcome = self._read()
        if self.run.state is RunState.INTERRUPTED:
            return 130
        if outcome.word == "UNDECIDED":
            return 3
        return 0 if outcome.verdict.passed else 1

    def _repr_html_(self) -> str:
        """The report in a notebook: the verdict and a dot for each trial."""
        from html import escape

        from seatrial.reports.run_plots import plot_run
        from seatrial.reports.texts import scenario_counts_line, verdict_line

        outcome = self.record.outcome
        head = f"<b>{escape(verdict_line(outcome))}</b><br>{escape(scenario_counts_line(outcome))}"
        return f"<div>{head}{plot_run(self.record, 'trials').file()}</div>"

    def __repr__(self) -> str:
        # Without the verdict: event loops print pending objects, and a verdict reads every row.
        return f"<Report {self.run.id}>"


def _list_names(name: object, keys: Iterable[ScenarioKey]) -> str:
    from difflib import get_close_matches

    names = list(dict.fromkeys(key.name for key in keys))
    close = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    more = f" and {len(names) - _SCENARIOS_NAMED:,} more" if len(names) > _SCENARIOS_NAMED else ""
    return f"{hint} It has: {', '.join(names[:_SCENARIOS_NAMED])}{more}"


class StoredRecord:
    """The rows of a run in the store."""

    def __init__(self, store: Store, run: Run) -> None:
        self.store = store
        self.run = run

    @cached_property
    def outcome(self) -> RunOutcome:
        with readable(self.run.id):
            return decide_stored(self.store, self.run)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        """The causes of failures, with the most trials first."""
        return find_causes(self, earlier=passed_in_earlier_runs(self.store, self.run))

    def trials(self, key: ScenarioKey) -> Iterator[Trial]:
        return self.store.trials(self.run.id, key)

    def summaries(self) -> Iterator[TrialSummary]:
        return self.store.summaries(self.run.id)


class MemoryRecord:
    """The trials of a run that is not stored."""

    def __init__(
        self, run: Run, entries: list[ScenarioEntry], trials: list[Trial], merged: Iterable[MergedErrors] = ()
    ) -> None:
        self.run = run
        self._entries = entries
        self._trials = trials
        self._merged = merged

    @cached_property
    def outcome(self) -> RunOutcome:
        return decide(self.run, self._entries, self.summaries(), self._merged)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        return find_causes(self)

    def summaries(self) -> Iterator[TrialSummary]:
        return (summarise(trial) for trial in self._trials)

    def trials(self, key: ScenarioKey) -> Iterator[Trial]:
        of_scenario = (trial for trial in self._trials if trial.key == key)
        return iter(sorted(of_scenario, key=lambda trial: trial.index))


def decide(
    run: Run,
    entries: Iterable[ScenarioEntry],
    summaries: Iterable[TrialSummary],
    merged: Iterable[MergedErrors] = (),
) -> RunOutcome:
    """The outcome of a run whose rows are all in memory."""
    outcome = decide_run(entries, summaries, run.gates, merged=merged, budget_usd=_budget_of(run))
    return _require_end(run, outcome)


def decide_stored(store: Store, run: Run) -> RunOutcome:
    """The outcome of a stored run. Reads the rows in pages, so that memory stays flat."""
    merged = {each.key: each for each in store.merged(run.id)}
    decision = RunDecision(run.gates)
    held: list[ScenarioOutcome] = []
    for outcome, trials in _decide_scenarios(store, run.id, merged):
        decision.add(outcome, trials)
        if len(held) <= HELD:
            held.append(outcome)
    for each in merged.values():
        decision.add_use(each.use)
    is_large = len(held) > HELD
    scenarios = StoredOutcomes(store, run.id, merged, count=decision.scenarios) if is_large else tuple(held)
    return _require_end(run, decision.outcome(scenarios, budget_usd=_budget_of(run)))


class StoredOutcomes(Sequence[ScenarioOutcome]):
    """The outcomes of a large run's scenarios. Each iteration derives them from the stored rows."""

    def __init__(self, store: Store, run_id: str, merged: Mapping[ScenarioKey, MergedErrors], *, count: int) -> None:
        self._store = store
        self._run_id = run_id
        self._merged = merged
        self._count = count

    def __iter__(self) -> Iterator[ScenarioOutcome]:
        return (outcome for outcome, _ in _decide_scenarios(self._store, self._run_id, self._merged))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> ScenarioOutcome: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[ScenarioOutcome]: ...

    def __getitem__(self, place: int | slice) -> ScenarioOutcome | Sequence[ScenarioOutcome]:
        if isinstance(place, slice):
            return tuple(self)[place]
        return next(islice(self, range(self._count)[place], None))


def _decide_scenarios(
    store: Store, run_id: str, merged: Mapping[ScenarioKey, MergedErrors]
) -> Iterator[tuple[ScenarioOutcome, list[TrialSummary]]]:
    for entry, trials in store.played(run_id):
        yield decide_scenario(entry, trials, merged=merged.get(entry.key)), trials


def _require_end(run: Run, outcome: RunOutcome) -> RunOutcome:
    """The outcome, but not passed if the run has a problem, lacks labels or did not finish."""
    outcome = _require_labels(run, outcome)
    if run.problem is not None:
        harmless = (Status.PASSED, Status.INCONCLUSIVE)
        status = Status.ERRORED if outcome.verdict.status in harmless else outcome.verdict.status
        reasons = (run.problem, *outcome.verdict.failure_reasons)
        return replace(outcome, verdict=Verdict(status=status, failure_reasons=reasons))
    if run.state is RunState.FINISHED or not outcome.verdict.passed:
        return outcome
    why = "the run was interrupted" if run.state is RunState.INTERRUPTED else "the run has not finished"
    return replace(outcome, verdict=Verdict(status=Status.NOT_RUN, failure_reasons=(why,)))


def _require_labels(run: Run, outcome: RunOutcome) -> RunOutcome:
    """The outcome, but not passed unless human labels confirm the pass rate, if a gate asks for that."""
    gate, found = run.gates.judge_corrected, run.human_rate
    if gate is None:
        return outcome
    if found is not None and found.decision == "pass":
        return replace(outcome, notes=(*outcome.notes, human_rate_text(found, gate)))
    status = Status.FAILED if found is not None and found.decision == "fail" else Status.INCONCLUSIVE
    why = labels_needed(run.id, gate) if found is None else human_rate_text(found, gate, run_id=run.id)
    before = outcome.verdict
    if before.passed or (before.status is Status.INCONCLUSIVE and status is Status.FAILED):
        before = replace(before, status=status)
    return replace(outcome, verdict=replace(before, failure_reasons=(*before.failure_reasons, why)))


def _budget_of(run: Run) -> float | None:
    settings = (run.config or {}).get("run") or {}
    budget: float | None = settings.get("budget")
    return budget


@contextmanager
def readable(run_id: str) -> Iterator[None]:
    """Turn errors of reading a run's rows into a StoreError that names the run."""
    try:
        yield
    except StoreError as broken:
        named = str(broken).startswith("run ")
        raise broken if named else StoreError(damaged(run_id, broken)) from broken
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as broken:
        raise StoreError(damaged(run_id, broken)) from broken


def find_damaged(store: Store, limit: int | None = None) -> list[tuple[str, str]]:
    """(id, problem) of each run that cannot be read. Reads trials only in the newest `limit` runs."""
    problems: list[tuple[str, str]] = []
    for run in store.runs(problems=problems)[:limit]:
        try:
            _ = StoredRecord(store, run).outcome
        except StoreError as broken:
            problems.append((run.id, str(broken)))
    return problems
