"""One trial from setup to verdict: hooks, evaluators that break, and nothing that can end the run."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from seatrial.agents.resolve import resolve_agent
from seatrial.engine.redact import Redaction, Secret
from seatrial.engine.trial import TrialSettings, judge_transcript, run_trial, trial_seed
from seatrial.evaluators.matchers import matches
from seatrial.evaluators.passfail import PassFail
from seatrial.evaluators.trajectory import Trajectory
from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.protocols import HookContext, PreparedScenario, TurnContext
from seatrial.model.results import EvalResult, Judgement, ModelUse, OutcomeResult, RepeatTrial
from seatrial.model.run import ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.model.scenario import ExpectedCall, Scenario
from seatrial.tools.tool_box import MockSet
from seatrial.users.scripted import FunctionUser, ScriptedUser

SECRET = "sk-1234567890abcdef"


class Says:
    """An evaluator that says what it was told to, or raises it."""

    def __init__(self, result: Any, name: str = "says") -> None:
        self.result = result
        self.name = name
        self.asked: list[Any] = []

    async def evaluate(self, ctx: Any) -> EvalResult:
        self.asked.append(ctx)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result  # type: ignore[no-any-return]


GOOD = Says(EvalResult(passed=True, reasoning="fine"))
BAD = Says(EvalResult(passed=False, reasoning="not fine"))


class Judge:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def judge(self, ctx: Any) -> tuple[Judgement, ModelUse]:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer, ModelUse(calls=1, cost_usd=0.5)


def a_scenario(
    *evaluators: Any, agent: Any = None, lines: Sequence[str] = ("hello",), user: Any = None, **fields: Any
) -> PreparedScenario:
    return PreparedScenario(
        entry=ScenarioEntry(key=ScenarioKey("suite", "scenario"), position=3, fingerprint="f", trials=1),
        scenario=Scenario(name="scenario", input="hello"),
        agent=resolve_agent(agent or (lambda messages: "hi")),
        make_user=fields.pop(
            "make_user", lambda index, seed: ScriptedUser(lines) if user is None else FunctionUser(user)
        ),
        make_tools=MockSet.parse(fields.pop("mocks", None), matches=matches).open,
        trial_evaluators=evaluators,
        scripted=user is None,
        **fields,
    )


def run(prepared: PreparedScenario, *, settings: TrialSettings | None = None, index: int = 0) -> Trial:
    async def play() -> Trial:
        try:
            return await run_trial(prepared, index, settings or TrialSettings(run_id="r"))
        finally:
            await prepared.agent.close()

    return asyncio.run(play())


# Verdicts.


def test_a_trial_whose_evaluators_pass_passes() -> None:
    trial = run(a_scenario(GOOD, PassFail()))
    assert (trial.status, trial.failure_reasons, trial.error) == (Status.PASSED, (), None)
    assert [result.evaluator for result in trial.results] == ["says", "passfail"]


def test_a_failing_evaluator_fails_the_trial_with_its_reason() -> None:
    trial = run(a_scenario(GOOD, BAD))
    assert (trial.status, trial.failure_reasons) == (Status.FAILED, ("says: not fine",))


def test_an_evaluator_of_the_users_that_never_answers_is_errored_when_the_time_of_the_trial_is_up() -> None:
    class Waits:
        name = "waits"

        async def evaluate(self, ctx: Any) -> EvalResult:
            await asyncio.Event().wait()
            return EvalResult(passed=True)

    trial = run(a_scenario(GOOD, Waits(), trial_timeout_seconds=0.05))
    assert trial.status is Status.ERRORED
    assert trial.error is not None
    assert trial.error.message == ("evaluator 'waits': TimeoutError: no answer within 0.05 s (trial_timeout_seconds)")


def test_a_hook_that_never_returns_is_errored_when_the_time_of_the_trial_is_up() -> None:
    async def waits(ctx: Any) -> None:
        await asyncio.Event().wait()

    trial = run(a_scenario(GOOD, setup=(waits,), trial_timeout_seconds=0.05))
    assert trial.status is Status.ERRORED
    assert trial.failure_reasons == (
        "config: setup failed: TimeoutError: no answer within 0.05 s (trial_timeout_seconds)",
    )


def a_generator(ctx: Any) -> Any:
    ctx.state["ready"] = True
    yield


async def an_async_generator(ctx: Any) -> Any:
    ctx.state["ready"] = True
    yield


async def returns_a_generator(ctx: Any) -> Any:
    return a_generator(ctx)


@pytest.mark.parametrize(
    "hook", [a_generator, an_async_generator, returns_a_generator, contextlib.contextmanager(a_generator)]
)
@pytest.mark.parametrize("what", ["setup", "teardown"])
def test_a_hook_that_is_a_generator_is_errored_since_nothing_of_it_ran(what: str, hook: Any) -> None:
    trial = run(a_scenario(GOOD, **{what: (hook,)}))
    assert trial.status is Status.ERRORED
    assert trial.error is not None
    assert trial.error.kind is ErrorKind.CONFIG
    assert trial.error.message.startswith(f"{what} is a generator (a")
    assert "two functions" in (trial.error.hint or "")


@pytest.mark.parametrize("returned", [a_generator, an_async_generator, dict])
def test_a_hook_that_returns_a_function_is_errored(returned: Any) -> None:
    trial = run(a_scenario(GOOD, setup=(lambda ctx: returned,)))
    assert trial.status is Status.ERRORED
    assert trial.error is not None
    assert trial.error.message == f"setup returned {returned.__qualname__}, which is never called"


def test_a_hook_may_return_a_value() -> None:
    assert run(a_scenario(GOOD, setup=(lambda ctx: {"made": 1},))).status is Status.PASSED


def test_a_trial_without_evaluators_is_errored_and_not_passed() -> None:
    trial = run(a_scenario())
    assert (trial.status, trial.failure_reasons) == (
        Status.ERRORED,
        ("config: nothing was checked; add an expectation",),
    )


def test_a_trial_in_which_nobody_spoke_is_errored_and_not_passed() -> None:
    trial = run(a_scenario(GOOD, user=lambda conversation: None))
    assert trial.status is Status.ERRORED
    assert trial.error is not None
    assert trial.error.kind is ErrorKind.SIMULATOR


def test_an_agent_that_exits_is_errored_and_not_passed() -> None:
    trial = run(a_scenario(GOOD, agent=lambda input: sys.exit(0)))
    assert (trial.status, trial.failure_reasons) == (Status.ERRORED, ("agent: the agent called sys.exit(0)",))


# Evaluators of turns.


def test_evaluators_of_turns_see_their_turn_and_what_was_before() -> None:
    second = Says(EvalResult(passed=True))
    history = ({"role": "system", "content": "be kind"},)
    trial = run(a_scenario(lines=("a", "b"), history=history, turn_evaluators=((), (second,))))
    ctx: TurnContext = second.asked[0]
    assert (ctx.user, ctx.reply, ctx.turn, ctx.trial) == ("b", "hi", 1, 0)
    assert [message["content"] for message in ctx.history] == ["be kind", "a", "hi"]
    assert [(result.evaluator, result.turn) for result in trial.results] == [("says", 1)]


def test_evaluators_for_every_turn_are_asked_in_each() -> None:
    trial = run(a_scenario(lines=("a", "b", "c"), every_turn_evaluators=(GOOD,)))
    assert [result.turn for result in trial.results] == [0, 1, 2]


def test_a_failing_turn_does_not_stop_the_conversation() -> None:
    trial = run(a_scenario(lines=("a", "b"), turn_evaluators=((BAD,), (GOOD,))))
    assert (len(trial.transcript.turns), trial.failure_reasons) == (2, ("turn 1: says: not fine",))


def test_expectations_of_a_scripted_turn_that_was_never_played_are_errored() -> None:
    trial = run(a_scenario(lines=("a", "b"), turn_evaluators=((GOOD,), (GOOD,), (GOOD,))))
    assert trial.status is Status.ERRORED
    assert trial.error is not None
    assert "turn 3 of the script was never played" in trial.error.message


# Evaluators that break.


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (ValueError("oops"), "evaluator 'says': ValueError: oops"),
        (SystemExit(0), "evaluator 'says': SystemExit: 0"),
        (asyncio.CancelledError(), "evaluator 'says': CancelledError"),
        (pytest.skip.Exception("not here"), "evaluator 'says': Skipped: not here"),
        (True, "evaluator 'says': returned True instead of an EvalResult"),
        (None, "evaluator 'says': returned None instead of an EvalResult"),
        (EvalResult(passed="no"), "passed must be True or False, got 'no'"),  # type: ignore[arg-type]
        (EvalResult(passed=1), "passed must be True or False, got 1"),  # type: ignore[arg-type]
        (EvalResult(passed=True, checks=("polite",)), "checks must be Checks, got ('polite',)"),  # type: ignore[arg-type]
        (EvalResult(passed=True, reasoning={}), "reasoning must be a str, got {}"),  # type: ignore[arg-type]
        (EvalResult(passed=False, error="oops"), "error must be an ErrorInfo, got 'oops'"),  # type: ignore[arg-type]
    ],
)
def test_an_evaluator_that_breaks_is_errored_and_neither_failed_nor_passed(said: Any, message: str) -> None:
    trial = run(a_scenario(GOOD, Says(said)))
    assert trial.status is Status.ERRORED
    assert trial.error is not None
    assert trial.error.kind is ErrorKind.EVALUATOR
    assert message in trial.error.message


def test_an_evaluator_without_a_name_is_called_by_its_class() -> None:
    class Custom:
        def evaluate(self, ctx: Any) -> EvalResult:
            return EvalResult(passed=True)

    assert run(a_scenario(Custom())).results[0].evaluator == "Custom"


def test_of_an_errored_trial_only_the_trajectories_are_evaluated_for_the_record() -> None:
    trajectory = Trajectory(mode="in_order", expected=[ExpectedCall(name="lookup")])

    def agent(ctx: Any) -> str:
        ctx.call_tool("other")
        raise ValueError("boom")

    mocks = {name: {"returns": 1} for name in ("other", "lookup")}
    trial = run(a_scenario(GOOD, trajectory, agent=agent, mocks=mocks))
    assert [result.evaluator for result in trial.results] == ["trajectory"]
    assert trial.failure_reasons == ("agent: ValueError: boom",)


def test_of_an_errored_trial_without_recorded_calls_there_is_no_advice_to_record_them() -> None:
    trajectory = Trajectory(expected=["lookup"])

    def agent(input: str) -> str:
        raise ValueError("boom")

    trial = run(a_scenario(trajectory, agent=agent))
    assert (trial.results, trial.failure_reasons) == ((), ("agent: ValueError: boom",))


def test_no_missing_call_is_held_against_an_agent_that_was_never_asked() -> None:
    def nobody(conversation: Any) -> str:
        raise ValueError("no user")

    trial = run(a_scenario(Trajectory(expected=["lookup"]), user=nobody))
    assert trial.error is not None
    assert (trial.error.kind, trial.results) == (ErrorKind.SIMULATOR, ())


# Judges.


def test_the_judge_is_asked_and_its_use_is_added_to_that_of_the_evaluators() -> None:
    asking = Says(EvalResult(passed=True, use=ModelUse(calls=2, cost_usd=0.25)))
    outcome = OutcomeResult(id="1", statement="it was sent", passed=True)
    trial = run(a_scenario(asking, judge=Judge(Judgement(outcomes=(outcome,)))))
    assert trial.status is Status.PASSED
    assert trial.instruments == ModelUse(calls=3, cost_usd=0.75)


def test_a_judge_that_breaks_down_is_errored_and_the_transcript_is_kept() -> None:
    trial = run(a_scenario(GOOD, judge=Judge(RuntimeError("no model"))))
    assert trial.error is not None
    assert (trial.error.kind, trial.status) == (ErrorKind.JUDGE, Status.ERRORED)
    assert trial.transcript.reply == "hi"


def test_a_trial_that_errored_is_not_judged() -> None:
    trial = run(a_scenario(agent=lambda input: 5, judge=Judge(AssertionError("asked"))))
    assert trial.error is not None
    assert (trial.error.kind, trial.judgement) == (ErrorKind.AGENT, None)


def test_a_stored_transcript_is_judged_by_the_same_rules() -> None:
    turn = PlayedTurn(index=0, user="hi", reply="hello", tool_calls=(ToolCall("a"),))
    transcript = Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED)
    trial = asyncio.run(judge_transcript(a_scenario(BAD), transcript, index=4))
    assert (trial.status, trial.index, trial.transcript) == (Status.FAILED, 4, transcript)


# Hooks.


def test_setup_and_teardown_run_around_the_trial_with_its_state() -> None:
    order: list[Any] = []

    def setup(ctx: HookContext) -> None:
        ctx.state["stock"] = 3
        order.append(("setup", ctx.trial_id, ctx.index))

    async def teardown(ctx: HookContext) -> None:
        order.append(("teardown", ctx.state["stock"]))

    def agent(input: str) -> str:
        order.append("agent")
        return "hi"

    trial = run(a_scenario(GOOD, agent=agent, setup=(setup,), teardown=(teardown,)))
    assert order == [("setup", "r-3-1", 0), "agent", ("teardown", 3)]
    assert trial.transcript.state == {"stock": 3}


@pytest.mark.parametrize("error", [OSError("no database"), SystemExit(0), asyncio.CancelledError(), BaseException()])
def test_a_setup_that_fails_is_a_config_error_and_the_agent_is_not_asked(error: BaseException) -> None:
    asked = []

    def setup(ctx: HookContext) -> None:
        raise error

    trial = run(a_scenario(GOOD, agent=lambda input: asked.append(1) or "hi", setup=(setup,)))
    assert trial.error is not None
    assert trial.error.kind is ErrorKind.CONFIG
    assert trial.error.message.startswith("setup failed: ")
    assert asked == []


def test_a_teardown_that_fails_is_a_config_error_and_the_others_still_run() -> None:
    done = []

    def broken(ctx: HookContext) -> None:
        raise OSError("cannot drop")

    trial = run(a_scenario(GOOD, teardown=(broken, lambda ctx: done.append(1))))
    assert trial.error is not None
    assert (trial.error.kind, trial.error.message) == (ErrorKind.CONFIG, "teardown failed: OSError: cannot drop")
    assert done == [1]


def test_what_was_set_up_is_torn_down_when_the_trial_is_cancelled_or_played_again() -> None:
    done: list[str] = []

    class Disturbed:
        name = "disturbed"
        answers_own_tools = keeps_conversation = True

        def open(self, start: Any) -> "Disturbed":
            return self

        async def respond(self, messages: Any, *, timeout: float) -> Any:
            if len(done) == 0:
                raise RepeatTrial("another blocked")
            await asyncio.Event().wait()

        async def close(self) -> None: ...

    prepared = a_scenario(GOOD, agent=Disturbed(), teardown=(lambda ctx: done.append("torn down"),))

    async def play() -> None:
        with pytest.raises(RepeatTrial):
            await run_trial(prepared, 0, TrialSettings())
        task = asyncio.create_task(run_trial(prepared, 0, TrialSettings()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert done == ["torn down", "torn down"]


# The border.


@pytest.mark.parametrize("error", [RuntimeError("bug"), SystemExit(0), asyncio.CancelledError(), BaseException()])
def test_whatever_else_breaks_is_an_infra_error_of_this_trial_alone(error: BaseException) -> None:
    def make_user(index: int, seed: int) -> Any:
        raise error

    trial = run(a_scenario(GOOD, make_user=make_user))
    assert trial.error is not None
    assert (trial.status, trial.error.kind) == (Status.ERRORED, ErrorKind.INFRA)
    assert "make_user" in (trial.error.traceback or "")


def test_a_trial_has_a_seed_of_its_own_that_is_the_same_in_the_next_run() -> None:
    key = ScenarioKey("suite", "scenario")
    seeds = [trial_seed(1, key, index) for index in range(5)]
    assert len(set(seeds)) == 5
    assert seeds == [trial_seed(1, key, index) for index in range(5)]
    assert trial_seed(2, key, 0) != seeds[0]
    assert run(a_scenario(GOOD), settings=TrialSettings(seed=1), index=2).seed == seeds[2]


# Secrets.


def redacting() -> TrialSettings:
    return TrialSettings(redaction=Redaction([Secret("KEY", SECRET)]))


def everything(trial: Trial) -> str:
    return json.dumps(repr(trial))


def test_secrets_are_gone_before_an_evaluator_sees_the_trial() -> None:
    seen = Says(EvalResult(passed=True))

    def agent(ctx: Any) -> str:
        ctx.call_tool("pay", {"card": {"number": [SECRET]}})
        return f"your key is {SECRET}"

    mocks = {"pay": {"returns": {"echo": [f"<{SECRET}>"]}}}
    trial = run(a_scenario(seen, agent=agent, mocks=mocks), settings=redacting())
    assert seen.asked[0].reply == "your key is [redacted]"
    assert trial.transcript.tool_calls == (
        ToolCall("pay", {"card": {"number": ["[redacted]"]}}, {"echo": ["<[redacted]>"]}),
    )
    assert SECRET not in everything(trial)


def test_secrets_in_errors_and_tracebacks_are_gone() -> None:
    def agent(input: str) -> str:
        raise ValueError(f"401 for {SECRET}")

    trial = run(a_scenario(GOOD, agent=agent), settings=redacting())
    assert trial.error is not None
    assert trial.error.message == "ValueError: 401 for [redacted]"
    assert SECRET not in everything(trial)


def test_secrets_in_what_evaluators_judges_and_hooks_raise_are_gone() -> None:
    def leaking(ctx: HookContext) -> None:
        raise OSError(f"cannot use {SECRET}")

    error = ErrorInfo(kind=ErrorKind.JUDGE, message=f"401 for {SECRET}")
    for prepared in (
        a_scenario(Says(ValueError(SECRET))),
        a_scenario(GOOD, judge=Judge(Judgement(error=error))),
        a_scenario(GOOD, judge=Judge(ValueError(SECRET))),
        a_scenario(GOOD, setup=(leaking,)),
        a_scenario(GOOD, teardown=(leaking,)),
    ):
        trial = run(prepared, settings=redacting())
        assert trial.status is Status.ERRORED
        assert SECRET not in everything(trial)
