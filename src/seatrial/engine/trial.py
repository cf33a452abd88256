"""One trial from its beginning to its verdict."""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

from msgspec.structs import replace

from seatrial import foreign
from seatrial.clock import milliseconds, now
from seatrial.model.conversation import ErrorInfo, ErrorKind, StopReason, Transcript
from seatrial.model.protocols import Hook, HookContext, PreparedScenario, ToolBox, TrialContext, TrialJudge
from seatrial.model.results import EvalResult, Judgement, ModelUse, RepeatTrial, sum_model_use
from seatrial.model.run import ScenarioKey, Status, Trial
from seatrial.model.struct import Struct
from seatrial.verdicts.trial import decide_trial, find_error

from .conversation import play
from .evaluate import Redact, evaluate
from .schedule import Job, RateLimit


class TrialSettings(Struct, frozen=True, kw_only=True):
    """What all trials of a run share."""

    run_id: str = ""
    seed: int = 0
    rate_limit: RateLimit | None = None
    redact: Redact | None = None


class _Begun(Struct, frozen=True, kw_only=True):
    """When and with what a trial began."""

    index: int
    seed: int = 0
    at: datetime
    at_ms: float


async def run_trial(prepared: PreparedScenario, index: int, settings: TrialSettings) -> Trial:
    """Set up, play, tear down, redact, evaluate, judge, decide. Raises RepeatTrial, and nothing else."""
    begun = _Begun(
        index=index, seed=trial_seed(settings.seed, prepared.entry.key, index), at=now(), at_ms=milliseconds()
    )
    try:
        if prepared.setup or prepared.teardown:
            transcript, use = await _play_between_hooks(prepared, begun, settings)
        else:
            transcript, use = await _play(prepared, begun, settings, None)
        if settings.redact is not None:
            transcript = settings.redact(transcript)
        return await _judge(prepared, transcript, begun, use=use, redact=settings.redact)
    except RepeatTrial:
        raise
    except BaseException as raised:  # an agent of a user's own class runs here too, and may call sys.exit()
        if _ends_the_run(raised):
            raise
        error = ErrorInfo(
            kind=ErrorKind.INFRA,
            message=f"the trial broke down: {foreign.describe(raised)}",
            hint="this is no verdict on the agent; if the traceback ends in Seatrial itself, please report it",
            traceback="".join(traceback.format_exception(raised)),
        )
        return _errored_trial(prepared, _redacted(error, settings.redact), begun)


def _ends_the_run(raised: BaseException) -> bool:
    """Whether it is Ctrl-C, our own end, or the cancellation of this task; a CancelledError may also be user code's."""
    if isinstance(raised, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(raised, KeyboardInterrupt | GeneratorExit)


def _play(
    prepared: PreparedScenario, begun: _Begun, settings: TrialSettings, tools: ToolBox | None
) -> Awaitable[tuple[Transcript, ModelUse | None]]:
    trial_id = _trial_id(prepared, begun, settings)
    tools = tools or prepared.make_tools(trial_id, begun.seed)
    return play(
        prepared, index=begun.index, trial_id=trial_id, seed=begun.seed, tools=tools, rate_limit=settings.rate_limit
    )


def _trial_id(prepared: PreparedScenario, begun: _Begun, settings: TrialSettings) -> str:
    return f"{settings.run_id}-{prepared.entry.position}-{begun.index + 1}"


async def _play_between_hooks(
    prepared: PreparedScenario, begun: _Begun, settings: TrialSettings
) -> tuple[Transcript, ModelUse | None]:
    """The conversation between setup and teardown; whatever was set up is torn down."""
    trial_id = _trial_id(prepared, begun, settings)
    tools = prepared.make_tools(trial_id, begun.seed)
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
    """The recorded trial of the job as it is judged now. When the conversation was held, and its seed, stay."""
    recorded = job.recorded
    assert recorded is not None
    if job.problem is not None:
        # The transcript stays, so that it can be judged again later.
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
        )
    judged = await judge_transcript(job.prepared, recorded.transcript, index=job.index, redact=settings.redact)
    return replace(judged, seed=recorded.seed, started_at=recorded.started_at, duration_ms=recorded.duration_ms)


async def judge_transcript(
    prepared: PreparedScenario,
    transcript: Transcript,
    *,
    index: int,
    use: ModelUse | None = None,
    redact: Redact | None = None,
) -> Trial:
    """The trial that follows from a transcript, whether it was just played or comes from the store."""
    begun = _Begun(index=index, at=now(), at_ms=milliseconds())
    return await _judge(prepared, transcript, begun, use=use, redact=redact)


async def _judge(
    prepared: PreparedScenario,
    transcript: Transcript,
    begun: _Begun,
    *,
    use: ModelUse | None,
    redact: Redact | None = None,
) -> Trial:
    results = await evaluate(prepared, transcript, index=begun.index, redact=redact)
    if redact is not None and any(result.error for result in results):
        results = tuple(_redacted_result(result, redact) for result in results)
    uses = [use, *[result.use for result in results]]
    judgement: Judgement | None = None
    if prepared.judge is not None and transcript.error is None:
        ctx = TrialContext(transcript=transcript, scenario=prepared.scenario, trial=begun.index)
        judgement, judge_use = await _ask_judge(prepared.judge, ctx)
        uses.append(judge_use)
        if judgement.error is not None:
            judgement = replace(judgement, error=_redacted(judgement.error, redact))
    verdict = decide_trial(transcript, results, judgement, pass_threshold=prepared.entry.gates.pass_threshold)
    return Trial(
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
    """A trial that others disturbed so often that it was given up."""
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
    return Trial(
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


def _not_played(prepared: PreparedScenario, error: ErrorInfo) -> Transcript:
    return Transcript(turns=(), stop_reason=StopReason.ERROR, history=prepared.history, error=error)


_EMPTY: Final = Transcript(turns=(), stop_reason=StopReason.ERROR)


def _redacted(error: ErrorInfo, redact: Redact | None) -> ErrorInfo:
    """An evaluator, a judge or a hook may know secrets that the transcript no longer has."""
    return error if redact is None else redact(replace(_EMPTY, error=error)).error or error


def _redacted_result(result: EvalResult, redact: Redact) -> EvalResult:
    if result.error is None:
        return result
    error = _redacted(result.error, redact)
    reasoning = error.message if result.reasoning == result.error.message else result.reasoning
    return replace(result, error=error, reasoning=reasoning)


async def _run_hooks(hooks: Sequence[Hook], ctx: HookContext, what: str, seconds: float) -> ErrorInfo | None:
    """The first failure. It ends a setup, but not a teardown: each of those undoes something of its own."""
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
        return _left_undone(await foreign.call(hook, ctx, timeout=seconds), what)
    except foreign.ForeignError as raised:
        message, foreign_traceback = f"{what} failed: {raised}", raised.traceback
    except TimeoutError:
        message = f"{what} failed: TimeoutError: no answer within {seconds:g} s (trial_timeout_seconds)"
        foreign_traceback = None
    return ErrorInfo(kind=ErrorKind.CONFIG, message=message, traceback=foreign_traceback)


def _left_undone(done: Any, what: str) -> ErrorInfo | None:
    """What a hook left to be done by somebody else: nobody runs what it returns."""
    # What `contextlib.contextmanager` makes holds the generator as `gen`.
    body = getattr(done, "gen", done)
    if inspect.isgenerator(body) or inspect.isasyncgen(body):
        message = f"{what} is a generator ({body.__qualname__}), of which nothing was run"
        hint = "write what stands before its yield as setup, and what stands after it as teardown: two functions"
    elif inspect.isroutine(done) or inspect.isclass(done):
        message = f"{what} returned {done.__qualname__}, which nobody calls"
        hint = f"name the function itself under {what}, or call it there"
    else:
        return None
    return ErrorInfo(kind=ErrorKind.CONFIG, message=message, hint=hint)


def trial_seed(run_seed: int, key: ScenarioKey, index: int) -> int:
    """A number of its own for every trial, the same in every run with the same seed."""
    text = f"{run_seed}\0{key.suite}\0{key.name}\0{key.agent}\0{index}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest())
