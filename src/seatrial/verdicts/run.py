"""The verdict of a run, with its totals, cost, groups and notes.

`decide_run` decides from all rows at once. `RunDecision` takes scenarios and trials one at a time, in any order, so a
large run need not be in memory.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.model.results import ModelUse, sum_model_use
from seatrial.model.run import (
    AgainstHistory,
    Decision,
    HistoryTest,
    InvariantTotals,
    MergedErrors,
    RunGates,
    RunHistory,
    RunOutcome,
    ScenarioCounts,
    ScenarioEntry,
    ScenarioKey,
    ScenarioOutcome,
    Status,
    Totals,
    TrialSummary,
    Verdict,
)
from seatrial.statistics.intervals import TURNS_FOR_P95, quantile

from . import reasons
from .attacks import AttackTally
from .faults import FaultDecision
from .rates import answer_of, decide_share
from .reasons import mean, meets
from .scenario import count_decided_by_score, decide_scenario


class Spending:
    """The cost of a run so far. An unknown cost counts as much as the highest known one."""

    def __init__(self) -> None:
        self._known = 0.0
        self._dearest: float | None = None
        self._unknown = 0
        self.agent_is_silent = False
        """A trial has no cost of the agent, so the total lacks it."""

    def add(self, agent_usd: float | None, use: ModelUse | None) -> None:
        """Add a trial: the cost that the agent reports, and that of our own model calls."""
        self._known += agent_usd or 0.0
        self.agent_is_silent = self.agent_is_silent or agent_usd is None
        if use is None or not use.calls:
            return
        if use.cost_usd is None:
            self._unknown += 1
            return
        self._known += use.cost_usd
        self._dearest = max(use.cost_usd, self._dearest or 0.0)

    @property
    def total_usd(self) -> float | None:
        """None if models were called and no cost is known."""
        if self._unknown and self._dearest is None:
            return None
        return self._known + self._unknown * (self._dearest or 0.0)

    def reaches(self, budget_usd: float) -> bool:
        """Whether the budget is spent. An unknown total counts as spent."""
        total = self.total_usd
        return total is None or total >= budget_usd


_SUMMED_AT = 1_000


class TrialSums:
    """Sums over the trials of a run."""

    def __init__(self) -> None:
        self.spending = Spending()
        self._counts = dict.fromkeys(Status, 0)
        self._scores = array("d")
        self._middles = array("d")
        self._turns = array("d")
        """The latency of every turn."""
        self._turns_known = True
        self._slowest: float | None = None
        self._tokens: int | None = None
        self._cost: float | None = None
        self._uses: list[ModelUse] = []

    @property
    def count(self) -> int:
        """The number of trials added."""
        return sum(self._counts.values())

    def add(self, trial: TrialSummary) -> None:
        self._counts[trial.status] += 1
        if trial.overall_score is not None:
            self._scores.append(trial.overall_score)
        if trial.median_latency_ms is not None:
            self._middles.append(trial.median_latency_ms)
        self._turns_known = self._turns_known and trial.latencies_ms is not None
        self._turns.extend(trial.latencies_ms or ())
        if trial.latency_ms is not None:
            self._slowest = max(trial.latency_ms, self._slowest or 0.0)
        if trial.tokens is not None:
            self._tokens = (self._tokens or 0) + trial.tokens
        if trial.cost_usd is not None:
            self._cost = (self._cost or 0.0) + trial.cost_usd
        self.spending.add(trial.cost_usd, trial.instruments)
        if trial.instruments is not None:
            self.add_use(trial.instruments)

    def add_use(self, use: ModelUse) -> None:
        """Add model calls of instruments."""
        self._uses.append(use)
        if len(self._uses) >= _SUMMED_AT:
            self._uses = [sum_model_use(self._uses)]

    def _late(self) -> float | None:
        """The 95th percentile of all turns."""
        return quantile(self._turns, 0.95) if self._turns_known and len(self._turns) >= TURNS_FOR_P95 else None

    def totals(self, gates: RunGates, *, planned: int) -> Totals:
        """The totals; percentages and gates are None without values."""
        use = sum_model_use(self._uses)
        passed = self._counts[Status.PASSED]
        metrics_pct = mean(self._scores)
        errored, not_run = self._counts[Status.ERRORED], planned - self.count
        cases_threshold = 100.0 if gates.cases_pass_threshold is None else gates.cases_pass_threshold
        share = decide_share(
            passed=passed, errored=errored, missing=not_run, total=planned, threshold=cases_threshold / 100
        )
        return Totals(
            total_executions=planned,
            passed_count=passed,
            failed_count=self._counts[Status.FAILED],
            error_count=errored,
            not_run_count=not_run,
            cases_pass_rate_pct=100.0 * passed / planned if planned else None,
            cases_pass_threshold=cases_threshold,
            cases_passed=share is Status.PASSED if planned else None,
            weighted_metrics_score_pct=metrics_pct,
            metrics_pass_threshold=gates.metrics_pass_threshold,
            metrics_passed=None if metrics_pct is None else meets(metrics_pct, gates.metrics_pass_threshold),
            latency_avg_ms=mean(self._middles),
            latency_p50_ms=quantile(self._middles, 0.5),
            latency_p95_ms=self._late(),
            latency_max_ms=self._slowest,
            tokens=self._tokens,
            cost_usd=self._cost,
            model_calls=use.calls,
            cache_hits=use.cached,
            model_tokens=use.usage.total_tokens if use.usage else None,
            model_cost_usd=use.cost_usd,
        )


class InvariantSums:
    """Counts how often each rule was triggered and violated."""

    def __init__(self) -> None:
        self._trials: dict[str, int] = {}
        """By rule, in the order in which scenarios name them."""
        self._triggered: dict[str, int | None] = {}
        self._violated: Counter[str] = Counter()
        self._exempt: dict[str, list[str]] = {}

    def add_scenario(self, entry: ScenarioEntry) -> None:
        for name in entry.invariants:
            self._trials.setdefault(name, 0)
        for name, reason in (entry.exempt or {}).items():
            self._trials.setdefault(name, 0)
            self._exempt.setdefault(name, []).append(f"{entry.key.label}: {reason}")

    def add_trial(self, trial: TrialSummary) -> None:
        for name, triggered, violations in trial.invariants:
            self._trials[name] = self._trials.get(name, 0) + 1
            before = self._triggered.get(name)
            self._triggered[name] = before if triggered is None else (before or 0) + triggered
            self._violated[name] += violations > 0

    def totals(self) -> tuple[InvariantTotals, ...]:
        return tuple(
            InvariantTotals(
                name=name,
                trials=trials,
                triggered=self._triggered.get(name),
                violated=self._violated[name],
                exempt=tuple(self._exempt.get(name, ())),
            )
            for name, trials in self._trials.items()
        )


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_COMPARABLE = 4
"""Shorter words may differ by one letter and be right: get and set."""


class ToolNotes:
    """Collects the tools that scenarios name and trials call, for notes about real tools and misspelt names."""

    def __init__(self) -> None:
        self._mocks: set[str] = set()
        self._must_not: set[str] = set()
        self._called: Counter[str] = Counter()
        self._real: Counter[str] = Counter()
        self._recorded: list[str] = []
        self._drifted = 0
        self._first_drift = ""

    def add_scenario(self, entry: ScenarioEntry) -> None:
        if entry.recorded and entry.skip is None:
            self._recorded.append(entry.key.label)
        self._mocks.update(entry.mocks)
        self._must_not.update(entry.must_not_call)

    def add_trial(self, trial: TrialSummary) -> None:
        for name, called, real in trial.tools:
            self._called[name] += called
            if real:
                self._real[name] += real
        if trial.drift is not None:
            self._drifted += 1
            self._first_drift = self._first_drift or f"{trial.key.label}, {trial.id}, {trial.drift}"

    def notes(self, *, trials: int) -> Iterator[str]:
        """One note for the real tools that ran, and one for each name that resembles a called tool."""
        if self._real:
            yield reasons.real_tools_ran(self._real.most_common())
        if self._recorded:
            yield reasons.recorded(self._recorded)
        if self._drifted:
            yield reasons.drifted(self._drifted, trials=trials, first=self._first_drift)
        for name in sorted((self._mocks | self._must_not) - self._called.keys()):
            meant = self._meant(name)
            if meant is not None:
                yield reasons.never_called(name, trials=trials, meant=meant, called=self._called[meant])

    def _meant(self, name: str) -> str | None:
        """The most called tool with a similar name; two mocked tools are different tools."""
        for called, _ in self._called.most_common():
            both_mocked = name in self._mocks and called in self._mocks
            if not both_mocked and is_misspelling(name, called):
                return called
        return None


def is_misspelling(one: str, other: str) -> bool:
    """Whether the names differ only by case, separators or one typing error in each word."""
    mine, theirs = _words(one), _words(other)
    if not mine or not theirs:
        return False
    if "".join(mine) == "".join(theirs):
        return True
    return len(mine) == len(theirs) and all(map(_is_typo, mine, theirs))


def _words(name: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub("_", name).lower())


def _is_typo(one: str, other: str) -> bool:
    """Whether the words differ by at most one missing, added or changed letter, or one swap."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(short) < _COMPARABLE or len(long) - len(short) > 1:
        return False
    start = next((place for place, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), len(short))
    rest, longer = short[start:], long[start:]
    if len(short) < len(long):
        return rest == longer[1:]
    return rest[1:] == longer[1:] or (rest[1::-1] == longer[:2] and rest[2:] == longer[2:])


_WORST_FIRST = (Status.FAILED, Status.ERRORED, Status.INCONCLUSIVE, Status.NOT_RUN)
_Problem = tuple[Status, str]
_Missed = tuple[int, Status, str]
"""A scenario that must pass and did not: position, status, reason."""


class HistoryDecision:
    """Decides a run against its history: takes scenarios with their trials in any order."""

    def __init__(self, history: RunHistory) -> None:
        self._history = history
        self._labels: dict[Decision, list[tuple[int, str]]] = {}
        self._counts: list[tuple[HistoryTest, int, int]] = []
        """For each tested scenario: its history, and the passes and answers among its first trials."""
        self.named = dict.fromkeys(Status, 0)
        """Scenarios whose status only the history decides."""

    def add(self, outcome: ScenarioOutcome, trials: Iterable[TrialSummary]) -> None:
        entry, decision = outcome.entry, outcome.against_history
        if entry.history is None or entry.skip is not None:
            return
        if decision is not None:
            self._labels.setdefault(decision, []).append((entry.position, entry.key.label))
            if (decision, outcome.verdict.status) in _BY_HISTORY:
                self.named[outcome.verdict.status] += 1
        first = [trial for trial in trials if trial.index < entry.history.first]
        answers = [answer for trial in first if (answer := answer_of(trial)) is not None]
        self._counts.append((entry.history, sum(answers), len(answers)))

    def found(self) -> AgainstHistory:
        from seatrial.statistics.history_gate import decide_suite
        from seatrial.statistics.significance import ScenarioCounts as Counts

        tested = [
            Counts(base_passed=test.passed, base_total=test.total, candidate_passed=passed, candidate_total=total)
            for test, passed, total in self._counts
            if total
        ]
        suite = decide_suite(tested, variance=self._history.variance) if tested else None
        return AgainstHistory(
            worse=self._named("worse"),
            undecided=self._named("undecided"),
            cleared=len(self._labels.get("cleared", ())),
            suite_is_worse=suite is not None and suite.alarm,
            first_passed=sum(passed for _, passed, _ in self._counts),
            first_total=sum(total for _, _, total in self._counts),
            first_expected=0.0 if suite is None else suite.expected,
            p_value=None if suite is None else suite.p_value,
        )

    def _named(self, decision: Decision) -> tuple[str, ...]:
        return tuple(label for _, label in sorted(self._labels.get(decision, ())))


_BY_HISTORY = (("worse", Status.FAILED), ("undecided", Status.INCONCLUSIVE))


def _problems_of(found: AgainstHistory) -> list[_Problem]:
    problems = [(Status.FAILED, reasons.scenarios_worse(found.worse))] if found.worse else []
    if found.suite_is_worse:
        why = reasons.suite_worse(found.first_passed, found.first_total, found.first_expected)
        problems.append((Status.FAILED, why))
    if found.undecided:
        problems.append((Status.INCONCLUSIVE, reasons.scenarios_undecided(found.undecided)))
    return problems


class RunDecision:
    """Takes scenarios and trials in any order and decides the run's verdict."""

    def __init__(self, gates: RunGates) -> None:
        self._gates = gates
        self._history = None if gates.history is None else HistoryDecision(gates.history)
        self._attacks: AttackTally | None = None
        """Of a sweep of attacks."""
        self._faults: FaultDecision | None = None
        """Of a sweep over faults."""
        self._sums = TrialSums()
        self._tools = ToolNotes()
        self._invariants = InvariantSums()
        self._groups = [GroupDecision(group) for group in gates.groups]
        self._suites: set[str] = set()
        self._skipped = self._xfailed = self._not_run = self._untouched = 0
        self._any_played = False
        self._by_score = 0
        self._by_status = dict.fromkeys(Status, 0)
        """Scenarios that count towards the verdict, by status."""
        self._missed: list[_Missed] = []

    @property
    def scenarios(self) -> int:
        """The number of scenarios added."""
        return sum(self._by_status.values()) + self._skipped + self._xfailed

    def add(self, outcome: ScenarioOutcome, trials: Iterable[TrialSummary]) -> None:
        """Add a scenario with its trials."""
        self._suites.add(outcome.entry.key.suite)
        self._tools.add_scenario(outcome.entry)
        self._invariants.add_scenario(outcome.entry)
        self._skipped += outcome.skipped
        self._xfailed += outcome.xfailed
        self._not_run += outcome.not_run
        self._any_played = self._any_played or outcome.played > 0
        counts = not outcome.skipped and not outcome.xfailed
        if counts:
            self._by_status[outcome.verdict.status] += 1
            self._untouched += outcome.is_untouched
        # If every scenario must pass, the count of failed scenarios includes these.
        said = counts and self._gates.cases_pass_threshold is None
        if outcome.entry.gates.must_pass and not outcome.verdict.passed and not said:
            self._missed.append(_missed(outcome))
        for group in self._groups:
            group.add(outcome)
        trials = list(trials)
        if self._history is not None:
            self._history.add(outcome, trials)
        if outcome.entry.variant is not None and outcome.entry.variant.kind == "attack":
            self._attacks = self._attacks or AttackTally()
            self._attacks.add(outcome.entry, trials)
        if outcome.entry.variant is not None and outcome.entry.variant.kind == "fault":
            self._faults = self._faults or FaultDecision()
            self._faults.add(outcome.entry, trials)
        self.add_trials(trials)

    def add_trials(self, trials: Iterable[TrialSummary]) -> None:
        for trial in trials:
            self._sums.add(trial)
            self._by_score += count_decided_by_score((trial,))
            self._tools.add_trial(trial)
            self._invariants.add_trial(trial)

    def add_use(self, use: ModelUse | None) -> None:
        """Add model calls that belong to no trial."""
        if use is not None:
            self._sums.add_use(use)

    def outcome(
        self,
        scenarios: Sequence[ScenarioOutcome],
        *,
        budget_usd: float | None = None,
    ) -> RunOutcome:
        """The run's outcome. `scenarios` are the outcomes that were added, as a sequence that may load them lazily."""
        totals = self._sums.totals(self._gates, planned=self._not_run + self._sums.count)
        groups = tuple((group.name, group.verdict()) for group in self._groups)
        against = None if self._history is None else self._history.found()
        decided, only_undecided = self._decide(totals, groups, against)
        verdict = self._with_budget(decided, totals, budget_usd)
        return RunOutcome(
            verdict=verdict,
            scenarios=scenarios,
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
            invariants=self._invariants.totals(),
            notes=tuple(self._notes(verdict, totals, budget_usd)),
            against=None if against is None else replace(against, only_undecided=only_undecided),
            attacks=None if self._attacks is None else self._attacks.report(),
            faults=None if self._faults is None else self._faults.report(),
        )

    def _with_budget(self, verdict: Verdict, totals: Totals, budget: float | None) -> Verdict:
        """The verdict, with the budget as a reason if it prevented trials."""
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
        idle = [rule.name for rule in self._invariants.totals() if rule.is_idle]
        if idle:
            yield reasons.never_triggered(idle, trials=self._sums.count)
        if self._gates.history is not None:
            yield from self._gates.history.notes

    def _budget_spent(self, totals: Totals, budget: float | None) -> str | None:
        """The reason if the budget prevented trials."""
        spending = self._sums.spending
        if budget is None or not totals.not_run_count or not spending.reaches(budget):
            return None
        return reasons.budget_spent(budget, spending.total_usd, totals.not_run_count)

    def _decide(
        self, totals: Totals, groups: Sequence[tuple[str, Verdict]], against: AgainstHistory | None
    ) -> tuple[Verdict, bool]:
        """The verdict, and whether only undecided scenarios keep it from passing."""
        if totals.total_executions == 0 or not self._any_played:
            return Verdict(status=Status.NOT_RUN, failure_reasons=(reasons.nothing_run(),)), False
        if self._attacks is not None:
            return self._attacks.report().verdict, False
        if self._faults is not None:
            return self._faults.verdict(), False
        others = self._find_problems(totals, groups)
        problems = [*([] if against is None else _problems_of(against)), *others]
        undecided = bool(problems) and not others and all(status is Status.INCONCLUSIVE for status, _ in problems)
        return _verdict(problems), undecided

    def _find_problems(self, totals: Totals, groups: Sequence[tuple[str, Verdict]]) -> list[_Problem]:
        """Everything that keeps the run from passing, except the test against the history."""
        problems: list[_Problem] = []
        if self._gates.cases_pass_threshold is None:
            named = {} if self._history is None else self._history.named
            counts = [(status, self._by_status[status] - named.get(status, 0)) for status in _WORST_FIRST]
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
        if self._history is not None:
            # Few failures are within noise of a history, but no history excuses the violation of a rule.
            violated = [rule.name for rule in self._invariants.totals() if rule.violated]
            problems += [(Status.FAILED, reasons.invariants_violated(violated))] if violated else []
        return problems


class GroupDecision:
    """Decides a group: the share of its scenarios that passed, and those that must pass."""

    def __init__(self, group: Mapping[str, Any]) -> None:
        self.name = str(group["name"])
        self._suite: str | None = group.get("suite")
        """The suite of its scenarios; None: all suites (runs of earlier versions)."""
        self._must = frozenset(group.get("must_pass") or ())
        self._tags = set(group.get("tags") or ())
        self._threshold = float(group.get("threshold", 1.0))
        self._tagged = self._named = 0
        self._members = dict.fromkeys(Status, 0)
        """Tagged scenarios that count, by status."""
        self._missed: list[_Missed] = []

    def add(self, outcome: ScenarioOutcome) -> None:
        if not self._is_of_suite(outcome.entry):
            return
        if not self._tags.isdisjoint(outcome.entry.tags):
            self._tagged += 1
            if not outcome.skipped and not outcome.xfailed:
                self._members[outcome.verdict.status] += 1
        if outcome.entry.key.name in self._must:
            self._named += 1
            if not outcome.verdict.passed:
                self._missed.append(_missed(outcome))

    def _is_of_suite(self, entry: ScenarioEntry) -> bool:
        """Scenarios of other suites with the same tags must not make up for failures."""
        return self._suite is None or entry.key.suite == self._suite

    def verdict(self) -> Verdict:
        """The verdict; not run, without a reason, if none of its scenarios was selected."""
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


def decide_run(
    entries: Iterable[ScenarioEntry],
    trials: Iterable[TrialSummary],
    gates: RunGates | None = None,
    *,
    merged: Iterable[MergedErrors] = (),
    budget_usd: float | None = None,
) -> RunOutcome:
    """The outcome of a run from its rows: totals, and the verdicts of scenarios, groups and the run.

    `budget_usd` only explains trials that were not run; it is not a gate.
    """
    merges = {each.key: each for each in merged}
    by_scenario: dict[ScenarioKey, list[TrialSummary]] = {}
    for trial in trials:
        by_scenario.setdefault(trial.key, []).append(trial)
    decision = RunDecision(gates or RunGates())
    outcomes = []
    for entry in sorted(entries, key=lambda entry: entry.position):
        played = by_scenario.pop(entry.key, ())
        outcomes.append(decide_scenario(entry, played, merged=merges.get(entry.key)))
        decision.add(outcomes[-1], played)
    for unplanned in by_scenario.values():
        decision.add_trials(unplanned)
    for each in merges.values():
        decision.add_use(each.use)
    return decision.outcome(tuple(outcomes), budget_usd=budget_usd)


def decide_group(group: Mapping[str, Any], outcomes: Sequence[ScenarioOutcome]) -> Verdict:
    """The verdict of a group over these scenarios."""
    decision = GroupDecision(group)
    for outcome in outcomes:
        decision.add(outcome)
    return decision.verdict()
