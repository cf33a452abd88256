"""Judge stored conversations again with the current expectations. The result is a new run."""

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

from .agents import Agents, NoAgent
from .event_loop import run_until_complete
from .import_traces import find_other_words
from .new_run import find_commit, new_planned_run
from .report import Report
from .request import RunRequest
from .resume import request_again
from .run_plan import RunPlan
from .session import Jobs, RunSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Regraded:
    """The result of a regrade."""

    report: Report
    gone: tuple[ScenarioKey, ...]
    """Scenarios of the old run that are no longer in the files."""
    unfinished: str | None
    """Why the old run, and so the new one, did not finish, and what to do; None if it finished."""


def regrade(ref: str, asked: RunRequest) -> Regraded:
    """Evaluate the stored transcripts of a run again, as a new run whose parent it is.

    `asked` replaces stored settings: files, name, models. Raises UsageError if there is nothing to judge.
    """
    assert asked.store is not None
    with open_store(asked.store) as store:
        parent = store.run(ref)
    request = replace(request_again(parent, asked), name=asked.name or parent.name)
    plan = RunPlan(request, agents=Agents(request, replacement=NoAgent()))
    return run_until_complete(_Regrade(plan, parent).judge())


class _Regrade:
    """A regrade in progress."""

    def __init__(self, plan: RunPlan, parent: Run) -> None:
        self._plan = plan
        self._parent = parent
        self._commit = find_commit(Path.cwd())

    async def judge(self) -> Regraded:
        async with self._plan.open_session() as session:
            store = session.open_store()
            assert store is not None
            old = {entry.key: entry for entry in store.entries(self._parent.id)}
            known = (each for each in self._plan.scenarios() if each.entry.key in old)
            again = [self._like(each, old[each.entry.key], store) for each in known]
            found = {prepared.entry.key for prepared in again}
            gone = tuple(key for key in old if key not in found)
            if not again:
                raise UsageError(
                    f"run {self._parent.id}: none of its scenarios is in {self._paths()}, so nothing can be judged "
                    f"again. It has: {', '.join(key.label for key in gone[:10]) or 'none'}."
                )
            self._start(session, again)
            jobs = Jobs(
                schedule=FixedSchedule(self._jobs(store, again, session.redaction)),
                executor=JudgeExecutor(session.trial_settings()),
                concurrency=self._plan.config.concurrency,
            )
            # If the old run lacks trials, this one lacks them too.
            complete = self._parent.state is RunState.FINISHED
            report = await session.play_to_end(jobs, scenarios=lambda: again, complete=complete)
        return Regraded(report=report, gone=gone, unfinished=_why_unfinished(self._parent))

    def _start(self, session: RunSession, scenarios: list[PreparedScenario]) -> None:
        parent = self._parent
        run = new_planned_run(self._plan, self._commit, session.redaction, seed=parent.seed)
        session.start(
            replace(run, parent=parent.id, replayed=parent.replayed, problem=parent.problem),
            scenarios=len(scenarios),
            trials=sum(each.entry.trials for each in scenarios),
        )
        session.recorder.add([prepared.entry for prepared in scenarios])
        session.keep_contents(scenarios)

    def _like(self, prepared: PreparedScenario, old: ScenarioEntry, store: Store) -> PreparedScenario:
        """The current scenario with the number of trials of the old run: that number is not an expectation.

        A sequential test in the files is one: it decides itself whether the trials are enough. It is not used for
        recordings, which are not independent.
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

    def _paths(self) -> str:
        return ", ".join(str(suite.path) for suite in self._plan.suites)

    def _jobs(self, store: Store, scenarios: list[PreparedScenario], redaction: Redaction) -> Iterator[Job]:
        for prepared in scenarios:
            if prepared.entry.skip is None:
                for trial in store.trials(self._parent.id, prepared.entry.key):
                    problem = _problem(prepared, trial.transcript, redaction)
                    yield Job(prepared=prepared, index=trial.index, recorded=trial, problem=problem)


def _problem(prepared: PreparedScenario, transcript: Transcript, redaction: Redaction) -> ErrorInfo | None:
    """The error of a stored conversation whose user messages differ from the current files."""
    script = script_of(prepared.scenario)
    if transcript.error is not None or script is None:
        return None
    users = [turn.user for turn in transcript.turns]
    return find_other_words([*map(redaction.text, script)], users, place="in the stored conversation")


def _why_unfinished(parent: Run) -> str | None:
    if parent.state is RunState.FINISHED:
        return None
    if missing := missing_shards(parent):
        why, remedy = f"lacks shard {', '.join(map(str, missing))}", "seatrial import FILE"
    else:
        why = "was interrupted" if parent.state is RunState.INTERRUPTED else "has not finished"
        remedy = f"seatrial run --resume {parent.id}"
    return f"run {parent.id} {why}, so only a part was judged, which cannot pass. Finish it first: {remedy}"
