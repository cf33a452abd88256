"""One trial from its beginning to its verdict."""

import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from seatrial.clock import milliseconds, now
from seatrial.verdicts import decide_trial, find_error
from seatrial.vocabulary.conversation import ErrorInfo, ErrorKind, StopReason, Transcript
from seatrial.vocabulary.findings import Judgement, ModelUse, sum_model_use
from seatrial.vocabulary.roles import Hook, HookContext, PreparedScenario, TrialContext
from seatrial.vocabulary.run import ScenarioKey, Trial

from .evaluate import evaluate
from .pace import Pace
from .play import play

Redact = Callable[[Transcript], Transcript]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """What all trials of a run share."""

    run_id: str = ""
    seed: int = 0
    pace: Pace | None = None
    redact: Redact | None = None


async def run_trial(prepared: PreparedScenario, index: int, settings: TrialSettings) -> Trial:
    """Set up, play, redact, evaluate, judge, decide, tear down."""
    started_at = now()
    started = milliseconds()
    seed = trial_seed(settings.seed, prepared.entry.key, index)
    trial_id = f"{settings.run_id}-{prepared.entry.position}-{index + 1}"
    tools = prepared.make_tools(trial_id, seed)
    hooks = HookContext(scenario=prepared.scenario, trial_id=trial_id, index=index, seed=seed, state=tools.state)
    use: ModelUse | None = None
    error = await _run_hooks(prepared.setup, hooks, "setup")
    if error is None:
        played = await play(prepared, index=index, trial_id=trial_id, seed=seed, tools=tools, pace=settings.pace)
        transcript, use = played.transcript, played.use
    else:
        transcript = Transcript(turns=(), stop_reason=StopReason.ERROR, history=prepared.history, error=error)
    if settings.redact is not None:
        transcript = settings.redact(transcript)
    after = await _run_hooks(prepared.teardown, hooks, "teardown")
    if after is not None and transcript.error is None:
        transcript = replace(transcript, error=after, stop_reason=StopReason.ERROR)
    trial = await judge_transcript(prepared, transcript, index=index, use=use)
    return replace(trial, seed=seed, started_at=started_at, duration_ms=milliseconds() - started)


async def judge_transcript(
    prepared: PreparedScenario, transcript: Transcript, *, index: int, use: ModelUse | None = None
) -> Trial:
    """The trial that follows from a transcript, whether it was just played or comes from the store."""
    results = await evaluate(prepared, transcript, index=index)
    judgement: Judgement | None = None
    if prepared.judge is not None and transcript.error is None:
        ctx = TrialContext(transcript=transcript, scenario=prepared.scenario, trial=index)
        judgement, judge_use = await prepared.judge.judge(ctx)
        use = judge_use if use is None else sum_model_use((use, judge_use))
    verdict = decide_trial(transcript, results, judgement, pass_threshold=prepared.entry.gates.pass_threshold)
    return Trial(
        key=prepared.entry.key,
        index=index,
        status=verdict.status,
        failure_reasons=verdict.failure_reasons,
        error=find_error(transcript, results, judgement),
        transcript=transcript,
        results=results,
        judgement=judgement,
        instruments=use,
        started_at=now(),
    )


async def _run_hooks(hooks: Sequence[Hook], ctx: HookContext, what: str) -> ErrorInfo | None:
    for hook in hooks:
        try:
            done = hook(ctx)
            if inspect.isawaitable(done):
                await done
        except Exception as raised:
            return ErrorInfo(
                kind=ErrorKind.CONFIG,
                message=f"{what} failed: {type(raised).__name__}: {raised}",
                traceback=traceback.format_exc(),
            )
    return None


def trial_seed(run_seed: int, key: ScenarioKey, index: int) -> int:
    """A number of its own for every trial, the same in every run with the same seed."""
    text = f"{run_seed}\0{key.suite}\0{key.name}\0{key.agent}\0{index}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest())
