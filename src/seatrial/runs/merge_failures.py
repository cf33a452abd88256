"""Behaviour failures of a run's trials, merged into unique errors and stored, so that verdicts need no model."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable

from seatrial.model.protocols import PreparedScenario
from seatrial.model.results import BehaviourFailure
from seatrial.model.run import MergedErrors, ScenarioKey
from seatrial.scenarios.models import ModelCast

from .recorder import Recorder
from .report import MemoryRecord, StoredRecord


async def merge_failures(
    scenarios: Callable[[], Iterable[PreparedScenario]], recorder: Recorder, models: ModelCast
) -> list[MergedErrors]:
    """Ask the dedup model about every scenario in whose trials failures differ. All trials must be stored."""
    if not recorder.looks_for_failures:
        return []
    record = recorder.record()
    open_questions = _differing(record)
    asked = [each for each in scenarios() if each.entry.key in open_questions] if open_questions else []
    merged = await asyncio.gather(*(_merge(each, record, models) for each in asked))
    if merged:
        recorder.keep_merged(merged)
    return merged


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
