"""Conversations that were recorded elsewhere, as a run like any other: stored, and judged where a suite says how."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any

from msgspec.structs import replace

from seatrial.clock import now
from seatrial.engine.executors import JudgeExecutor
from seatrial.engine.redact import Redaction
from seatrial.engine.schedule import FixedSchedule, Job
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind, StopReason, Transcript
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import Gates, Run, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.model.scenario import Scenario
from seatrial.model.struct import Struct
from seatrial.scenarios.models import RunModels
from seatrial.traces.transcript_builder import RecordedConversation, TraceFile, first_difference, script_of, words_of

from .event_loop import cancel_on_sigterm, run_to_the_end
from .execute_run import new_run, open_session
from .report import Report
from .request import RunRequest
from .run_config import find_commit, versions
from .run_plan import Agents, NoAgent, RunPlan
from .secrets import find_secrets
from .session import Jobs, RunSession

_MUST_PASS = Gates(must_pass=True)
"""What has no counterpart fails the run, whatever share of its trials the run needs."""
_NOTHING_ASSERTED = ErrorInfo(
    kind=ErrorKind.CONFIG,
    message="nothing is asserted of this recording",
    hint="judge it by a suite: seatrial import-trace FILE --suite PATH",
)
"""As for a scenario that checks nothing: errored, which is nobody's answer yet."""

_NOBODY = "openai:nobody@http://127.0.0.1:9/v1"
"""The model of simulated users where none is named: all has been said already, and nobody will ask it."""


class ImportedTraces(Struct, frozen=True, kw_only=True):
    """What an import of recordings came to."""

    report: Report
    unmatched: tuple[str, ...] = ()
    """Conversations that no scenario of the suite asks for."""
    without_recording: tuple[ScenarioKey, ...] = ()
    """Scenarios of the suite that nobody recorded."""


def import_traces(files: Sequence[TraceFile], asked: RunRequest) -> ImportedTraces:
    """Store the recordings as a new run. `asked.sources` are the suites to judge them by; there may be none."""
    assert asked.store is not None
    if not files:
        raise UsageError("import-trace: no file is given")
    plan = None
    if asked.sources:
        formats = {file.format for file in files}
        spec: dict[str, Any] = {"type": "replay", "path": [file.path for file in files]}
        request = replace(
            asked,
            agent={**spec, "format": formats.pop()} if len(formats) == 1 else spec,
            models={"user": _NOBODY, **asked.models},
        )
        plan = RunPlan(request, agents=Agents(request))
    return run_to_the_end(_Importing(files, asked, plan).judge())


class _Importing:
    """An import under way."""

    def __init__(self, files: Sequence[TraceFile], asked: RunRequest, plan: RunPlan | None) -> None:
        self._files = files
        self._asked = asked
        self._plan = plan
        self._commit = find_commit(Path.cwd())
        self._without: list[ScenarioKey] = []
        self._unmatched: list[str] = []

    async def judge(self) -> ImportedTraces:
        let_go = cancel_on_sigterm()
        try:
            async with self._session() as session:
                return await self._judge(session)
        finally:
            let_go()

    def _session(self) -> RunSession:
        if self._plan is not None:
            return open_session(self._plan)
        asked = self._asked
        return RunSession(
            asked,
            agents=Agents(asked),
            models=RunModels(),
            secrets=lambda: find_secrets(
                asked.environ, (asked.models, {"store": asked.store}), exempt=asked.not_redacted
            ),
        )

    async def _judge(self, session: RunSession) -> ImportedTraces:
        entries, recorded = self._match(session.redaction)
        session.start(self._new_run(session.redaction), scenarios=len(entries), trials=len(recorded))
        session.add(entries)
        plan = self._plan
        jobs = Jobs(
            schedule=FixedSchedule(recorded),
            executor=JudgeExecutor(session.settings()),
            concurrency=1 if plan is None else plan.config.concurrency,
        )
        report = await session.play_to_end(jobs, scenarios=tuple if plan is None else plan.scenarios)
        return ImportedTraces(report=report, unmatched=tuple(self._unmatched), without_recording=tuple(self._without))

    def _new_run(self, redaction: Redaction) -> Run:
        if self._plan is not None:
            return replace(new_run(self._plan, self._commit, redaction, seed=0), replayed=True)
        found, started = self._commit.wait(), now()
        config = {"traces": [file.path for file in self._files], "command": self._asked.command}
        return Run(
            id=self._asked.id or f"{started:%Y%m%d-%H%M%S}-{token_hex(3)}",
            name=self._asked.name or ", ".join(dict.fromkeys(Path(file.path).stem for file in self._files)),
            started_at=started,
            config=redaction.value(config),
            git_commit=found.sha,
            git_dirty=found.dirty,
            versions=versions(),
            replayed=True,
        )

    def _match(self, redaction: Redaction) -> tuple[list[ScenarioEntry], list[Job]]:
        """Scenarios with their recordings, then recordings without a scenario."""
        recorded = [(file, one) for file in self._files for one in file.recordings]
        prepared = [] if self._plan is None else list(self._plan.scenarios())
        entries, jobs = [], []
        used: set[int] = set()
        for each, found in _pair(prepared, [one for _, one in recorded]):
            used |= {id(one) for one in found}
            self._without += [] if found or each.entry.skip is not None else [each.entry.key]
            # How often to play is no expectation: as many trials are judged as were recorded.
            gates = each.entry.gates if found else replace(each.entry.gates, must_pass=True)
            entry = replace(each.entry, trials=len(found) or 1, sequential=None, gates=gates)
            entries.append(entry)
            if entry.skip is None:
                each = replace(each, entry=entry)
                jobs += [_judged_job(each, one, i, redaction) for i, one in enumerate(found)]
        left = [(file, one) for file, one in recorded if id(one) not in used]
        self._unmatched = [one.name for _, one in left] if prepared else []
        for entry, found in _as_scenarios(left, first=1 + max((entry.position for entry in entries), default=-1)):
            entries.append(entry)
            jobs += [_unjudged_job(entry, one, i, redaction) for i, one in enumerate(found)]
        return entries, jobs


def _pair(
    scenarios: Sequence[PreparedScenario], recordings: Sequence[RecordedConversation]
) -> Iterator[tuple[PreparedScenario, list[RecordedConversation]]]:
    """Each scenario with the recordings of its name, or else with those in which the user says what it says."""
    names = {each.entry.key.name for each in scenarios}
    named: dict[str, list[RecordedConversation]] = {}
    worded: dict[tuple[str, ...], list[RecordedConversation]] = {}
    for one in recordings:
        if one.name in names:
            named.setdefault(one.name, []).append(one)
        else:
            worded.setdefault(words_of(one.users), []).append(one)
    for each in scenarios:
        script = script_of(each.scenario)
        found = named.get(each.entry.key.name) or ([] if script is None else worded.get(words_of(script), []))
        yield each, found


def _as_scenarios(
    left: Sequence[tuple[TraceFile, RecordedConversation]], *, first: int
) -> Iterator[tuple[ScenarioEntry, list[RecordedConversation]]]:
    """Recordings without a scenario, each as one that asserts nothing; those of one name are its trials."""
    groups: dict[ScenarioKey, list[tuple[TraceFile, RecordedConversation]]] = {}
    for file, one in left:
        groups.setdefault(ScenarioKey(Path(file.path).stem, one.name), []).append((file, one))
    for position, (key, found) in enumerate(groups.items(), start=first):
        words = "\0".join(user for _, one in found for user in one.users)
        fingerprint = blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        yield (
            ScenarioEntry(
                key=key,
                position=position,
                fingerprint=fingerprint,
                trials=len(found),
                gates=_MUST_PASS,
                source=found[0][0].path,
            ),
            [one for _, one in found],
        )


def _judged_job(prepared: PreparedScenario, recording: RecordedConversation, index: int, redaction: Redaction) -> Job:
    """The recording, judged by the scenario; errored where the scenario asks for what the recording cannot answer."""
    transcript = recording.transcript
    problem = None if transcript.error is not None else _problem(prepared, recording)
    if problem is not None:
        transcript = replace(transcript, error=problem, stop_reason=StopReason.ERROR)
    recorded = _recorded_trial(prepared.entry, recording, index, redaction.transcript(transcript))
    return Job(prepared=prepared, index=index, recorded=recorded)


def _unjudged_job(entry: ScenarioEntry, recording: RecordedConversation, index: int, redaction: Redaction) -> Job:
    """A recording of which nothing can be said, except that it broke down where it did."""
    recorded = _recorded_trial(entry, recording, index, redaction.transcript(recording.transcript))
    prepared = PreparedScenario(
        entry=entry,
        scenario=Scenario(name=entry.key.name),
        agent=NoAgent(),
        make_user=_refuse_to_play,
        make_tools=_refuse_to_play,
    )
    problem = recorded.transcript.error or _NOTHING_ASSERTED
    return Job(prepared=prepared, index=index, recorded=recorded, problem=problem)


def _refuse_to_play(*_: object) -> Any:
    raise AssertionError("a recording is not played")


def _recorded_trial(entry: ScenarioEntry, recording: RecordedConversation, index: int, transcript: Transcript) -> Trial:
    return Trial(
        key=entry.key,
        index=index,
        status=Status.ERRORED,
        transcript=transcript,
        started_at=recording.started_at or now(),
        duration_ms=transcript.duration_ms,
    )


def _problem(prepared: PreparedScenario, recording: RecordedConversation) -> ErrorInfo | None:
    limits = prepared.scenario.limits
    if limits is not None and limits.latency_ms is not None and not recording.timed:
        message = f"limits.latency_ms cannot be checked: the recording {recording.name!r} has no times"
        return ErrorInfo(kind=ErrorKind.CONFIG, message=message, hint="leave the limit out for recordings")
    script = script_of(prepared.scenario)
    return other_words(script, recording.users, place=f"in the recording {recording.name!r}")


def other_words(script: Sequence[str] | None, users: Sequence[str], *, place: str) -> ErrorInfo | None:
    """Why expectations cannot be asked of a conversation: its user did not say what the script says now."""
    difference = None if script is None else first_difference(script, users)
    if difference is None:
        return None
    turn, scripted, recorded = difference
    says = "nothing more" if scripted is None else repr(scripted[:200])
    said = "nothing more" if recorded is None else repr(recorded[:200])
    return ErrorInfo(
        kind=ErrorKind.CONFIG,
        message=f"in turn {turn + 1} the scenario's user says {says}, but {place} {said}",
        hint="expectations hold for the words they were written for; use those that were said, or play it anew",
        turn=turn,
    )
