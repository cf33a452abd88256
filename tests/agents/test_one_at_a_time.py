"""Calls that come one at a time: a quick answer is waited for in place, and nothing else changes."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from seatrial.agents.boundary import Boundary
from seatrial.vocabulary.failures import AgentFailure, TrialError

PATIENCE = 20.0
"""For what must end well: never reached, and long enough for a busy machine."""


def with_boundary(play: Callable[[Boundary], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        boundary = Boundary(one_at_a_time=True)
        try:
            return await play(boundary)
        finally:
            boundary.close()

    return asyncio.run(run())


def test_answers_and_errors_come_in_their_order() -> None:
    async def play(boundary: Boundary) -> list[Any]:
        found: list[Any] = []
        for number in range(50):
            try:
                found.append(
                    await boundary.call(lambda number=number: 10 // (number % 5), is_async=False, timeout=PATIENCE)
                )
            except AgentFailure as failure:
                found.append(str(failure).partition(":")[0])
        return found

    assert with_boundary(play) == ["ZeroDivisionError", 10, 5, 3, 2] * 10


def test_an_agent_that_needs_the_loop_to_answer_gets_it() -> None:
    async def play(boundary: Boundary) -> list[Any]:
        loop = asyncio.get_running_loop()

        async def tool() -> str:
            return "sunny"

        def agent() -> str:
            return asyncio.run_coroutine_threadsafe(tool(), loop).result(PATIENCE)

        return [await boundary.call(agent, is_async=False, timeout=PATIENCE) for _ in range(3)]

    assert with_boundary(play) == ["sunny"] * 3


def test_calls_that_overlap_do_not_wait_for_each_other() -> None:
    met = threading.Barrier(2)

    async def play(boundary: Boundary) -> list[Any]:
        calls = [boundary.call(lambda: met.wait(PATIENCE), is_async=False, timeout=PATIENCE) for _ in range(2)]
        return await asyncio.gather(*calls)

    assert sorted(with_boundary(play)) == [0, 1]


def test_a_call_that_takes_too_long_is_left_behind_and_its_answer_is_nobody_elses() -> None:
    go, gone = threading.Event(), threading.Event()

    def late() -> str:
        go.wait(PATIENCE)
        gone.set()
        return "late"

    def in_time() -> str:
        go.set()
        gone.wait(PATIENCE)
        return "in time"

    async def play(boundary: Boundary) -> tuple[int, Any, Any]:
        with pytest.raises(TrialError, match="did not answer within"):
            await boundary.call(late, is_async=False, timeout=0.05)
        left = boundary.abandoned
        return (
            left,
            await boundary.call(in_time, is_async=False, timeout=PATIENCE),
            await boundary.call(lambda: "next", is_async=False, timeout=PATIENCE),
        )

    assert with_boundary(play) == (1, "in time", "next")


def test_a_limit_below_what_a_quick_call_may_take_holds() -> None:
    stuck = threading.Event()

    async def play(boundary: Boundary) -> None:
        await boundary.call(lambda: stuck.wait(PATIENCE), is_async=False, timeout=0.0001)

    with pytest.raises(TrialError, match="did not answer within"):
        with_boundary(play)
    stuck.set()
