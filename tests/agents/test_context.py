"""What an agent has at hand during a trial: ctx, and tools that know when they are on trial."""

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest

import seatrial
from seatrial.agents.context import AgentContext, running_agents, tool
from seatrial.agents.resolve import resolve_agent
from seatrial.errors import ToolError
from seatrial.evaluators.matchers import matches
from seatrial.model.conversation import ErrorKind, ToolCall
from seatrial.model.protocols import AgentReply, TrialStart
from seatrial.model.results import AgentFailure, TrialError
from seatrial.tools.tool_box import MockSet

MOCKS = {
    "lookup": {"returns": {"status": "sent", "items": [1]}},
    "refund": {"raises": "card expired"},
    "slow": {"returns": "late", "delay_ms": 60_000},
}


class Trial:
    """One trial with an agent: what it replied, and the calls that were kept."""

    def __init__(self, target: Any, *, mocks: dict[str, Any] | None = None) -> None:
        self.calls: list[ToolCall] = []
        self.target = target
        mocks = MOCKS if mocks is None else mocks
        # As the scenarios of a suite have it: who mocks no tool lets them run.
        unmocked: Any = "error" if mocks else "passthrough"
        self._mocks = MockSet.parse(mocks, matches=matches, unmocked_tools=unmocked)

    async def play(self, *, timeout: float = 10.0) -> str | None:
        return (await self.reply(timeout=timeout)).reply

    async def reply(self, *, timeout: float = 10.0) -> AgentReply:
        clock = iter(range(10_000))
        start = TrialStart(
            trial_id="t",
            scenario="s",
            index=0,
            seed=1,
            tools=self._mocks.open("t", 1),
            record=self.calls.append,
            turn=lambda: 0,
            elapsed_ms=lambda: float(next(clock)),
            tool_schemas=({"name": "lookup"},),
        )
        agent = resolve_agent(self.target)
        session = agent.open(start)
        try:
            return await session.respond([{"role": "user", "content": "hi"}], timeout=timeout)
        finally:
            await session.close()
            await agent.close()

    def run(self, *, timeout: float = 10.0) -> str | None:
        return asyncio.run(self.play(timeout=timeout))


# ctx.call_tool


def test_a_sync_agent_calls_a_tool_plainly() -> None:
    trial = Trial(lambda ctx: str(ctx.call_tool("lookup", {"id": 1})["status"]))
    assert trial.run() == "sent"
    assert trial.calls == [ToolCall("lookup", {"id": 1}, {"status": "sent", "items": [1]})]


def test_an_async_agent_awaits_the_tool() -> None:
    async def agent(ctx: AgentContext) -> str:
        return str((await ctx.call_tool("lookup", id=1))["status"])

    trial = Trial(agent)
    assert trial.run() == "sent"
    assert trial.calls[0].arguments == {"id": 1}


def test_an_async_agent_may_call_a_tool_plainly_from_a_thread() -> None:
    async def agent(ctx: AgentContext) -> str:
        found = await asyncio.to_thread(ctx.call_tool, "lookup", {"id": 1})
        return str(found["status"])

    assert Trial(agent).run() == "sent"


def test_a_sync_agent_may_await_a_tool_on_a_loop_of_its_own() -> None:
    async def inner(ctx: AgentContext) -> str:
        return str((await ctx.call_tool("lookup"))["status"])

    assert Trial(lambda ctx: asyncio.run(inner(ctx))).run() == "sent"


def test_a_tool_error_is_seen_by_the_agent_and_recorded() -> None:
    def agent(ctx: AgentContext) -> str:
        try:
            ctx.call_tool("refund", {"id": 1})
        except ToolError as error:
            return f"sorry: {error}"
        return "refunded"

    trial = Trial(agent)
    assert trial.run() == "sorry: card expired"
    assert trial.calls == [ToolCall("refund", {"id": 1}, error="card expired")]


@pytest.mark.parametrize("swallow", [Exception, BaseException])
def test_an_unmocked_tool_ends_the_trial_even_if_the_agent_swallows_it(swallow: type[BaseException]) -> None:
    def agent(ctx: AgentContext) -> str:
        try:
            ctx.call_tool("delete_all", {})
        except swallow:
            pass
        return "all is well"

    trial = Trial(agent)
    with pytest.raises(TrialError, match="Tool 'delete_all' was called but no mock is defined") as caught:
        trial.run()
    assert caught.value.info.kind is ErrorKind.TOOL
    assert [call.name for call in trial.calls] == ["delete_all"]


def test_an_unmocked_tool_ends_the_trial_even_if_the_agent_raises_something_else_for_it() -> None:
    def agent(ctx: AgentContext) -> str:
        try:
            return str(ctx.call_tool("delete_all", {}))
        except Exception as error:
            raise RuntimeError("wrapped") from error

    with pytest.raises(TrialError, match="no mock is defined") as caught:
        Trial(agent).run()
    assert not isinstance(caught.value, AgentFailure)


def test_calls_carry_when_they_were_made_and_how_long_they_took() -> None:
    def agent(ctx: AgentContext) -> str:
        ctx.call_tool("lookup", {"id": 1})
        ctx.call_tool("lookup", {"id": 2})
        return "done"

    trial = Trial(agent)
    trial.run()
    first, second = trial.calls
    assert first.started_ms is not None
    assert second.started_ms is not None
    assert first.started_ms < second.started_ms
    assert (first.duration_ms or 0) > 0


def test_what_the_agent_does_to_arguments_and_results_does_not_change_the_evidence() -> None:
    def agent(ctx: AgentContext) -> str:
        arguments = {"ids": [1]}
        found = ctx.call_tool("lookup", arguments)
        arguments["ids"].append(2)
        found["items"].clear()
        return "done"

    trial = Trial(agent)
    trial.run()
    assert trial.calls == [ToolCall("lookup", {"ids": [1]}, {"status": "sent", "items": [1]})]


def test_a_call_that_the_agent_gave_up_is_recorded() -> None:
    async def agent(ctx: AgentContext) -> str:
        try:
            await asyncio.wait_for(ctx.call_tool("slow"), 0.02)
        except TimeoutError:
            return "gave up"
        return "waited"

    trial = Trial(agent)
    assert trial.run() == "gave up"
    assert [(call.name, call.error) for call in trial.calls] == [("slow", "cancelled by the agent")]


def test_a_call_that_the_agent_did_not_wait_for_is_recorded() -> None:
    kept = []

    async def agent(ctx: AgentContext) -> str:
        kept.append(asyncio.ensure_future(ctx.call_tool("pause")))
        await asyncio.sleep(0)
        return "did not wait"

    trial = Trial(agent, mocks={"pause": {"returns": 1, "delay_ms": 20}})
    assert trial.run() == "did not wait"
    assert trial.calls == [ToolCall("pause", {}, 1)]


def test_a_call_after_the_trials_end_is_refused() -> None:
    kept: list[AgentContext] = []

    def agent(ctx: AgentContext) -> str:
        kept.append(ctx)
        return "done"

    trial = Trial(agent)
    trial.run()
    with pytest.raises(TrialError, match="tool 'lookup' was called for trial t after it had ended"):
        kept[0].call_tool("lookup")
    assert trial.calls == []


def test_the_context_tells_which_tools_there_are() -> None:
    trial = Trial(lambda ctx: f"{ctx.tools[0]['name']} {ctx.knows_tool('lookup')} {ctx.knows_tool('other')}")
    assert trial.run() == "lookup True False"


# Wrapped tools


@tool
def lookup(id: int, verbose: bool = False) -> dict[str, Any]:
    """Find it."""
    return {"real": id}


@tool
async def lookup_later(id: int) -> dict[str, Any]:
    return {"real": id}


@tool
def send(to: str, *copies: str, **headers: str) -> str:
    return f"sent to {to}"


@tool
def fail(why: str) -> None:
    raise OSError(why)


def test_the_wrapper_is_a_public_name() -> None:
    assert seatrial.tool is tool


def test_outside_of_a_trial_a_wrapped_tool_is_the_function_it_was() -> None:
    assert lookup(3) == {"real": 3}
    assert asyncio.run(lookup_later(id=4)) == {"real": 4}
    assert (lookup.__name__, lookup.__doc__) == ("lookup", "Find it.")
    with pytest.raises(OSError, match="because"):
        fail("because")


def test_a_mocked_tool_is_answered_from_the_mock() -> None:
    trial = Trial(lambda input: str(lookup(7)["status"]))
    assert trial.run() == "sent"
    assert trial.calls == [ToolCall("lookup", {"id": 7}, {"status": "sent", "items": [1]})]


def test_a_mocked_async_tool_is_answered_from_the_mock() -> None:
    async def agent(input: str) -> str:
        return str(await lookup_later(7))

    trial = Trial(agent, mocks={"lookup_later": {"returns": "mocked"}})
    assert trial.run() == "mocked"
    assert trial.calls == [ToolCall("lookup_later", {"id": 7}, "mocked")]


def test_a_sync_tool_of_an_async_agent_is_answered_from_the_mock() -> None:
    async def agent(input: str) -> str:
        return str(lookup(7)["status"])

    assert Trial(agent).run() == "sent"


def test_an_unmocked_tool_runs_for_real_and_is_recorded() -> None:
    trial = Trial(lambda input: send("a", "b", "c", subject="hi"), mocks={})
    assert trial.run() == "sent to a"
    assert trial.calls == [ToolCall("send", {"to": "a", "copies": ["b", "c"], "subject": "hi"}, "sent to a")]


def test_a_real_tool_that_ran_is_marked_and_a_mocked_one_is_not() -> None:
    real, mocked = Trial(lambda input: send("a"), mocks={}), Trial(lambda input: str(lookup(7)))
    real.run()
    mocked.run()
    assert [call.real for call in (*real.calls, *mocked.calls)] == [True, False]


def test_beside_mocks_a_wrapped_tool_without_one_never_runs() -> None:
    ran = []

    @tool
    def send_email(to: str) -> str:
        ran.append(to)
        return "sent"

    trial = Trial(lambda input: send_email("a"))
    with pytest.raises(TrialError, match="Tool 'send_email' was called but no mock is defined") as raised:
        trial.run()
    assert raised.value.info.kind is ErrorKind.TOOL
    assert "send_email: {returns: {}}" in (raised.value.info.hint or "")
    assert (ran, [call.name for call in trial.calls]) == ([], ["send_email"])


def test_beside_mocks_an_async_wrapped_tool_without_one_never_runs() -> None:
    ran = []

    @tool
    async def send_email(to: str) -> str:
        ran.append(to)
        return "sent"

    async def agent(input: str) -> str:
        try:
            return await send_email("a")
        except Exception:
            return "sent all the same"

    with pytest.raises(TrialError, match="Tool 'send_email' was called but no mock is defined"):
        Trial(agent).run()
    assert ran == []


def test_a_real_async_tool_is_recorded() -> None:
    async def agent(input: str) -> str:
        return str(await lookup_later(2))

    trial = Trial(agent, mocks={})
    assert trial.run() == "{'real': 2}"
    assert trial.calls == [ToolCall("lookup_later", {"id": 2}, {"real": 2})]


def test_a_real_tool_that_raises_is_recorded_with_its_error() -> None:
    def agent(input: str) -> str:
        try:
            fail("disk full")
        except OSError:
            return "sorry"
        return "fine"

    trial = Trial(agent, mocks={})
    assert trial.run() == "sorry"
    assert trial.calls == [ToolCall("fail", {"why": "disk full"}, error="OSError: disk full")]


def test_a_real_async_tool_that_is_cancelled_is_recorded() -> None:
    @tool
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def agent(input: str) -> str:
        try:
            await asyncio.wait_for(wait_for_ever(), 0.02)
        except TimeoutError:
            return "gave up"
        return "waited"

    trial = Trial(agent, mocks={})
    assert trial.run() == "gave up"
    assert [call.name for call in trial.calls] == ["wait_for_ever"]


def test_a_real_tool_that_the_agent_does_not_wait_for_is_recorded() -> None:
    begun, released = threading.Event(), threading.Event()

    @tool
    def refund(order: str) -> None:
        begun.set()
        released.wait(10)

    @tool
    async def cancel(order: str) -> None:
        await asyncio.sleep(10)

    async def agent(input: str) -> str:
        left = [asyncio.create_task(cancel("A-1")), asyncio.create_task(asyncio.to_thread(refund, "A-2"))]
        await asyncio.to_thread(begun.wait, 10)
        return f"I left {len(left)} things to be done."

    trial = Trial(agent, mocks={})
    try:
        trial.run()
    finally:
        released.set()
    assert [(call.name, call.arguments) for call in trial.calls] == [
        ("cancel", {"order": "A-1"}),
        ("refund", {"order": "A-2"}),
    ]
    assert {call.error for call in trial.calls} == {"not finished when the turn ended"}


def test_a_real_tool_that_changes_what_it_is_given_does_not_change_the_evidence() -> None:
    @tool
    def refund(order: dict[str, Any]) -> None:
        order.pop("amount")

    def agent(input: str) -> str:
        refund({"id": "A-1", "amount": 100})
        return "done"

    trial = Trial(agent, mocks={})
    trial.run()
    assert trial.calls[0].arguments == {"order": {"id": "A-1", "amount": 100}}


def test_a_call_between_two_turns_belongs_to_the_one_before_it() -> None:
    replied, called = threading.Event(), threading.Event()

    async def agent(messages: list[Any], ctx: AgentContext) -> str:
        async def later() -> None:
            await asyncio.to_thread(replied.wait, 10)
            await ctx.call_tool("refund")
            called.set()

        if len(messages) == 1:
            await ctx.call_tool("lookup")
            agent.left = asyncio.create_task(later())  # type: ignore[attr-defined]
        return "done"

    def user(conversation: list[Any]) -> str | None:
        if conversation:
            replied.set()
            called.wait(10)
        return None if len(conversation) == 2 else "hi"

    scenario = seatrial.Scenario(
        name="late",
        user=user,
        trials=1,
        mocks={"lookup": {"returns": 1}, "refund": {"returns": 2}},
        expect={"tool_calls_exclude": ["refund"]},
    )
    report = seatrial.run(scenario, agent=agent, store=None)
    (trial,) = report.trials()
    assert not report.passed
    assert [[call.name for call in turn.tool_calls or ()] for turn in trial.transcript.turns] == [
        ["lookup", "refund"],
        [],
    ]


def test_a_mock_may_call_the_real_tool_that_it_stands_in_for() -> None:
    def pretend(args: dict[str, Any], ctx: Any) -> Any:
        return {"mocked": lookup(args["id"])}

    trial = Trial(lambda input: str(lookup(5)), mocks={"lookup": pretend})
    assert trial.run() == "{'mocked': {'real': 5}}"
    assert len(trial.calls) == 1


def test_a_method_can_be_a_tool_and_its_self_is_no_argument() -> None:
    class Shop:
        @tool
        def price(self, item: str) -> int:
            return 3

    trial = Trial(lambda input: str(Shop().price("tea")), mocks={})
    assert trial.run() == "3"
    assert trial.calls == [ToolCall("price", {"item": "tea"}, 3)]


def test_a_tool_in_the_executor_of_the_loop_knows_that_it_is_on_trial() -> None:
    async def agent(input: str) -> str:
        found = await asyncio.get_running_loop().run_in_executor(None, functools.partial(lookup, 7))
        return str(found["status"])

    assert Trial(agent).run() == "sent"


def in_thread_of_own(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def reply_of(trial: Trial) -> AgentReply:
    return asyncio.run(trial.reply())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("work", [lambda: send("ann"), lambda: asyncio.run(lookup_later(7))], ids=["sync", "async"])
def test_a_tool_in_a_thread_that_knows_of_no_trial_leaves_the_calls_unrecorded(work: Callable[[], Any]) -> None:
    trial = Trial(lambda input: str(in_thread_of_own(work)), mocks={})
    assert reply_of(trial).hides_calls
    assert trial.calls == []


def test_a_tool_in_a_thread_that_knows_of_no_trial_is_warned_of_with_what_to_do() -> None:
    with pytest.warns(RuntimeWarning, match=r"the tool 'send' was called in a thread .*copy_context\(\).run"):
        reply_of(Trial(lambda input: str(in_thread_of_own(lambda: send("ann"))), mocks={}))


def test_a_tool_in_a_thread_that_was_given_the_context_is_recorded() -> None:
    trial = Trial(lambda input: str(in_thread_of_own(partial(copy_context().run, send, "ann"))), mocks={})
    assert not reply_of(trial).hides_calls
    assert [call.name for call in trial.calls] == ["send"]


def test_the_calls_of_one_turn_in_a_thread_of_its_own_do_not_leave_the_next_unrecorded() -> None:
    assert not running_agents
    assert in_thread_of_own(lambda: send("ann")) == "sent to ann"
    assert not reply_of(Trial(lambda input: str(send("bob")), mocks={})).hides_calls


def test_what_a_mock_or_the_runner_calls_is_no_call_of_an_agent() -> None:
    async def play() -> AgentReply:
        trial = Trial(lambda ctx: str(ctx.call_tool("mocked")), mocks={"mocked": lambda args, ctx: send("ann")})
        playing = asyncio.ensure_future(trial.reply())
        while not playing.done():
            send("the runner")
            await asyncio.sleep(0)
        return await playing

    assert not in_thread_of_own(lambda: asyncio.run(play())).hides_calls


def test_two_trials_at_once_keep_their_calls_apart() -> None:
    gate = threading.Barrier(2)

    def agent_of(number: int) -> Callable[[str], str]:
        def agent(input: str) -> str:
            gate.wait(10)
            return str(send(f"trial {number}"))

        return agent

    async def play() -> list[Trial]:
        trials = [Trial(agent_of(number), mocks={}) for number in (1, 2)]
        await asyncio.gather(*(trial.play() for trial in trials))
        return trials

    assert [[call.arguments["to"] for call in trial.calls] for trial in asyncio.run(play())] == [
        ["trial 1"],
        ["trial 2"],
    ]


def test_a_wrapped_tool_after_the_trials_end_is_refused() -> None:
    go, refused = threading.Event(), []

    async def agent(input: str) -> str:
        def late() -> None:
            go.wait(10)
            try:
                send("nobody")
            except TrialError as error:
                refused.append(str(error))
            done.set()

        kept.append(asyncio.get_running_loop().run_in_executor(None, late))
        return "done"

    kept: list[Any] = []
    done = threading.Event()
    trial = Trial(agent, mocks={})
    trial.run()
    go.set()
    assert done.wait(10)
    assert refused == ["tool 'send' was called for trial t after it had ended, so the call is in no transcript"]


def test_a_result_that_holds_itself_is_marked_where_it_does() -> None:
    @tool
    def loop() -> list[Any]:
        held: list[Any] = []
        held.append(held)
        return held

    trial = Trial(lambda input: str(len(loop())), mocks={})
    assert trial.run() == "1"
    assert trial.calls[0].result == ["[contains itself]"]
