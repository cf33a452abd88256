"""Mocks that are Python functions."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError
from seatrial.tools.mocks import MockContext
from seatrial.tools.tool_box import MockedTools, MockSet


def tools(**mocks: Any) -> MockedTools:
    return MockSet.parse(mocks, matches=lambda expected, actual: expected == actual).open("trial-1", 7)


def call(box: MockedTools, name: str = "tool", arguments: Any = None, *, turn: int = 0) -> ToolAnswer:
    return asyncio.run(box.call(name, arguments, turn=turn))


def test_a_function_answers_with_what_it_returns():
    assert call(tools(tool=lambda args, ctx: args["a"] + 1), arguments={"a": 1}).result == 2


def test_an_async_function_is_awaited():
    async def answer(args: Any, ctx: MockContext) -> int:
        await asyncio.sleep(0)
        return 3

    assert call(tools(tool=answer)).result == 3


def test_an_object_whose_call_is_async_is_awaited():
    class Answer:
        async def __call__(self, args: Any, ctx: MockContext) -> int:
            return 4

    assert call(tools(tool=Answer())).result == 4


def test_a_function_by_name_is_found():
    assert call(tools(tool={"python": "operator:is_"}), arguments={}).result is False


def test_the_context_tells_about_the_call():
    seen: list[MockContext] = []
    box = tools(tool=lambda args, ctx: seen.append(ctx))
    call(box)
    call(box, turn=2)
    assert [(ctx.call_index, ctx.turn_index) for ctx in seen] == [(0, 0), (1, 2)]
    assert (seen[0].tool, seen[0].trial_id, seen[0].seed) == ("tool", "trial-1", 7)


def test_mocks_of_a_trial_share_its_state():
    def save(args: Any, ctx: MockContext) -> None:
        ctx.state["saved"] = args["x"]

    box = tools(save=save, load=lambda args, ctx: ctx.state["saved"])
    call(box, "save", {"x": 5})
    assert call(box, "load").result == 5
    assert box.state == {"saved": 5}


def test_changing_a_result_does_not_change_the_state():
    box = tools(tool=lambda args, ctx: ctx.state.setdefault("orders", [1]))
    call(box).result.append(2)
    assert box.state == {"orders": [1]}


def test_changing_the_arguments_does_not_change_the_record():
    arguments = {"items": [1]}
    call(tools(tool=lambda args, ctx: args["items"].clear()), arguments=arguments)
    assert arguments == {"items": [1]}


def test_a_tool_error_is_one_that_the_agent_sees():
    def refuse(args: Any, ctx: MockContext) -> None:
        raise ToolError("sold out")

    assert call(tools(tool=refuse)) == ToolAnswer(error="sold out")


def test_any_other_exception_is_a_bug_in_the_mock():
    def broken(args: Any, ctx: MockContext) -> Any:
        return args["missing"]

    with pytest.raises(TrialError) as caught:
        call(tools(tool=broken), arguments={})
    info = caught.value.info
    assert info.kind is ErrorKind.TOOL
    assert "raised KeyError: 'missing'" in info.message
    assert f"test_python_mocks.py:{broken.__code__.co_firstlineno + 1}" in info.message
    assert "KeyError: 'missing'" in (info.traceback or "")


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()])
def test_a_mock_that_tries_to_leave_is_a_bug_in_the_mock(error: BaseException):
    def leave(args: Any, ctx: MockContext) -> None:
        raise error

    with pytest.raises(TrialError, match="raised"):
        call(tools(tool=leave))


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError()])
def test_an_async_mock_that_tries_to_leave_is_a_bug_in_the_mock(error: BaseException):
    async def leave(args: Any, ctx: MockContext) -> None:
        raise error

    with pytest.raises(TrialError, match="raised"):
        call(tools(tool=leave))


def test_a_result_that_cannot_be_copied_is_a_bug_in_the_mock():
    with pytest.raises(TrialError, match="cannot pickle"):
        call(tools(tool=lambda args, ctx: threading.Lock()))


def test_a_mock_that_blocks_can_be_timed_out():
    release = threading.Event()

    async def impatient() -> None:
        box = tools(tool=lambda args, ctx: release.wait())
        async with asyncio.timeout(0.01):
            await box.call("tool", {}, turn=0)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    release.set()


def test_a_blocking_mock_does_not_stop_the_loop():
    release = threading.Event()

    async def both() -> Any:
        box = tools(slow=lambda args, ctx: release.wait(5), quick=lambda args, ctx: release.set())
        answers = await asyncio.gather(box.call("slow", {}, turn=0), box.call("quick", {}, turn=0))
        return answers[0].result

    assert asyncio.run(both()) is True


def test_a_mock_sees_the_context_variables_of_its_caller():
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

    async def ask() -> ToolAnswer:
        who.set("me")
        return await tools(tool=lambda args, ctx: who.get()).call("tool", {}, turn=0)

    assert asyncio.run(ask()).result == "me"


@pytest.mark.parametrize(
    ("target", "part"),
    [
        ("no_such_module:fn", "mocks.tool: mock 'no_such_module:fn': there is no module 'no_such_module'"),
        ("json:no_such_function", "mock 'json:no_such_function': 'json' has no attribute 'no_such_function'"),
        ("json:__name__", "no function"),
        (lambda args: args, "cannot be called with (args, ctx)"),
    ],
)
def test_a_function_that_cannot_answer_is_refused_at_once(target: Any, part: str):
    with pytest.raises(UsageError) as caught:
        tools(tool={"python": target})
    assert part in str(caught.value)
