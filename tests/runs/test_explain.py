"""Agents with known mistakes: `explain` names each mistake once, at its step."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial.model.causes import Cause, DivergenceKind

KIND = DivergenceKind
ORDER = {"status": "shipped", "previous": "packed", "total": 49}
MOCKS = {
    "verify": {"returns": "ok"},
    "lookup_order": {"returns": ORDER},
    "track": {"returns": {"place": "Hamburg"}},
    "search": {"returns": []},
    "refund": {"when": [{"args": {"order_id": "W1"}, "returns": "done"}], "raises": "no such order"},
    "pay": {"sequence": [{"raises": "bank is offline"}, {"returns": "paid"}]},
}
Play = Callable[[Any, Any, bool], str]


def _skipped_call(ctx: Any, messages: Any, fails: bool) -> str:
    if not fails:
        ctx.call_tool("verify")
    ctx.call_tool("refund", order_id="W1")
    return "refused" if fails else "refunded"


def _wrong_argument(ctx: Any, messages: Any, fails: bool) -> str:
    ctx.call_tool("lookup_order", order_id="W1")
    try:
        ctx.call_tool("refund", order_id="W2" if fails else "W1")
    except seatrial.ToolError:
        return "refused"
    return "refunded"


def _ignored_error(ctx: Any, messages: Any, fails: bool) -> str:
    try:
        ctx.call_tool("pay")
    except seatrial.ToolError:
        if not fails:
            return str(ctx.call_tool("pay"))
    return "all done"


def _wrong_order(ctx: Any, messages: Any, fails: bool) -> str:
    for name in ("refund", "verify") if fails else ("verify", "refund"):
        ctx.call_tool(name, {"order_id": "W1"} if name == "refund" else {})
    return "refused" if fails else "refunded"


def _loop(ctx: Any, messages: Any, fails: bool) -> str:
    for _ in range(6 if fails else 1):
        ctx.call_tool("search", text="boots")
    return "found nothing" if fails else "found boots"


def _early_stop(ctx: Any, messages: Any, fails: bool) -> str:
    ctx.call_tool("lookup_order", order_id="W1")
    if fails:
        return "please wait"
    ctx.call_tool("track", order_id="W1")
    return "it is in Hamburg"


def _wrong_tool(ctx: Any, messages: Any, fails: bool) -> str:
    ctx.call_tool("lookup_order", order_id="W1")
    found = ctx.call_tool("search" if fails else "track", order_id="W1")
    return "unknown" if fails else f"it is in {found['place']}"


def _misread(ctx: Any, messages: Any, fails: bool) -> str:
    order = ctx.call_tool("lookup_order", order_id="W1")
    return f"It is {order['previous' if fails else 'status']}."


def _invented(ctx: Any, messages: Any, fails: bool) -> str:
    order = ctx.call_tool("lookup_order", order_id="W1")
    return f"It costs {'38.5' if fails else order['total']} euros."


def _forgotten(ctx: Any, messages: Any, fails: bool) -> str:
    if len(messages) == 1:
        return "Hello"
    return "What is your name?" if fails else "Your name is Ada"


def _timeout(ctx: Any, messages: Any, fails: bool) -> str:
    ctx.call_tool("verify")
    if fails:
        import threading

        threading.Event().wait(20)
    return "refunded"


def _exception(ctx: Any, messages: Any, fails: bool) -> str:
    order = ctx.call_tool("lookup_order", order_id="W1")
    return str(order["shipped_on" if fails else "status"])


PLANTED: dict[str, tuple[Play, str, DivergenceKind, int, int | None]] = {
    # name: agent, text of a right reply, kind, turn, step
    "skipped call": (_skipped_call, "refunded", KIND.MISSING_CALL, 0, 0),
    "wrong argument": (_wrong_argument, "refunded", KIND.ARGUMENTS, 0, 1),
    "ignored tool error": (_ignored_error, "paid", KIND.IGNORED_ERROR, 0, 1),
    "wrong order": (_wrong_order, "refunded", KIND.ORDER, 0, 0),
    "loop": (_loop, "boots", KIND.LOOP, 0, 1),
    "early stop": (_early_stop, "Hamburg", KIND.STOPPED, 0, 1),
    "wrong tool": (_wrong_tool, "Hamburg", KIND.WRONG_TOOL, 0, 1),
    "misread result": (_misread, "shipped", KIND.MISREAD, 0, None),
    "invented value": (_invented, "49", KIND.INVENTED, 0, None),
    "forgotten turn": (_forgotten, "Ada", KIND.FORGOTTEN, 1, None),
    "timeout": (_timeout, "refunded", KIND.TIMEOUT, 0, 1),
    "exception": (_exception, "shipped", KIND.EXCEPTION, 0, 1),
}


def flaky(ctx: Any, messages: Any) -> str:
    """Fails in every second trial, with the mistake that is the scenario's name."""
    fails = int(ctx.trial_id.rpartition("-")[2]) % 2 == 1
    return PLANTED[ctx.scenario][0](ctx, messages, fails)


def _scenario(name: str, right: str, **more: Any) -> seatrial.Scenario:
    says = seatrial.Contains(all_of=[right])
    if name == "forgotten turn":
        turns = [{"user": "I am Ada."}, {"user": "What is my name?", "expect": {"reply_contains_all": [right]}}]
        return seatrial.Scenario(name=name, turns=turns, **more)
    return seatrial.Scenario(name=name, input="Where is W1?", scorers=[says], mocks=MOCKS, **more)


def explain(*scenarios: seatrial.Scenario, agent: Any = flaky) -> list[Cause]:
    suite = seatrial.Suite(name="planted", scenarios=list(scenarios))
    return list(seatrial.run(suite, agent=agent, store=None).record.causes)


def test_each_of_twelve_planted_mistakes_is_one_cause_at_its_step_among_flaky_passes() -> None:
    causes = explain(
        *(_scenario(name, right, trials=4, timeout_seconds=0.4) for name, (_, right, *_) in PLANTED.items())
    )
    found = {cause.scenarios[0][0].name: _where(cause) for cause in causes}
    assert found == {name: (kind, turn, step) for name, (_, _, kind, turn, step) in PLANTED.items()}
    assert [cause.trials for cause in causes] == [2] * 12
    assert all(cause.divergence.against.startswith("trial-") for cause in causes)


def _where(cause: Cause) -> tuple[DivergenceKind, int | None, int | None]:
    return cause.divergence.kind, cause.divergence.turn, cause.divergence.step


def test_several_mistakes_in_one_scenario_are_several_causes() -> None:
    def agent(ctx: Any, messages: Any) -> str:
        number = int(ctx.trial_id.rpartition("-")[2])
        return (_skipped_call, _wrong_order)[number % 2](ctx, messages, number > 2)

    causes = explain(_scenario("refund", "refunded", trials=6), agent=agent)
    assert {(cause.divergence.kind, cause.trials) for cause in causes} == {(KIND.MISSING_CALL, 2), (KIND.ORDER, 2)}


def test_one_mistake_in_two_scenarios_is_one_cause_with_ids_masked() -> None:
    def agent(ctx: Any, input: str) -> str:
        if ctx.trial_id.endswith("-1"):
            ctx.call_tool("lookup_order", order_id=input)
            return f"order {input} is shipped"
        return "I do not know"

    causes = explain(
        *(
            seatrial.Scenario(
                name=order, input=order, scorers=[seatrial.Contains(all_of=[order])], mocks=MOCKS, trials=3
            )
            for order in ("W1", "W2")
        ),
        agent=agent,
    )
    assert [(cause.trials, len(cause.scenarios)) for cause in causes] == [(4, 2)]
    assert causes[0].symptom == "all_of: Reply missing required strings: ['#']"


def test_an_argument_that_passed_trials_fill_differently_is_not_the_cause() -> None:
    def agent(ctx: Any, input: str) -> str:
        number = int(ctx.trial_id.rpartition("-")[2])
        ctx.call_tool("search", text=f"words of trial {number}")
        if number > 2:
            return "nothing"
        ctx.call_tool("track", order_id="W1")
        return "it is in Hamburg"

    causes = explain(_scenario("free text", "Hamburg", trials=4), agent=agent)
    assert [(_where(cause), cause.trials) for cause in causes] == [((KIND.STOPPED, 0, 1), 2)]


@pytest.mark.parametrize(
    ("calls", "mode", "found"),
    [
        ((("refund", "W1"),), "in_order", (KIND.MISSING_CALL, 0, 0)),
        ((("refund", "W1"), ("verify", "W1")), "in_order", (KIND.ORDER, 0, 0)),
        ((("verify", "W1"), ("refund", "W2")), "in_order", (KIND.ARGUMENTS, 0, 1)),
        ((("verify", "W1"), ("track", "W1"), ("refund", "W2")), "in_order", (KIND.ARGUMENTS, 0, 2)),
        ((("verify", "W1"), ("refund", "W1"), ("track", "W1")), "strict", (KIND.EXTRA_CALL, 0, 2)),
    ],
)
def test_without_a_passed_trial_the_trajectory_shows_what_differs(
    calls: tuple[tuple[str, str], ...], mode: Any, found: tuple[DivergenceKind, int, int]
) -> None:
    def agent(ctx: Any, input: str) -> str:
        for name, order in calls:
            with contextlib.suppress(seatrial.ToolError):
                ctx.call_tool(name, order_id=order)
        return "refunded"

    trajectory = seatrial.Trajectory(["verify", {"name": "refund", "args": {"order_id": "W1"}}], mode=mode)
    (cause,) = explain(
        seatrial.Scenario(name="refund", input="x", trajectory=trajectory, mocks=MOCKS),
        agent={"type": "python", "target": agent, "tools": "all_wrapped"},
    )
    assert (_where(cause), cause.divergence.against) == (found, "the trajectory")


def test_without_a_passed_trial_a_loop_and_an_ignored_error_are_still_found() -> None:
    def agent(ctx: Any, input: str) -> str:
        return (_loop if ctx.scenario == "loop" else _ignored_error)(ctx, (), True)

    causes = explain(_scenario("loop", "boots"), _scenario("pay", "paid"), agent=agent)
    assert {_where(cause) for cause in causes} == {(KIND.LOOP, 0, 1), (KIND.IGNORED_ERROR, 0, 0)}


def test_a_passed_trial_of_an_earlier_run_shows_what_differs(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    scenario = _scenario("wrong tool", "Hamburg")
    good = seatrial.run(scenario, agent=lambda ctx, input: _wrong_tool(ctx, (), False), store=store)
    bad = seatrial.run(scenario, agent=lambda ctx, input: _wrong_tool(ctx, (), True), store=store)
    assert good.passed
    assert not bad.passed
    (cause,) = bad.record.causes
    assert (_where(cause), cause.divergence.passed_run) == ((KIND.WRONG_TOOL, 0, 1), good.run.id)


def test_an_edited_scenario_is_not_compared_with_its_earlier_runs(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    assert seatrial.run(_scenario("early stop", "Hamburg"), agent=lambda input: "Hamburg", store=store).passed
    report = seatrial.run(_scenario("early stop", "Bremen"), agent=lambda input: "Hamburg", store=store)
    assert not report.passed
    assert report.record.causes[0].divergence.kind is KIND.UNKNOWN


def test_a_scenario_that_failed_without_a_failed_trial_is_a_cause_too() -> None:
    scenario = seatrial.Scenario(name="greets", input="x", gate={"pass_rate": 0.9, "confidence": 0.95})
    (cause,) = explain(scenario, agent=lambda input: "hello")
    assert "clean trials are needed" in cause.symptom
    assert cause.trials == 0


def test_the_cause_of_an_exception_names_the_line_of_the_agent() -> None:
    (cause,) = explain(_scenario("exception", "shipped"), agent=flaky)
    assert cause.place is not None
    assert "test_explain.py" in cause.place
    assert cause.place.endswith("in _exception")


def test_a_failure_that_the_threshold_tolerates_comes_last_and_does_not_count() -> None:
    causes = explain(
        _scenario("misread result", "shipped", trials=4, threshold=0.5), _scenario("loop", "boots", trials=2)
    )
    assert [(cause.scenarios[0][0].name, cause.counts) for cause in causes] == [
        ("loop", True),
        ("misread result", False),
    ]
