"""Behaviour failures of a run's trials, merged into unique errors and stored, so that verdicts need no model."""

import asyncio
from collections import defaultdict

from seatrial.scenarios import ModelCast
from seatrial.vocabulary.findings import BehaviourFailure
from seatrial.vocabulary.roles import PreparedScenario
from seatrial.vocabulary.run import MergedErrors, ScenarioKey

from .planning import RunPlan
from .recording import Recorder
from .records import MemoryRecord, StoredRecord


async def merge_errors(plan: RunPlan, recorder: Recorder) -> None:
    """Ask the dedup model about every scenario in whose trials failures differ. To be called when all are stored."""
    if not recorder.looks_for_failures:
        return
    record = recorder.record()
    open_questions = _differing(record)
    asked = [each for each in plan.scenarios() if each.entry.key in open_questions] if open_questions else []
    if asked:
        recorder.keep_merged(await asyncio.gather(*(_merge(each, record, plan.models) for each in asked)))


def _differing(record: StoredRecord | MemoryRecord) -> set[ScenarioKey]:
    """The scenarios that have more than one failure by severity and label; the rest need no model."""
    seen: dict[ScenarioKey, set[tuple[str, str]]] = defaultdict(set)
    for summary in record.summaries():
        for severity, label, _, _ in summary.failures:
            seen[summary.key].add((severity, label))
    return {key for key, found in seen.items() if len(found) > 1}


async def _merge(prepared: PreparedScenario, record: StoredRecord | MemoryRecord, models: ModelCast) -> MergedErrors:
    key = prepared.entry.key
    failures: list[tuple[int, tuple[BehaviourFailure, ...]]] = [
        (trial.index, trial.judgement.failures) for trial in record.trials(key) if trial.judgement is not None
    ]
    merged = await models.merge_failures(failures, prepared.scenario)
    return MergedErrors(key=key, errors=merged.errors, use=merged.use, note=merged.note)
