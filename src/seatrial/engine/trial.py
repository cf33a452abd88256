"""One trial: set up, play, tear down, redact, evaluate, judge, decide."""

import asyncio
import inspect
import traceback
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any

from msgspec.structs import replace

from seatrial import foreign
from seatrial.clock import milliseconds, now
from seatrial.model.conversation import ErrorInfo, ErrorKind, StopReason, Transcript
from seatrial.model.protocols import Hook, HookContext, PreparedScenario, ToolBox, TrialContext, TrialJudge
from seatrial.model.results import EvalResult, Judgement, ModelUse, RepeatTrial, TrialError, sum_model_use
from seatrial.model.run import ScenarioKey, Status, Trial
from seatrial.model.struct import Struct
from seatrial.model.world_view import WorldView
from seatrial.verdicts.faults import classify
from seatrial.verdicts.trial import decide_trial, find_error

from .conversation import Conversation
from .evaluate import evaluate, evaluate_whole
from .redact import Redaction
from .schedule import Job, RateLimit


class TrialSettings(Struct, frozen=True, kw_only=True):
    """What all trials of a run share."""

    run_id: str = ""
    seed: int = 0
    rate_limit: RateLimit | None = None
    redaction: Redaction | None = None


class _Begun(Struct, frozen=True, kw_only=True):
    """The start of a trial."""

    index: int
    seed: int = 0
    at: datetime
    at_ms: float


async def run_trial(prepared: PreparedScenario, index: int, settings: TrialSettings) -> Trial:
    """Play and judge one trial. Raises only RepeatTrial."""
    begun = _Begun(
        index=index, seed=trial_seed(settings.seed, prepared.entry.key, index), at=now(), at_ms=milliseconds()
    )
    try:
        if prepared.setup or prepared.teardown:
            transcript, use = await _play_between_hooks(prepared, begun, settings)
        else:
            transcript, use = await _play(prepared, begun, settings, None)
        if getattr(prepared.agent, "replays", False):
            transcript = replace(transcript, state=None, state_known=False)
            transcript = await reenact(prepared, transcript, seed=begun.seed)
        if settings.redaction is not None:
            transcript = settings.redaction.transcript(transcript)
        return await _judge(prepared, transcript, begun, use=use, redaction=settings.redaction)
    except RepeatTrial:
        raise
    except BaseException as raised:  # user code runs here, and may call sys.exit()
        if _ends_the_run(raised):
            raise
        error = ErrorInfo(
            kind=ErrorKind.INFRA,
            message=f"the trial broke down: {foreign.describe(raised)}",
            hint="this is no verdict on the agent; if the traceback ends in Seatrial itself, please report it",
            traceback="".join(traceback.format_exception(raised)),
        )
        return _errored_trial(prepared, _redact_error(error, settings.redaction), begun)


def _ends_the_run(raised: BaseException) -> bool:
    """Whether it is Ctrl-C, or this task was cancelled. User code may raise CancelledError too."""
    if isinstance(raised, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(raised, KeyboardInterrupt | GeneratorExit)


async def _play(
    prepared: PreparedScenario, begun: _Begun, settings: TrialSettings, tools: ToolBox | None
) -> tuple[Transcript, ModelUse | None]:
    trial_id = _trial_id(prepared, begun, settings)
    conversation = Conversation(
        prepared,
        index=begun.index,
        trial_id=trial_id,
        seed=begun.seed,
        tools=tools or prepared.make_tools(trial_id, _tools_seed(prepared, begun)),
        rate_limit=settings.rate_limit,
    )
    return await conversation.play()


def _tools_seed(prepared: PreparedScenario, begun: _Begun) -> int:
    """The seed of mocks and world: in a fork that of the stored trial, so that they answer as they did."""
    return begun.seed if prepared.fork is None else prepared.fork.seed


def _trial_id(prepared: PreparedScenario, begun: _Begun, settings: TrialSettings) -> str:
    return f"{settings.run_id}-{prepared.entry.position}-{begun.index + 1}"


async def _play_between_hooks(
    prepared: PreparedScenario, begun: _Begun, settings: TrialSettings
) -> tuple[Transcript, ModelUse | None]:
    """The conversation between setup and teardown; teardown always runs."""
    trial_id = _trial_id(prepared, begun, settings)
    tools = prepared.make_tools(trial_id, _tools_seed(prepared, begun))
    ctx = HookContext(
        scenario=prepared.scenario, trial_id=trial_id, index=begun.index, seed=begun.seed, state=tools.state
    )
    error: ErrorInfo | None = None
    try:
        error = await _run_hooks(prepared.setup, ctx, "setup", prepared.trial_timeout_seconds)
        if error is None:
            transcript, use = await _play(prepared, begun, settings, tools)
        else:
            transcript, use = _not_played(prepared, error), None
    finally:
        error = await _run_hooks(prepared.teardown, ctx, "teardown", prepared.trial_timeout_seconds)
    if error is not None and transcript.error is None:
        transcript = replace(transcript, error=error, stop_reason=StopReason.ERROR)
    return transcript, use


async def judge_recorded_trial(job: Job, settings: TrialSettings) -> Trial:
    """Judge the job's recorded trial. Start time, duration and seed stay."""
    recorded = job.recorded
    assert recorded is not None
    transcript = await reenact(job.prepared, recorded.transcript, seed=recorded.seed)
    if settings.redaction is not None:
        transcript = settings.redaction.transcript(transcript)
    recorded = replace(recorded, transcript=transcript)
    if job.problem is not None:
        # The transcript is kept, so that it can be judged again later.
        return replace(
            recorded,
            key=job.prepared.entry.key,
            index=job.index,
            results=(),
            judgement=None,
            instruments=None,
            status=Status.ERRORED,
            failure_reasons=(f"{job.problem.kind}: {job.problem.message}",),
            error=job.problem,
            on_failure=(),
            fault=None,
        )
    judged = await judge_transcript(
        job.prepared, transcript, index=job.index, seed=recorded.seed, redaction=settings.redaction
    )
    return replace(judged, seed=recorded.seed, started_at=recorded.started_at, duration_ms=recorded.duration_ms)


async def reenact(prepared: PreparedScenario, transcript: Transcript, *, seed: int) -> Transcript:
    """The recorded transcript, with the end state that its calls produce in the scenario's world, if it has one."""
    if prepared.world is None:
        return transcript
    scenario = prepared.scenario
    real_tools = scenario.unmocked_tools == "passthrough"
    return await prepared.world.reenact(transcript, mocked=scenario.mocks or (), real_tools=real_tools, seed=seed)


async def judge_transcript(
    prepared: PreparedScenario,
    transcript: Transcript,
    *,
    index: int,
    seed: int = 0,
    redaction: Redaction | None = None,
) -> Trial:
    """The trial of a transcript that exists."""
    begun = _Begun(index=index, seed=seed, at=now(), at_ms=milliseconds())
    return await _judge(prepared, transcript, begun, use=None, redaction=redaction)


async def _judge(
    prepared: PreparedScenario,
    transcript: Transcript,
    begun: _Begun,
    *,
    use: ModelUse | None,
    redaction: Redaction | None,
) -> Trial:
    world: WorldView | None = None
    if prepared.world is not None and transcript.world is not None:
        gold = None if prepared.scenario.end_state is None else prepared.scenario.end_state.as_after
        try:
            world = await prepared.world.view(transcript.world, seed=begun.seed, gold=gold)
        except TrialError as failure:
            error = transcript.error or failure.info
            transcript = replace(transcript, error=error, stop_reason=StopReason.ERROR)
    results = await evaluate(prepared, transcript, index=begun.index, redaction=redaction, world=world)
    results = tuple(_redact_result(result, redaction) for result in results)
    uses = [use, *[result.use for result in results]]
    judgement: Judgement | None = None
    if prepared.judge is not None and transcript.error is None:
        ctx = TrialContext(transcript=transcript, scenario=prepared.scenario, trial=begun.index)
        judgement, judge_use = await _ask_judge(prepared.judge, ctx)
        uses.append(judge_use)
        if judgement.error is not None:
            judgement = replace(judgement, error=_redact_error(judgement.error, redaction))
    verdict = decide_trial(transcript, results, judgement, pass_threshold=prepared.entry.gates.pass_threshold)
    trial = Trial(
        key=prepared.entry.key,
        index=begun.index,
        status=verdict.status,
        failure_reasons=verdict.failure_reasons,
        error=find_error(transcript, results, judgement) if verdict.status is Status.ERRORED else None,
        transcript=transcript,
        results=results,
        judgement=judgement,
        instruments=sum_model_use(uses) if any(uses) else None,
        seed=begun.seed,
        started_at=begun.at,
        duration_ms=milliseconds() - begun.at_ms,
    )
    return await _classify_fault(prepared, trial, world=world, redaction=redaction)


async def _classify_fault(
    prepared: PreparedScenario, trial: Trial, *, world: WorldView | None, redaction: Redaction | None
) -> Trial:
    """In a sweep over faults: the trial with what the agent did. `on_failure` is asked only if it decides."""
    variant = prepared.entry.variant
    if variant is None or variant.kind != "fault":
        return trial
    finding = classify(trial, variant.settings)
    if finding.result in _DECIDED_BY_REPLY and prepared.on_failure:
        transcript = trial.transcript
        ctx = TrialContext(transcript=transcript, scenario=prepared.scenario, trial=trial.index, world=world)
        known = redaction if transcript.redacted else None
        seconds = prepared.trial_timeout_seconds
        asked = await evaluate_whole(prepared.on_failure, ctx, redaction=known, seconds=seconds)
        results = tuple(_redact_result(result, redaction) for result in asked)
        uses = [trial.instruments, *[result.use for result in results]]
        used = sum_model_use(uses) if any(uses) else None
        trial = replace(trial, on_failure=results, instruments=used)
        finding = classify(trial, variant.settings)
    return replace(trial, fault=finding)


_DECIDED_BY_REPLY = ("claimed success", "unclear")
"""Results that become `told the user` if the reply is what `on_failure` asks for."""


async def _ask_judge(judge: TrialJudge, ctx: TrialContext) -> tuple[Judgement, ModelUse]:
    try:
        return await judge.judge(ctx)
    except Exception as raised:
        error = ErrorInfo(
            kind=ErrorKind.JUDGE,
            message=f"the judge broke down: {foreign.describe(raised)}",
            traceback="".join(traceback.format_exception(raised)),
        )
        return Judgement(error=error), ModelUse()


def disturbed_trial(prepared: PreparedScenario, index: int, settings: TrialSettings, *, times: int) -> Trial:
    """An errored trial: other trials disturbed it too often."""
    error = ErrorInfo(
        kind=ErrorKind.INFRA,
        message=f"other trials blocked the agents' event loop {times} times while this one was played",
        hint="the async agent blocks: let it await, or make it a plain function, which runs in a thread",
    )
    seed = trial_seed(settings.seed, prepared.entry.key, index)
    return _errored_trial(prepared, error, _Begun(index=index, seed=seed, at=now(), at_ms=milliseconds()))


def _errored_trial(prepared: PreparedScenario, error: ErrorInfo, begun: _Begun) -> Trial:
    transcript = _not_played(prepared, error)
    verdict = decide_trial(transcript, ())
    trial = Trial(
        key=prepared.entry.key,
        index=begun.index,
        status=verdict.status,
        failure_reasons=verdict.failure_reasons,
        error=error,
        transcript=transcript,
        seed=begun.seed,
        started_at=begun.at,
        duration_ms=milliseconds() - begun.at_ms,
    )
    variant = prepared.entry.variant
    if variant is None or variant.kind != "fault":
        return trial
    return replace(trial, fault=classify(trial, variant.settings))


def _not_played(prepared: PreparedScenario, error: ErrorInfo) -> Transcript:
    return Transcript(turns=(), stop_reason=StopReason.ERROR, history=prepared.history, error=error)


def _redact_error(error: ErrorInfo, redaction: Redaction | None) -> ErrorInfo:
    """Evaluators, judges and hooks may know secrets that the redacted transcript does not contain."""
    return error if redaction is None else redaction.error(error)


def _redact_result(result: EvalResult, redaction: Redaction | None) -> EvalResult:
    if result.gold_calls and redaction is not None:
        shown = (replace(call, arguments=redaction.value(call.arguments, keys=False)) for call in result.gold_calls)
        result = replace(result, gold_calls=tuple(shown))
    if result.error is None:
        return result
    error = _redact_error(result.error, redaction)
    reasoning = error.message if result.reasoning == result.error.message else result.reasoning
    return replace(result, error=error, reasoning=reasoning)


async def _run_hooks(hooks: Sequence[Hook], ctx: HookContext, what: str, seconds: float) -> ErrorInfo | None:
    """The first error. It stops the setup; all teardown hooks run."""
    first: ErrorInfo | None = None
    for hook in hooks:
        error = await _run_hook(hook, ctx, what, seconds)
        if error is not None:
            first = first or error
            if what == "setup":
                break
    return first


async def _run_hook(hook: Hook, ctx: HookContext, what: str, seconds: float) -> ErrorInfo | None:
    try:
        return _check_return(await foreign.call(hook, ctx, timeout=seconds), what)
    except foreign.ForeignError as raised:
        message, foreign_traceback = f"{what} failed: {raised}", raised.traceback
    except TimeoutError:
        message = f"{what} failed: TimeoutError: no answer within {seconds:g} s (trial_timeout_seconds)"
        foreign_traceback = None
    return ErrorInfo(kind=ErrorKind.CONFIG, message=message, traceback=foreign_traceback)


def _check_return(value: Any, what: str) -> ErrorInfo | None:
    """The error of a hook that returns a generator or a function, which would never run."""
    # A `contextlib.contextmanager` keeps its generator as `gen`.
    body = getattr(value, "gen", value)
    if inspect.isgenerator(body) or inspect.isasyncgen(body):
        message = f"{what} is a generator ({body.__qualname__}), of which nothing was run"
        hint = "write two functions: setup with the code before its yield, teardown with the code after it"
    elif inspect.isroutine(value) or inspect.isclass(value):
        message = f"{what} returned {value.__qualname__}, which is never called"
        hint = f"name the function itself under {what}, or call it there"
    else:
        return None
    return ErrorInfo(kind=ErrorKind.CONFIG, message=message, hint=hint)


def trial_seed(run_seed: int, key: ScenarioKey, index: int) -> int:
    """The seed of a trial: different for every trial, the same in every run with the same seed."""
    text = f"{run_seed}\0{key.suite}\0{key.name}\0{key.agent}\0{index}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest())
