"""Import conversations that were recorded elsewhere as a run, judged by a suite if there is one."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
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
from seatrial.traces.scenario_file import replay_agent
from seatrial.traces.transcript_builder import RecordedConversation, TraceFile, first_difference, script_of, words_of

from .agents import Agents, NoAgent
from .event_loop import run_until_complete
from .new_run import find_commit, new_planned_run, new_run
from .report import Report
from .request import RunRequest
from .run_plan import RunPlan
from .session import Jobs, RunSession

_MUST_PASS = Gates(must_pass=True)
"""A recording or a scenario without a counterpart fails the run, whatever pass rate the run requires."""
_NOTHING_ASSERTED = ErrorInfo(
    kind=ErrorKind.CONFIG,
    message="nothing is asserted of this recording",
    hint="judge it by a suite: seatrial import-trace FILE --suite PATH",
)
"""Makes the trial errored, like a scenario without checks."""

_UNUSED_MODEL = "openai:unused@http://127.0.0.1:9/v1"
"""The simulated user's model if none is named. It is never called: the conversations exist."""


class ImportedTraces(Struct, frozen=True, kw_only=True):
    """The result of an import."""

    report: Report
    unmatched: tuple[str, ...] = ()
    """Conversations without a scenario in the suite."""
    without_recording: tuple[ScenarioKey, ...] = ()
    """Scenarios of the suite without a recording."""


def import_traces(files: Sequence[TraceFile], asked: RunRequest) -> ImportedTraces:
    """Store the recordings as a new run. `asked.sources` are the suites that judge them; there may be none."""
    assert asked.store is not None
    if not files:
        raise UsageError("import-trace: no file is given")
    plan = None
    if asked.sources:
        formats = {file.format for file in files}
        format = formats.pop() if len(formats) == 1 else None
        request = replace(
            asked,
            agent=replay_agent([file.path for file in files], format=format, paths=files[0].paths),
            models={"user": _UNUSED_MODEL, **asked.models},
        )
        plan = RunPlan(request, agents=Agents(request))
    return run_until_complete(_Import(files, asked, plan).judge())


class _Import:
    """An import in progress."""

    def __init__(self, files: Sequence[TraceFile], asked: RunRequest, plan: RunPlan | None) -> None:
        self._files = files
        self._asked = asked
        self._plan = plan
        self._commit = find_commit(Path.cwd())
        self._without: list[ScenarioKey] = []
        self._unmatched: list[str] = []

    async def judge(self) -> ImportedTraces:
        plan = self._plan
        async with self._open_session() as session:
            entries, recorded = self._match(session.redaction)
            session.start(self._new_run(session.redaction), scenarios=len(entries), trials=len(recorded))
            session.recorder.add(entries)
            session.keep_contents([job.prepared for job in recorded])
            jobs = Jobs(
                schedule=FixedSchedule(recorded),
                executor=JudgeExecutor(session.trial_settings()),
                concurrency=1 if plan is None else plan.config.concurrency,
            )
            report = await session.play_to_end(jobs, scenarios=tuple if plan is None else plan.scenarios)
        return ImportedTraces(
            report=report,
            unmatched=tuple(self._unmatched),
            without_recording=tuple(self._without),
        )

    def _open_session(self) -> RunSession:
        if self._plan is not None:
            return self._plan.open_session()
        return RunSession(self._asked, agents=Agents(self._asked), models=RunModels())

    def _new_run(self, redaction: Redaction) -> Run:
        if self._plan is not None:
            return replace(new_planned_run(self._plan, self._commit, redaction, seed=0), replayed=True)
        return new_run(
            self._asked,
            name=self._asked.name or ", ".join(dict.fromkeys(Path(file.path).stem for file in self._files)),
            commit=self._commit,
            config=redaction.value({"traces": [file.path for file in self._files], "command": self._asked.command}),
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
            # The number of trials is not an expectation: all recordings are judged.
            gates = each.entry.gates if found else replace(each.entry.gates, must_pass=True)
            entry = replace(each.entry, trials=len(found) or 1, sequential=None, gates=gates)
            entry = replace(entry, recorded=entry.recorded and bool(found))
            entries.append(entry)
            if entry.skip is None:
                each = replace(each, entry=entry)
                jobs += [_judged_job(each, one, i) for i, one in enumerate(found)]
        left = [(file, one) for file, one in recorded if id(one) not in used]
        self._unmatched = [one.name for _, one in left] if prepared else []
        for entry, found in _as_scenarios(left, first=1 + max((entry.position for entry in entries), default=-1)):
            entries.append(entry)
            jobs += [_unjudged_job(entry, one, i, redaction) for i, one in enumerate(found)]
        return entries, jobs


def _pair(
    scenarios: Sequence[PreparedScenario], recordings: Sequence[RecordedConversation]
) -> Iterator[tuple[PreparedScenario, list[RecordedConversation]]]:
    """Each scenario with the recordings of its name, or else with those that have the same user messages."""
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
    """A scenario without checks for each recording that has none; recordings of one name are its trials."""
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


def _judged_job(prepared: PreparedScenario, recording: RecordedConversation, index: int) -> Job:
    """The recording, judged by the scenario; errored if the recording lacks what the scenario checks."""
    transcript = replace(recording.transcript, state_known=recording.transcript.state is not None)
    problem = None if transcript.error is not None else _problem(prepared, recording)
    if problem is not None:
        transcript = replace(transcript, error=problem, stop_reason=StopReason.ERROR)
    # It is redacted after a world has run the recorded calls.
    recorded = _recorded_trial(prepared.entry, recording, index, transcript)
    return Job(prepared=prepared, index=index, recorded=recorded)


def _unjudged_job(entry: ScenarioEntry, recording: RecordedConversation, index: int, redaction: Redaction) -> Job:
    """A recording without a scenario: errored, with its own error if it has one."""
    recorded = _recorded_trial(entry, recording, index, redaction.transcript(recording.transcript))
    prepared = PreparedScenario(
        entry=entry,
        scenario=Scenario(name=entry.key.name),
        agent=NoAgent(),
        make_user=_never_called,
        make_tools=_never_called,
    )
    problem = recorded.transcript.error or _NOTHING_ASSERTED
    return Job(prepared=prepared, index=index, recorded=recorded, problem=problem)


def _never_called(*_: object) -> Any:
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
    return find_other_words(script, recording.users, place=f"in the recording {recording.name!r}")


def find_other_words(script: Sequence[str] | None, users: Sequence[str], *, place: str) -> ErrorInfo | None:
    """The error of a conversation whose user messages differ from the script."""
    difference = None if script is None else first_difference(script, users)
    if difference is None:
        return None
    turn, scripted, recorded = difference
    says = "nothing more" if scripted is None else repr(scripted[:200])
    said = "nothing more" if recorded is None else repr(recorded[:200])
    return ErrorInfo(
        kind=ErrorKind.CONFIG,
        message=f"in turn {turn + 1} the scenario's user says {says}, but {place} {said}",
        hint="expectations belong to the messages they were written for; use the recorded ones, or run it again",
        turn=turn,
    )
