"""Continue a stored conversation from a turn or a call, several times. The result is a new run."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from seatrial.engine.fork import cut_conversation, refuse_fork
from seatrial.errors import UsageError
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import ScenarioEntry, ScenarioKey, Trial
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
        if parent.replayed:
            raise UsageError(f"run {parent.id}: has recordings, which no agent can continue")
        stored = store.trial(parent.id, key, trial)
    about = {"run": parent.id, "scenario": key.label, "trial": trial + 1, "at": at.text}
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
    plan.use_scenarios([continue_from(found[0], stored, at, trials=trials)])
    return execute(plan)


def continue_from(prepared: PreparedScenario, stored: Trial, at: ForkAt, *, trials: int) -> PreparedScenario:
    """The scenario, whose trials continue the stored one. Raises UsageError if its agent cannot."""
    point = cut_conversation(stored, turn=at.turn, call=at.call)
    reason = refuse_fork(prepared.agent, decides=decides(prepared.scenario))
    if reason is not None:
        raise UsageError(f"scenario {prepared.entry.key.label!r}: cannot be forked: {reason}")
    return replace(prepared, entry=_forked_entry(prepared.entry, stored, at, trials), fork=point)


def _forked_entry(entry: ScenarioEntry, stored: Trial, at: ForkAt, trials: int) -> ScenarioEntry:
    """Its trials are not comparable with whole conversations, so its fingerprints differ."""

    def changed(fingerprint: str) -> str:
        text: Any = (fingerprint, stored.key.label, stored.index, stored.started_at.isoformat(), at.text)
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
