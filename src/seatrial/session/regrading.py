"""Judging stored conversations again, with expectations as they are now: a new run beside the old one."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.runner import Redaction, judge_transcript
from seatrial.store import Store, open_store
from seatrial.store.shards import missing_shards
from seatrial.traces import script_of
from seatrial.verdicts import decide_scenario
from seatrial.vocabulary.conversation import ErrorInfo, Transcript
from seatrial.vocabulary.roles import AgentSession, PreparedScenario, TrialStart
from seatrial.vocabulary.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial

from .casting import Agents
from .loops import cancel_on_sigterm, run_to_the_end
from .merging import merge_errors
from .planning import RunPlan
from .project import find_commit
from .recorded import other_words
from .recording import Recorder
from .records import Report
from .request import RunRequest
from .resuming import request_again
from .running import new_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Regraded:
    """What a regrade came to."""

    report: Report
    gone: tuple[ScenarioKey, ...]
    """Scenarios of the old run that are no longer in the files; their verdicts stand only there."""
    unfinished: str | None
    """Why the old run did not come to its end, and so the new one neither, and what to do; None when it did."""


class _Nobody:
    """Stands in for every agent: all has been said already."""

    name = "nobody"
    answers_own_tools = True
    keeps_conversation = True

    def open(self, start: TrialStart) -> AgentSession:
        raise AssertionError("a regrade plays nothing")

    async def close(self) -> None:
        """Nothing was opened."""


def regrade(ref: str, asked: RunRequest) -> Regraded:
    """Evaluate the stored transcripts of a run again, as a new run whose parent it is; it stays as it was.

    `asked` says what holds instead of what is stored: files, name, models. Raises UsageError where there is nothing
    to judge.
    """
    assert asked.store is not None
    with open_store(asked.store) as store:
        parent = store.run(ref)
    request = replace(request_again(parent, asked), name=asked.name or parent.name)
    plan = RunPlan(request, agents=Agents(request, stand_in=_Nobody()))
    return run_to_the_end(_Regrading(plan, parent).judge())


class _Regrading:
    """A regrade under way."""

    def __init__(self, plan: RunPlan, parent: Run) -> None:
        self._plan = plan
        self._parent = parent
        self._commit = find_commit(Path.cwd())
        self._redaction = Redaction(plan.secrets())

    async def judge(self) -> Regraded:
        let_go = cancel_on_sigterm()
        assert self._plan.request.store is not None
        try:
            return await self._judge(open_store(self._plan.request.store))
        finally:
            let_go()
            await self._plan.models.close()

    async def _judge(self, store: Store) -> Regraded:
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
        run = new_run(self._plan, self._commit, self._redaction, seed=self._parent.seed, parent=self._parent.id)
        run = replace(run, replayed=self._parent.replayed, problem=self._parent.problem)
        recorder = Recorder(run, store, self._plan.request.listeners)
        recorder.start(scenarios=len(again), trials=sum(each.entry.trials for each in again))
        state = RunState.INTERRUPTED
        try:
            recorder.add([prepared.entry for prepared in again])
            await self._judge_all(self._stored(store, again), recorder)
            await merge_errors(self._plan, recorder)
            # What the old run lacks, nobody has judged.
            state = RunState.FINISHED if self._parent.state is RunState.FINISHED else RunState.INTERRUPTED
        except asyncio.CancelledError:
            pass  # what was judged is kept, and the run says that it was interrupted
        finally:
            recorder.finish(state)
        return Regraded(report=recorder.report(), gone=gone, unfinished=_why_unfinished(self._parent))

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

    def _stored(self, store: Store, scenarios: list[PreparedScenario]) -> Iterator[tuple[PreparedScenario, Trial]]:
        for prepared in scenarios:
            if prepared.entry.skip is None:
                for trial in store.trials(self._parent.id, prepared.entry.key):
                    yield prepared, trial

    async def _judge_all(self, jobs: Iterator[tuple[PreparedScenario, Trial]], recorder: Recorder) -> None:
        async def work() -> None:
            for prepared, trial in jobs:
                judged = await self._judge_one(prepared, trial)
                if recorder.full:
                    await recorder.wait_for_room()
                recorder.save(judged)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._plan.config.concurrency):
                    group.create_task(work())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            await recorder.close()

    async def _judge_one(self, prepared: PreparedScenario, trial: Trial) -> Trial:
        error = self._problem(prepared, trial.transcript)
        if error is not None:
            # The transcript stays as it is, so that a later regrade can judge it.
            nothing = replace(trial, results=(), judgement=None, instruments=None)
            why = f"{error.kind}: {error.message}"
            return replace(nothing, status=Status.ERRORED, failure_reasons=(why,), error=error)
        judged = await judge_transcript(
            prepared, trial.transcript, index=trial.index, redact=self._redaction.transcript
        )
        # The conversation is the old one, and so is when it was held.
        return replace(judged, seed=trial.seed, started_at=trial.started_at, duration_ms=trial.duration_ms)

    def _problem(self, prepared: PreparedScenario, transcript: Transcript) -> ErrorInfo | None:
        """Why the conversation cannot be judged: the user of the files now says something else."""
        script = script_of(prepared.scenario)
        if transcript.error is not None or script is None:
            return None
        users = [turn.user for turn in transcript.turns]
        return other_words([*map(self._redaction.text, script)], users, place="in the stored conversation")


def _why_unfinished(parent: Run) -> str | None:
    if parent.state is RunState.FINISHED:
        return None
    if missing := missing_shards(parent):
        why, remedy = f"lacks shard {', '.join(map(str, missing))}", "seatrial import FILE"
    else:
        why = "was interrupted" if parent.state is RunState.INTERRUPTED else "has not come to its end"
        remedy = f"seatrial run --resume {parent.id}"
    return f"run {parent.id} {why}, so only a part was judged, and that is no pass. Finish it first: {remedy}"
