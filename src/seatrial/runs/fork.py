"""Continue a stored conversation from a turn or a call, several times. The result is a new run."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from seatrial.engine.fork import cut_conversation, refuse_fork
from seatrial.errors import UsageError
from seatrial.model.protocols import ForkPoint, PreparedScenario
from seatrial.model.run import Run, ScenarioEntry, ScenarioKey, Trial
from seatrial.model.scenario import decides
from seatrial.store.store import open_store

from .execute_run import execute
from .report import Report
from .request import RunRequest
from .resume import request_again
from .run_plan import RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkAt:
    """The point of a stored conversation: before the answer of a turn, or before a call of the trial; both from 0."""

    turn: int | None = None
    call: int | None = None

    @property
    def text(self) -> str:
        return f"turn {(self.turn or 0) + 1}" if self.call is None else f"call {self.call + 1}"


def fork(ref: str, key: ScenarioKey, trial: int, at: ForkAt, *, trials: int, asked: RunRequest) -> Report:
    """Continue a stored trial as a new run. `asked` replaces stored settings: agent, files. Raises UsageError."""
    assert asked.store is not None
    with open_store(asked.store) as store:
        parent = store.run(ref)
        refuse_recordings(parent)
        stored = store.trial(parent.id, key, trial)
    point = cut_conversation(stored, turn=at.turn, call=at.call)
    return continue_trial(parent, stored, point, at=at.text, trials=trials, asked=asked)


def refuse_recordings(run: Run) -> None:
    """Raises UsageError if no agent can continue the conversations of the run."""
    if run.replayed:
        raise UsageError(f"run {run.id}: has recordings, which no agent can continue")
    if run.sweep:
        raise UsageError(f"run {run.id}: is a sweep, in which tools answer differently. Fork a trial of another run")


def continue_trial(
    parent: Run,
    stored: Trial,
    point: ForkPoint,
    *,
    at: str,
    trials: int,
    asked: RunRequest,
    fingerprint: str | None = None,
) -> Report:
    """Continue the trial from the point, as a new run. Raises UsageError if its agent cannot.

    `fingerprint`: refuse a scenario that was edited since, so that its trial fingerprint is another one.
    """
    key = stored.key
    about = {"run": parent.id, "scenario": key.label, "trial": stored.index + 1, "at": at}
    request = replace(
        request_again(parent, asked),
        name=asked.name or f"fork {parent.name}",
        only=frozenset([(key.suite, key.name)]),
        scenario_text=(),
        tags=(),
        shard=None,
        confirms=parent.id,
        fork=about,
    )
    plan = RunPlan(request)
    found = [each for each in plan.scenarios() if asked.agent is not None or each.entry.key.agent == key.agent]
    if not found:
        raise UsageError(f"run {parent.id}: its scenario {key.label!r} is no longer in the files")
    if fingerprint is not None and found[0].entry.trial_fingerprint != fingerprint:
        raise UsageError(f"scenario {key.label!r}: was edited since run {parent.id}")
    plan.use_scenarios([_continue(found[0], stored, point, at=at, trials=trials)])
    return execute(plan)


def _continue(prepared: PreparedScenario, stored: Trial, point: ForkPoint, *, at: str, trials: int) -> PreparedScenario:
    """The scenario, whose trials continue the stored one. Raises UsageError if its agent cannot."""
    reason = refuse_fork(prepared.agent, decides=decides(prepared.scenario))
    if reason is not None:
        raise UsageError(f"scenario {prepared.entry.key.label!r}: cannot be forked: {reason}")
    return replace(prepared, entry=_forked_entry(prepared.entry, stored, at, trials), fork=point)


def _forked_entry(entry: ScenarioEntry, stored: Trial, at: str, trials: int) -> ScenarioEntry:
    """Its trials are not comparable with whole conversations, so its fingerprints differ."""

    def changed(fingerprint: str) -> str:
        text: Any = (fingerprint, stored.key.label, stored.index, stored.started_at.isoformat(), at)
        return sha256(repr(text).encode()).hexdigest()[: len(fingerprint) or None]

    return replace(
        entry,
        fingerprint=changed(entry.fingerprint),
        trial_fingerprint=changed(entry.trial_fingerprint),
        trials=trials,
        sequential=None,
        history=None,
        skip=None,
    )
