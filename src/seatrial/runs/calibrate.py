"""Compare a judge with human labels, from a file or from the store, and measure how far they agree."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.judges.labels import Calibration, LabelRow, calibrate, read_label_rows
from seatrial.model.protocols import TrialContext
from seatrial.model.results import Judgement, ModelUse, sum_model_use
from seatrial.model.run import HumanRate, Run, ScenarioKey, Status, Trial
from seatrial.model.scenario import MetricChoice
from seatrial.statistics.agreement import (
    JudgedTrials,
    allocate_labels,
    calibrate_rate,
    confusion_table,
    decide_calibrated,
    draw_labels,
)
from seatrial.store.runs import Label
from seatrial.store.store import Store, open_store

from .event_loop import run_until_complete

if TYPE_CHECKING:
    from seatrial.llm.client import LLM
    from seatrial.llm.model import ModelSpec

WHOLE_TRIAL = "passed"
"""The metric of stored labels for a whole trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRequest:
    """What to compare. Without a rubric and a model, the stored verdicts or scores of a run are compared."""

    labels: Path | None = None
    """None: use the labels stored with the run."""
    run: str | None = None
    rubric: str | None = None
    metric: str | None = None
    model: Any = None
    """The model that judges now; None: use the stored verdicts or scores."""
    votes: int = 1
    at_least: float = 3.0
    """The lowest score that counts as a pass, for a metric that is not binary."""
    store: str = ".seatrial/runs.db"
    cache: str | None = ".seatrial/cache"
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRow:
    """One trial with the human's label and the judge's answer."""

    place: str
    human: bool | None
    judge: bool | None
    """None: the judge has no answer."""
    reason: str = ""
    split: bool = False
    """Whether the judge's votes differ."""
    use: ModelUse | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationReport:
    calibration: Calibration
    rows: tuple[JudgedRow, ...]
    use: ModelUse

    @property
    def unanswered(self) -> list[JudgedRow]:
        return [row for row in self.rows if row.judge is None]

    @property
    def disagreeing(self) -> list[JudgedRow]:
        """Rows where the judge contradicts the human; failures that the judge missed come first."""
        found = [row for row in self.rows if row.human is not None and row.judge not in (None, row.human)]
        return sorted(found, key=lambda row: row.judge is not True)

    @property
    def split_votes(self) -> list[JudgedRow]:
        return [row for row in self.rows if row.split]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A row and its stored trial, if there is one."""

    row: LabelRow
    trial: Trial | None = None


def calibrate_judge(request: CalibrationRequest) -> CalibrationReport:
    """How far the judge agrees with the labels. Raises UsageError if there is nothing to compare."""
    if request.rubric is not None and request.metric is not None:
        raise UsageError("calibrate: --rubric and --metric cannot be used together. Give one of them")
    if request.rubric is not None and request.model is None:
        raise UsageError("calibrate: a rubric needs a judge. Give --judge-model openai:gpt-5-mini")
    cases = list(_cases(request))
    rows = run_until_complete(_judge_all(request, cases))
    pairs = [(row.human, row.judge) for row in rows if row.human is not None and row.judge is not None]
    if not pairs:
        why = next((f" The first: {row.reason}" for row in rows if row.judge is None), "")
        raise UsageError(f"calibrate: no trial has both a label and an answer of the judge.{why}")
    return CalibrationReport(
        calibration=calibrate(pairs, judged=count_judged(_places(cases, rows))),
        rows=tuple(rows),
        use=sum_model_use(row.use for row in rows),
    )


def _places(cases: list[_Case], rows: list[JudgedRow]) -> Iterator[tuple[object, bool, bool | None]]:
    """(trial, judge, human) of each row that the judge answered."""
    for number, (case, row) in enumerate(zip(cases, rows, strict=True)):
        if row.judge is not None:
            place = number if case.trial is None else (case.trial.key, case.trial.index)
            yield place, row.judge, row.human


def count_judged(rows: Iterable[tuple[object, bool, bool | None]]) -> JudgedTrials:
    """The trials by verdict and label. A trial with several labels counts once: as passed if most of them say so."""
    judged: dict[object, bool] = {}
    labels: dict[object, list[bool]] = {}
    for place, judge, human in rows:
        judged.setdefault(place, judge)
        if human is not None:
            labels.setdefault(place, []).append(human)
    pairs = [(2 * sum(said) > len(said), judged[place]) for place, said in labels.items()]
    return JudgedTrials(
        passed=sum(judged.values()),
        failed=len(judged) - sum(judged.values()),
        labels=confusion_table([human for human, _ in pairs], [judge for _, judge in pairs]),
    )


def judged_trials(store: Store, run_id: str) -> JudgedTrials:
    """The trials of a run by verdict, and their stored labels of the whole trial."""
    said: dict[tuple[ScenarioKey, int], list[bool]] = {}
    for label in store.labels(run_id, metric=WHOLE_TRIAL):
        said.setdefault((label.key, label.index), []).append(label.value >= 0.5)
    return count_judged(
        ((one.key, one.index), one.status is Status.PASSED, human)
        for one in store.summaries(run_id)
        if one.status in (Status.PASSED, Status.FAILED)
        for human in said.get((one.key, one.index), [None])
    )


def decide_gate(store: Store, run: Run) -> HumanRate | None:
    """Decide the gate `judge_corrected` by the stored labels, and keep the result; None without such a gate."""
    gate = run.gates.judge_corrected
    if gate is None:
        return None
    trials = judged_trials(store, run.id)
    rate = calibrate_rate(trials)
    found = HumanRate(
        labels=trials.labels.total,
        estimate=rate.estimate,
        interval=rate.interval,
        decision=decide_calibrated(rate, pass_rate=gate.pass_rate, confidence=gate.confidence),
    )
    store.keep_human_rate(run.id, found)
    return found


def choose_next(store: Store, run: Run, count: int) -> list[tuple[ScenarioKey, int]]:
    """The next trials to label: chosen at random within each verdict, more where a label says more.

    The run's seed decides, so that the choice does not depend on what people looked at.
    """
    trials = judged_trials(store, run.id)
    labelled = {(label.key, label.index) for label in store.labels(run.id, metric=WHOLE_TRIAL)}
    chosen: list[tuple[ScenarioKey, int]] = []
    for wanted, status in zip(allocate_labels(trials, count), (Status.PASSED, Status.FAILED), strict=True):
        free = {
            repr((one.key, one.index)): (one.key, one.index)
            for one in store.summaries(run.id)
            if one.status is status and (one.key, one.index) not in labelled
        }
        chosen += [free[each] for each in draw_labels(list(free), wanted, seed=run.seed)]
    # In the order of the run, so that the list does not tell the verdicts.
    order = {entry.key: entry.position for entry in store.entries(run.id)}
    return sorted(chosen, key=lambda place: (order[place[0]], place[1]))


def store_labels(store: Store, run: Run, file: Path, *, who: str) -> int:
    """Store the labels of a file with the run. Returns how many. Raises UsageError for a row that fits no trial."""
    rows = [row for row in read_label_rows(file) if row.human is not None]
    if not rows:
        raise UsageError(f"{file}: no row has a label. Write pass or fail into the column `label`")
    found = []
    for case in _with_trials(store, run.id, rows, everything=False):
        value = case.row.human
        if case.trial is None or value is None or value not in (0.0, 1.0):
            raise UsageError(f"{case.row.place}: expected pass or fail for the whole trial")
        place = case.trial
        found.append(
            Label(run_id=run.id, key=place.key, index=place.index, metric=WHOLE_TRIAL, value=value, who=who, at=now())
        )
    for label in found:
        store.label(label)
    return len(found)


def _cases(request: CalibrationRequest) -> Iterator[_Case]:
    rows = None if request.labels is None else read_label_rows(request.labels)
    if request.run is None:
        if rows is None:
            raise UsageError("calibrate: give a file of labels, or --run RUN for the labels stored with a run")
        yield from (_Case(row=row) for row in rows)
        return
    with open_store(request.store) as store:
        run = store.run(request.run)
        if rows is None:
            rows = _stored_rows(store, run.id, request.metric or WHOLE_TRIAL)
        yield from _with_trials(store, run.id, rows, everything=request.model is None)


def _stored_rows(store: Store, run_id: str, metric: str) -> list[LabelRow]:
    found = store.labels(run_id, metric=metric)
    if not found:
        raise UsageError(f"run {run_id}: has no labels for {metric!r}. Give a file of labels instead.")
    return [
        LabelRow(
            place=f"{label.key.label} trial-{label.index + 1} ({label.who})",
            human=label.value,
            said_in_words=metric == WHOLE_TRIAL,
            scenario=label.key.label,
            trial=label.index,
        )
        for label in found
    ]


def _with_trials(store: Store, run_id: str, rows: list[LabelRow], *, everything: bool) -> Iterator[_Case]:
    """The rows with their trials and, with `everything`, all other trials of the run."""
    keys: dict[str, list[ScenarioKey]] = {}
    for entry in store.entries(run_id):
        for name in {entry.key.label, entry.key.name}:
            keys.setdefault(name, []).append(entry.key)
    labelled = set()
    for row in rows:
        if row.scenario is None or row.trial is None:
            raise UsageError(f"{row.place}: with --run, a row needs scenario and trial")
        known = keys.get(row.scenario, [])
        if len(known) != 1:
            what = "has no scenario" if not known else "has several scenarios called"
            raise UsageError(f"{row.place}: run {run_id} {what} {row.scenario!r}. See: seatrial show {run_id}")
        labelled.add((known[0], row.trial))
        yield _Case(row=row, trial=store.trial(run_id, known[0], row.trial))
    for key in dict.fromkeys(key for several in keys.values() for key in several) if everything else ():
        for trial in store.trials(run_id, key):
            if (key, trial.index) not in labelled:
                yield _Case(row=LabelRow(place=f"{key.label} {trial.id}", human=None), trial=trial)


async def _judge_all(request: CalibrationRequest, cases: list[_Case]) -> list[JudgedRow]:
    if request.model is None:
        return [_looked_up(case, request) for case in cases]
    from seatrial.llm.client import LLM
    from seatrial.llm.model import parse_model
    from seatrial.llm.providers import check_model

    model = parse_model(request.model, environ=request.environ)
    check_model(model, environ=request.environ)
    if request.metric is None and request.rubric is None:
        raise UsageError("calibrate: the judge has no question. Give --rubric TEXT or --metric NAME")
    ask = _by_metric if request.metric is not None else _by_rubric
    seen = [(case.row, _context(case)) for case in cases]
    async with LLM(cache=Path(request.cache) if request.cache else None) as llm:
        return list(await asyncio.gather(*(ask(row, ctx, request, llm, model) for row, ctx in seen)))


def _looked_up(case: _Case, request: CalibrationRequest) -> JudgedRow:
    """The row with an earlier judgement: from the file's column `judge`, or from the stored trial."""
    row, trial = case.row, case.trial
    if row.judge is not None:
        judged, reason = row.judge >= _pass_mark(request, in_words=row.judged_in_words), ""
        return JudgedRow(place=row.place, human=_human(row, request), judge=judged, reason=reason)
    if trial is None:
        raise UsageError(
            f"{row.place}: has no judgement. Give --judge-model and a --rubric or --metric, a column `judge`, or --run."
        )
    if request.metric is not None:
        said, reason = _scored(trial.judgement, request)
    else:
        said = None if trial.status not in (Status.PASSED, Status.FAILED) else trial.status is Status.PASSED
        reason = "; ".join(trial.failure_reasons)
    return JudgedRow(place=row.place, human=_human(row, request), judge=said, reason=reason)


async def _by_rubric(
    row: LabelRow, ctx: TrialContext, request: CalibrationRequest, llm: "LLM", model: "ModelSpec"
) -> JudgedRow:
    from seatrial.judges.rubric import Judge

    judge = Judge(rubric=request.rubric or "", votes=request.votes).bound(llm, model)
    said = await judge.evaluate(ctx)
    votes = {check.passed for check in said.checks if not check.detail.startswith("no answer: ")}
    return JudgedRow(
        place=row.place,
        human=_human(row, request),
        judge=None if said.error is not None else said.passed,
        reason=said.reasoning,
        split=len(votes) > 1,
        use=said.use,
    )


async def _by_metric(
    row: LabelRow, ctx: TrialContext, request: CalibrationRequest, llm: "LLM", model: "ModelSpec"
) -> JudgedRow:
    from seatrial.judges.metrics import load_metrics, resolve_metrics
    from seatrial.judges.transcript_judge import TranscriptJudge

    known = load_metrics().get(request.metric or "")
    weight = 1.0 if known is not None and known.weight is not None else None
    metrics = resolve_metrics([MetricChoice(name=request.metric or "", weight=weight)])
    judge = TranscriptJudge(llm=llm, model=model, metrics=metrics, votes=request.votes)
    judgement, use = await judge.judge(ctx)
    said, reason = _scored(judgement, request)
    return JudgedRow(
        place=row.place,
        human=_human(row, request),
        judge=said,
        reason=reason,
        split=bool((judgement.details or {}).get("disagreements")),
        use=use,
    )


def _context(case: _Case) -> TrialContext:
    transcript = case.trial.transcript if case.trial is not None else case.row.transcript
    if transcript is None:
        raise UsageError(f"{case.row.place}: has no conversation to judge. Give input and output, messages, or --run.")
    return TrialContext(transcript=transcript)


def _scored(judgement: Judgement | None, request: CalibrationRequest) -> tuple[bool | None, str]:
    """Whether the metric's mean score is a pass, and why. None if there is no score."""
    scores = [score for score in judgement.scores if score.metric == request.metric] if judgement is not None else []
    if judgement is not None and judgement.error is not None:
        return None, judgement.error.message
    if not scores:
        return None, f"the trial has no score for {request.metric!r}"
    binary = all(score.label in ("pass", "fail") for score in scores)
    mean = sum(score.value for score in scores) / len(scores)
    passed = all(score.label == "pass" for score in scores) if binary else mean >= request.at_least
    return passed, f"{request.metric} {mean:g}: {scores[0].reason}"


def _human(row: LabelRow, request: CalibrationRequest) -> bool | None:
    return None if row.human is None else row.human >= _pass_mark(request, in_words=row.said_in_words)


def _pass_mark(request: CalibrationRequest, *, in_words: bool) -> float:
    """The lowest label that is a pass. Words are stored as 1 and 0, scores on the metric's scale."""
    if in_words or request.metric is None:
        return 0.5
    from seatrial.judges.metrics import load_metrics

    known = load_metrics().get(request.metric)
    return 0.5 if known is not None and known.scale == "binary" else request.at_least
