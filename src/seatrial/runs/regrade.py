"""Judging stored conversations again, with expectations as they are now: a new run beside the old one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from seatrial.engine.executors import JudgeExecutor
from seatrial.engine.redact import Redaction
from seatrial.engine.schedule import FixedSchedule, Job
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo, Transcript
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey
from seatrial.store.runs import missing_shards
from seatrial.store.store import Store, open_store
from seatrial.traces.transcript_builder import script_of
from seatrial.verdicts.scenario import decide_scenario

from .event_loop import cancel_on_sigterm, run_to_the_end
from .execute_run import new_run, open_session
from .import_traces import other_words
from .report import Report
from .request import RunRequest
from .resume import request_again
from .run_config import find_commit
from .run_plan import Agents, NoAgent, RunPlan
from .session import Jobs, RunSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Regraded:
    """What a regrade came to."""

    report: Report
    gone: tuple[ScenarioKey, ...]
    """Scenarios of the old run that are no longer in the files; their verdicts stand only there."""
    unfinished: str | None
    """Why the old run did not come to its end, and so the new one neither, and what to do; None when it did."""


def regrade(ref: str, asked: RunRequest) -> Regraded:
    """Evaluate the stored transcripts of a run again, as a new run whose parent it is; it stays as it was.

    `asked` says what holds instead of what is stored: files, name, models. Raises UsageError where there is nothing
    to judge.
    """
    assert asked.store is not None
    with open_store(asked.store) as store:
        parent = store.run(ref)
    request = replace(request_again(parent, asked), name=asked.name or parent.name)
    plan = RunPlan(request, agents=Agents(request, stand_in=NoAgent()))
    return run_to_the_end(_Regrading(plan, parent).judge())


class _Regrading:
    """A regrade under way."""

    def __init__(self, plan: RunPlan, parent: Run) -> None:
        self._plan = plan
        self._parent = parent
        self._commit = find_commit(Path.cwd())

    async def judge(self) -> Regraded:
        let_go = cancel_on_sigterm()
        try:
            async with open_session(self._plan) as session:
                return await self._judge(session)
        finally:
            let_go()

    async def _judge(self, session: RunSession) -> Regraded:
        store = session.open_store()
        assert store is not None
        old = {entry.key: entry for entry in store.entries(self._parent.id)}
        there = (each for each in self._plan.scenarios() if each.entry.key in old)
        again = [self._like(each, old[each.entry.key], store) for each in there]
        found = {prepared.entry.key for prepared in again}
        gone = tuple(key for key in old if key not in found)
        if not again:
            raise UsageError(
                f"run {self._parent.id}: none of its scenarios is in {self._where()}, so nothing can be judged again. "
                f"It has: {', '.join(key.label for key in gone[:10]) or 'none'}."
            )
        run = new_run(self._plan, self._commit, session.redaction, seed=self._parent.seed, parent=self._parent.id)
        session.start(
            replace(run, replayed=self._parent.replayed, problem=self._parent.problem),
            scenarios=len(again),
            trials=sum(each.entry.trials for each in again),
        )
        session.add([prepared.entry for prepared in again])
        jobs = Jobs(
            schedule=FixedSchedule(self._jobs(store, again, session.redaction)),
            executor=JudgeExecutor(session.settings()),
            concurrency=self._plan.config.concurrency,
        )
        # What the old run lacks, this one lacks too.
        complete = self._parent.state is RunState.FINISHED
        report = await session.play_to_end(jobs, scenarios=lambda: again, complete=complete)
        return Regraded(report=report, gone=gone, unfinished=_why_unfinished(self._parent))

    def _like(self, prepared: PreparedScenario, old: ScenarioEntry, store: Store) -> PreparedScenario:
        """The scenario as it is now, with as many trials as there were to be: how often to play is no expectation.

        Not so where the files have a sequential test: by which rule trials decide is one, and such a test says itself
        whether there are enough of them. Recordings are never put to one, since they are not independent.
        """
        entry = replace(prepared.entry, position=old.position)
        if entry.sequential is None or self._parent.replayed:
            entry = replace(entry, trials=self._count_trials(old, store), sequential=None)
        return replace(prepared, entry=entry)

    def _count_trials(self, old: ScenarioEntry, store: Store) -> int:
        if old.sequential is None:
            return old.trials
        found = decide_scenario(old, store.summaries(self._parent.id, old.key))
        return found.played + found.not_run or old.trials

    def _where(self) -> str:
        return ", ".join(str(suite.path) for suite in self._plan.suites)

    def _jobs(self, store: Store, scenarios: list[PreparedScenario], redaction: Redaction) -> Iterator[Job]:
        for prepared in scenarios:
            if prepared.entry.skip is None:
                for trial in store.trials(self._parent.id, prepared.entry.key):
                    problem = _problem(prepared, trial.transcript, redaction)
                    yield Job(prepared=prepared, index=trial.index, recorded=trial, problem=problem)


def _problem(prepared: PreparedScenario, transcript: Transcript, redaction: Redaction) -> ErrorInfo | None:
    """Why the conversation cannot be judged: the user of the files now says something else."""
    script = script_of(prepared.scenario)
    if transcript.error is not None or script is None:
        return None
    users = [turn.user for turn in transcript.turns]
    return other_words([*map(redaction.text, script)], users, place="in the stored conversation")


def _why_unfinished(parent: Run) -> str | None:
    if parent.state is RunState.FINISHED:
        return None
    if missing := missing_shards(parent):
        why, remedy = f"lacks shard {', '.join(map(str, missing))}", "seatrial import FILE"
    else:
        why = "was interrupted" if parent.state is RunState.INTERRUPTED else "has not come to its end"
        remedy = f"seatrial run --resume {parent.id}"
    return f"run {parent.id} {why}, so only a part was judged, and that is no pass. Finish it first: {remedy}"
