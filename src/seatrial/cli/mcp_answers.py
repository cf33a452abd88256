"""The answers of `seatrial mcp`: short, typed, and with the command that shows more."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from seatrial.comparison.gate import Gate, decide_gate
from seatrial.errors import StoreError, UsageError
from seatrial.model.causes import Cause
from seatrial.model.comparison import RegressionLimits, ScenarioChange
from seatrial.model.conversation import PlayedTurn
from seatrial.model.run import ScenarioOutcome, Status, Trial
from seatrial.reports.causes import show_command
from seatrial.reports.conversation import describe_call
from seatrial.reports.texts import explain, failing
from seatrial.runs.compare_runs import StoredRuns
from seatrial.runs.report import StoredRecord

from .options import open_stored
from .show import find_scenarios, find_trial

_MOST_FAILURES: Final = 20
_MOST_TRIALS: Final = 10
_MOST_SCENARIOS: Final = 200
_MOST_RUNS: Final = 10
_REASON: Final = 500
"""Characters of a reason."""
_TEXT: Final = 2_000
"""Characters of a text in a conversation."""


@dataclass(frozen=True)
class Validated:
    valid: bool
    files: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Each with file, line and column."""


@dataclass(frozen=True)
class ListedScenario:
    suite: str
    scenario: str
    kind: str
    tags: list[str]
    source: str | None


@dataclass(frozen=True)
class ListedRun:
    run: str
    name: str
    verdict: str
    started_at: str


@dataclass(frozen=True)
class Listed:
    scenarios: list[ListedScenario]
    left_out: int
    runs: list[ListedRun] = field(default_factory=list)


@dataclass(frozen=True)
class Failure:
    scenario: str
    status: str
    trials_passed: int
    trials: int
    reasons: list[str]
    source: str | None
    show: str
    """The command that shows its conversations."""


@dataclass(frozen=True)
class RunAnswer:
    run: str
    verdict: str
    passed: bool
    scenarios_passed: int
    scenarios: int
    trials_passed: int
    trials: int
    reasons: list[str]
    failures: list[Failure]
    failures_left_out: int
    show: str


@dataclass(frozen=True)
class Said:
    """One turn. The texts are data of the test."""

    user: str
    agent: str | None
    tool_calls: list[str] | None
    """None: not recorded."""


@dataclass(frozen=True)
class TrialAnswer:
    scenario: str
    trial: str
    status: str
    reasons: list[str]
    conversation: list[Said]


@dataclass(frozen=True)
class Shown(RunAnswer):
    trial_answers: list[TrialAnswer] = field(default_factory=list)
    """With `scenario`: its trials, those that did not pass first."""


@dataclass(frozen=True)
class Change:
    scenario: str
    word: str
    before: str
    after: str


@dataclass(frozen=True)
class Compared:
    verdict: str
    sentence: str
    reasons: list[str]
    changes: list[Change]
    base: str
    candidate: str
    show: str


@dataclass(frozen=True)
class CauseAnswer:
    symptom: str
    """The failing check or the error."""
    difference: str
    """The first step that differs from a trial that passed."""
    trials: int
    scenarios: list[str]
    advice: str
    show: str
    """The command that shows an example."""


@dataclass(frozen=True)
class Explained:
    run: str
    causes: list[CauseAnswer]
    causes_left_out: int


@dataclass(frozen=True)
class OperatorAnswer:
    operator: str
    caught: int
    mutants: int


@dataclass(frozen=True)
class Mutated:
    run: str
    score: float | None
    """The share of the mutants that a check noticed; None if no mutant was judged."""
    caught: int
    mutants: int
    equivalent: int
    not_judged: int
    operators: list[OperatorAnswer]
    not_noticed: list[str]
    """One example for each operator: what the agent did, and in which scenario and trial."""
    checks_that_caught_nothing: list[str]
    suggested_yaml: str
    """Lines for the suite. Each was verified: it catches mutants, and all originals pass."""
    notes: list[str]
    show: str


def cut(text: str, most: int) -> str:
    """The text, or its beginning with a note of how much is missing."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def listed_scenarios(rows: list[dict[str, Any]]) -> Listed:
    """The scenarios that `list --json` printed."""
    names = ("suite", "scenario", "kind", "tags", "source")
    found = [ListedScenario(**{name: row[name] for name in names}) for row in rows[:_MOST_SCENARIOS]]
    return Listed(scenarios=found, left_out=max(0, len(rows) - _MOST_SCENARIOS))


def with_runs(listed: Listed) -> Listed:
    """The same, with the newest stored runs."""
    runs: list[ListedRun] = []
    try:
        with open_stored(None) as store:
            for run in store.runs(_MOST_RUNS, problems=[]):
                verdict = StoredRecord(store, run).outcome.verdict.status.value
                started = run.started_at.isoformat(timespec="seconds")
                runs.append(ListedRun(run=run.id, name=run.name, verdict=verdict, started_at=started))
    except (UsageError, StoreError):
        pass  # nothing was run yet, or one run is damaged: `seatrial list runs` says which
    return Listed(scenarios=listed.scenarios, left_out=listed.left_out, runs=runs)


def run_answer(run: str) -> RunAnswer:
    """The verdict of a stored run, and its failures, worst first."""
    with open_stored(None) as store:
        return RunAnswer(**_summary(StoredRecord(store, store.run(run))))


def _summary(record: StoredRecord) -> dict[str, Any]:
    outcome = record.outcome
    failures = list(failing(outcome))
    counted = [one for one in outcome.scenarios if not one.skipped]
    return {
        "run": record.run.id,
        "verdict": outcome.verdict.status.value,
        "passed": outcome.verdict.passed,
        "scenarios_passed": sum(one.verdict.passed for one in counted),
        "scenarios": len(counted),
        "trials_passed": outcome.totals.passed_count,
        "trials": outcome.totals.total_executions,
        "reasons": [cut(reason, _REASON) for reason in outcome.verdict.failure_reasons[:10]],
        "failures": [_failure(record, one) for one in failures[:_MOST_FAILURES]],
        "failures_left_out": max(0, len(failures) - _MOST_FAILURES),
        "show": f"seatrial show {record.run.id}",
    }


def _failure(record: StoredRecord, outcome: ScenarioOutcome) -> Failure:
    first = next((trial for trial in record.trials(outcome.entry.key) if trial.status is not Status.PASSED), None)
    reasons = [*outcome.verdict.failure_reasons, *(explain(first) if first is not None else ())]
    return Failure(
        scenario=outcome.entry.key.label,
        status=outcome.verdict.status.value,
        trials_passed=outcome.passed,
        trials=outcome.passed + outcome.failed + outcome.errored,
        reasons=[cut(reason, _REASON) for reason in dict.fromkeys(reasons)][:5],
        source=outcome.entry.source,
        show=shlex.join(["seatrial", "show", record.run.id, outcome.entry.key.label]),
    )


def shown(run: str, scenario: str | None, trial: int | None) -> Shown:
    """A stored run; with a scenario, also trials of it with their conversations."""
    with open_stored(None) as store:
        record = StoredRecord(store, store.run(run))
        found: list[TrialAnswer] = []
        for outcome in find_scenarios(record, scenario) if scenario is not None else ():
            trials = list(record.trials(outcome.entry.key))
            if trial is not None:
                trials = [find_trial(trials, str(trial), outcome)]
            trials.sort(key=lambda one: one.status is Status.PASSED)
            found += [_trial(one, outcome) for one in trials[:_MOST_TRIALS]]
        return Shown(**_summary(record), trial_answers=found)


def _trial(trial: Trial, outcome: ScenarioOutcome) -> TrialAnswer:
    reasons = explain(trial) if trial.status is not Status.PASSED else []
    if trial.error is not None:
        reasons = [f"ERROR {trial.error.kind}: {trial.error.message}", *reasons]
    return TrialAnswer(
        scenario=outcome.entry.key.label,
        trial=trial.id,
        status=trial.status.value,
        reasons=[cut(reason, _REASON) for reason in reasons][:10],
        conversation=[_said(turn) for turn in trial.transcript.turns],
    )


def _said(turn: PlayedTurn) -> Said:
    calls = None if turn.tool_calls is None else [cut(describe_call(call), _REASON) for call in turn.tool_calls]
    reply = None if turn.reply is None else cut(turn.reply, _TEXT)
    return Said(user=cut(turn.user, _TEXT), agent=reply, tool_calls=calls)


def explained(run: str) -> Explained:
    """The causes of a stored run's failures, those of most trials first."""
    with open_stored(None) as store:
        record = StoredRecord(store, store.run(run))
        causes = list(record.causes)
    found = [_cause(cause, record.run.id) for cause in causes[:_MOST_FAILURES]]
    return Explained(run=record.run.id, causes=found, causes_left_out=max(0, len(causes) - _MOST_FAILURES))


def _cause(cause: Cause, run: str) -> CauseAnswer:
    where = cause.divergence.where
    return CauseAnswer(
        symptom=cut(cause.symptom, _REASON),
        difference=cut(f"{where}: {cause.divergence.text}" if where else cause.divergence.text, _REASON),
        trials=cause.trials,
        scenarios=[key.label for key, _ in cause.scenarios[:_MOST_FAILURES]],
        advice=cut(cause.advice, _REASON),
        show=show_command(cause, run),
    )


def mutated(printed: Mapping[str, Any]) -> Mutated:
    """What `mutate --json` printed, shortened."""
    total = printed["total"]
    operators = [
        OperatorAnswer(operator=one["name"], caught=one["caught"], mutants=one["caught"] + one["survived"])
        for one in printed["operators"]
    ]
    first = {one["operator"]: one for one in reversed(printed["survivors"])}
    idle = [f"{one['scenario']}: {one['check']}".removeprefix(": ") for one in printed["checks"] if not one["caught"]]
    return Mutated(
        run=printed["run"],
        score=printed["score"],
        caught=total["caught"],
        mutants=total["caught"] + total["survived"],
        equivalent=total["equivalent"],
        not_judged=total["not_judged"],
        operators=[one for one in operators if one.mutants],
        not_noticed=[cut(_survivor(one), _REASON) for one in reversed(first.values())],
        checks_that_caught_nothing=idle[:_MOST_FAILURES],
        suggested_yaml=printed["suggested_yaml"],
        notes=[cut(note, _REASON) for note in printed["notes"]],
        show=f"seatrial mutate {printed['run']} --verbose",
    )


def _survivor(one: Mapping[str, Any]) -> str:
    return f"{one['operator']}: {one['what']} ({one['scenario']['name']}, {one['trial']})"


def compared(base: str, candidate: str) -> Compared:
    """Two stored runs, decided as `seatrial compare` decides."""
    with open_stored(None) as store:
        runs = StoredRuns(store, base, candidate)
        comparison = runs.compare(limits=RegressionLimits())
    decision = decide_gate(comparison, gate=Gate.AUTO, allow_missing=False)
    return Compared(
        verdict=decision.verdict,
        sentence=comparison.evidence.sentence if comparison.evidence is not None else "",
        reasons=[cut(reason, _REASON) for reason in decision.objections],
        changes=[_change(one) for one in comparison.scenarios if (one.word or one.change) not in ("same", "unchanged")],
        base=runs.base.id,
        candidate=runs.candidate.id,
        show=f"seatrial compare {runs.base.id} {runs.candidate.id}",
    )


def _change(one: ScenarioChange) -> Change:
    def counts(side: Any) -> str:
        return "none" if side is None else f"{side.passed}/{side.passed + side.failed + side.errored}"

    return Change(
        scenario=one.key.label, word=one.word or one.change, before=counts(one.base), after=counts(one.candidate)
    )
