"""The verdict of a run in the making: scenarios go in one by one, and little more than counts stays of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from seatrial.model.results import ModelUse
from seatrial.model.run import (
    Figures,
    RunGates,
    RunOutcome,
    ScenarioCounts,
    ScenarioEntry,
    ScenarioOutcome,
    Status,
    Totals,
    TrialSummary,
    Verdict,
)

from . import reasons
from .rates import decide_share
from .scenario import count_decided_by_score, passes_plainly
from .tool_notes import ToolNotes
from .totals import TrialSums

_WORST_FIRST = (Status.FAILED, Status.ERRORED, Status.INCONCLUSIVE, Status.NOT_RUN)
_Problem = tuple[Status, str]
_Missed = tuple[int, Status, str]
"""The position of a scenario that must pass and did not, its status, and what is said of it."""


class RunDecision:
    """Everything that a run's verdict needs to know of its scenarios and trials. They may come in any order."""

    def __init__(self, gates: RunGates) -> None:
        self._gates = gates
        self._sums = TrialSums()
        self._tools = ToolNotes()
        self._groups = [GroupDecision(group) for group in gates.groups]
        self._names_matter = any(group.must for group in self._groups)
        self._suites: set[str] = set()
        self._skipped = self._xfailed = self._not_run = self._untouched = 0
        self._any_played = False
        self._by_score = 0
        self._by_status = dict.fromkeys(Status, 0)
        """Of the scenarios that count."""
        self._missed: list[_Missed] = []

    def counts_together(self, entry: ScenarioEntry, trials: int) -> bool:
        """Whether scenarios like this one may come as `add_passed`, if so many trials passed and there is no more."""
        return not self._names_matter and passes_plainly(entry, trials)

    @property
    def scenarios(self) -> int:
        """How many were added."""
        return sum(self._by_status.values()) + self._skipped + self._xfailed

    def add_passed(self, entry: ScenarioEntry, *, scenarios: int) -> None:
        """So many scenarios that count together; `entry` is any of them. Their trials come apart."""
        assert not self._names_matter
        self._suites.add(entry.key.suite)
        self._tools.add_scenario(entry)
        self._any_played = True
        self._by_status[Status.PASSED] += scenarios
        for group in self._groups:
            group.add_passed(entry, scenarios)

    def add_passed_trials(self, trials: Sequence[Figures]) -> None:
        """All trials of such scenarios."""
        self._sums.add_passed(trials)

    def add(self, outcome: ScenarioOutcome, trials: Iterable[TrialSummary]) -> None:
        """A scenario with its trials."""
        self._suites.add(outcome.entry.key.suite)
        self._tools.add_scenario(outcome.entry)
        self._skipped += outcome.skipped
        self._xfailed += outcome.xfailed
        self._not_run += outcome.not_run
        self._any_played = self._any_played or outcome.played > 0
        counts = not outcome.skipped and not outcome.xfailed
        if counts:
            self._by_status[outcome.verdict.status] += 1
            self._untouched += outcome.is_untouched
        # Where every scenario must pass, those that count are told of with all others.
        said = counts and self._gates.cases_pass_threshold is None
        if outcome.entry.gates.must_pass and not outcome.verdict.passed and not said:
            self._missed.append(_missed(outcome))
        for group in self._groups:
            group.add(outcome)
        self.add_trials(trials)

    def add_trials(self, trials: Iterable[TrialSummary]) -> None:
        for trial in trials:
            self._sums.add(trial)
            self._by_score += count_decided_by_score((trial,))
            self._tools.add_trial(trial)

    def add_use(self, use: ModelUse | None) -> None:
        """What instruments took apart from the trials."""
        if use is not None:
            self._sums.add_use(use)

    def outcome(
        self,
        scenarios: Sequence[ScenarioOutcome],
        *,
        others: Iterable[ScenarioOutcome] | None = None,
        budget_usd: float | None = None,
    ) -> RunOutcome:
        """What follows from all that was added. `scenarios` are the outcomes, as whoever added them can supply them."""
        totals = self._sums.totals(self._gates, planned=self._not_run + self._sums.count)
        groups = tuple((group.name, group.verdict()) for group in self._groups)
        verdict = self._with_budget(self._decide(totals, groups), totals, budget_usd)
        return RunOutcome(
            verdict=verdict,
            scenarios=scenarios,
            others=others,
            counts=ScenarioCounts(
                passed=self._by_status[Status.PASSED],
                failing=sum(self._by_status.values()) - self._by_status[Status.PASSED],
                untouched=self._untouched,
                skipped=self._skipped,
                xfailed=self._xfailed,
                suites=len(self._suites),
            ),
            totals=totals,
            groups=groups,
            notes=tuple(self._notes(verdict, totals, budget_usd)),
        )

    def _with_budget(self, verdict: Verdict, totals: Totals, budget: float | None) -> Verdict:
        """The verdict, with the budget among its reasons where it kept trials from being run."""
        why = self._budget_spent(totals, budget)
        if verdict.passed or why is None:
            return verdict
        return Verdict(status=verdict.status, failure_reasons=(*verdict.failure_reasons, why))

    def _notes(self, verdict: Verdict, totals: Totals, budget: float | None) -> Iterator[str]:
        if budget and self._sums.spending.agent_is_silent:
            yield reasons.agent_cost_unknown(budget)
        if self._by_score:
            yield reasons.decided_by_score(self._by_score)
        why = self._budget_spent(totals, budget)
        if verdict.passed and why is not None:
            yield why
        yield from self._tools.notes(trials=self._sums.count)

    def _budget_spent(self, totals: Totals, budget: float | None) -> str | None:
        """What is said of a budget that kept trials from being run."""
        spending = self._sums.spending
        if budget is None or not totals.not_run_count or not spending.reaches(budget):
            return None
        return reasons.budget_spent(budget, spending.total_usd, totals.not_run_count)

    def _decide(self, totals: Totals, groups: Sequence[tuple[str, Verdict]]) -> Verdict:
        if totals.total_executions == 0 or not self._any_played:
            return Verdict(status=Status.NOT_RUN, failure_reasons=(reasons.nothing_run(),))
        problems: list[_Problem] = []
        if self._gates.cases_pass_threshold is None:
            counts = [(status, self._by_status[status]) for status in _WORST_FIRST]
            problems += [(status, reasons.scenarios_with(count, status)) for status, count in counts if count]
        else:
            problems += _problem_cases(totals, self._gates.cases_pass_threshold)
        problems += [(status, why) for _, status, why in sorted(self._missed)]
        if totals.metrics_passed is False:
            assert totals.weighted_metrics_score_pct is not None
            why = reasons.metrics_below(totals.weighted_metrics_score_pct, self._gates.metrics_pass_threshold)
            problems.append((Status.FAILED, why))
        for name, verdict in groups:
            problems += [(verdict.status, reasons.in_group(name, why)) for why in verdict.failure_reasons]
        return _verdict(problems)


class GroupDecision:
    """A group's verdict in the making: the share of its scenarios that passed, and those that must."""

    def __init__(self, group: Mapping[str, Any]) -> None:
        self.name = str(group["name"])
        self._suite: str | None = group.get("suite")
        """Whose scenarios it is about; None of all, as runs of earlier versions say it."""
        self.must = frozenset(group.get("must_pass") or ())
        self._tags = set(group.get("tags") or ())
        self._threshold = float(group.get("threshold", 1.0))
        self._tagged = self._named = 0
        self._members = dict.fromkeys(Status, 0)
        """Those with a tag, by status, apart from the ones that do not count."""
        self._missed: list[_Missed] = []

    def add_passed(self, entry: ScenarioEntry, scenarios: int) -> None:
        if self._is_of_suite(entry) and not self._tags.isdisjoint(entry.tags):
            self._tagged += scenarios
            self._members[Status.PASSED] += scenarios

    def add(self, outcome: ScenarioOutcome) -> None:
        if not self._is_of_suite(outcome.entry):
            return
        if not self._tags.isdisjoint(outcome.entry.tags):
            self._tagged += 1
            if not outcome.skipped and not outcome.xfailed:
                self._members[outcome.verdict.status] += 1
        if outcome.entry.key.name in self.must:
            self._named += 1
            if not outcome.verdict.passed:
                self._missed.append(_missed(outcome))

    def _is_of_suite(self, entry: ScenarioEntry) -> bool:
        """Else the scenarios of another suite with the same tags would make up for failures of its own."""
        return self._suite is None or entry.key.suite == self._suite

    def verdict(self) -> Verdict:
        """Not run, without a reason against the run, where none of its scenarios was selected."""
        if not self._tagged and not self._named:
            return Verdict(status=Status.NOT_RUN)
        problems = self._problem_members() if self._tagged else []
        return _verdict([*problems, *((status, why) for _, status, why in sorted(self._missed))])

    def _problem_members(self) -> list[_Problem]:
        members, total = self._members, sum(self._members.values())
        if not total:
            return [(Status.NOT_RUN, reasons.group_empty())]
        passed = members[Status.PASSED]
        status = decide_share(
            passed=passed,
            errored=members[Status.ERRORED] + members[Status.INCONCLUSIVE],
            missing=members[Status.NOT_RUN],
            total=total,
            threshold=self._threshold,
        )
        return [] if status is Status.PASSED else [(status, reasons.group_below(passed, total, self._threshold))]


def _missed(outcome: ScenarioOutcome) -> _Missed:
    return outcome.entry.position, outcome.verdict.status, reasons.must_pass_missed(outcome.entry.key.label)


def _verdict(problems: Sequence[_Problem]) -> Verdict:
    if not problems:
        return Verdict(status=Status.PASSED)
    worst = min((status for status, _ in problems), key=_WORST_FIRST.index)
    return Verdict(status=worst, failure_reasons=tuple(why for _, why in problems))


def _problem_cases(totals: Totals, threshold: float) -> list[_Problem]:
    status = decide_share(
        passed=totals.passed_count,
        errored=totals.error_count,
        missing=totals.not_run_count,
        total=totals.total_executions,
        threshold=threshold / 100,
    )
    if status is Status.PASSED:
        return []
    return [(status, reasons.cases_below(totals, threshold))]
