"""Calls that come one at a time, driven by hand: a quick answer is waited for in place, and nothing else changes."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from seatrial.agents import threads
from seatrial.agents.boundary import Boundary
from seatrial.by_hand import hall
from seatrial.session.loop_thread import LoopThread
from seatrial.vocabulary.failures import AgentFailure, TrialError

PATIENCE = 20.0
"""For what must end well: never reached, and long enough for a busy machine."""

Play = Callable[[Boundary], Coroutine[Any, Any, Any]]


class Driver:
    """Drives what plays with agents, one after the other."""

    def __init__(self) -> None:
        self.loop = LoopThread()
        self.boundary = Boundary(one_at_a_time=True)
        self.waits = 0
        """How often it had to wait for something that was not quick."""

    def __call__(self, play: Play) -> Any:
        return self.loop.drive(play(self.boundary), before_waiting=self._count)

    def _count(self) -> None:
        self.waits += 1


@pytest.fixture
def drive() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.boundary.close()
    driver.loop.close()


@pytest.fixture
def all_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(threads, "_QUICK_SECONDS", PATIENCE)


def calling(function: Callable[[], Any], *, timeout: float = PATIENCE) -> Play:
    return lambda boundary: boundary.call(function, is_async=False, timeout=timeout)


@pytest.mark.usefixtures("all_is_quick")
def test_answers_and_errors_come_in_their_order_and_no_loop_is_waited_for(drive: Driver) -> None:
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

    assert drive(play) == ["ZeroDivisionError", 10, 5, 3, 2] * 10
    assert drive.waits == 0


def test_an_agent_that_needs_the_loop_to_answer_gets_it(drive: Driver) -> None:
    async def tool() -> str:
        return "sunny"

    async def play(boundary: Boundary) -> list[Any]:
        loop = hall()

        def agent() -> str:
            return asyncio.run_coroutine_threadsafe(tool(), loop).result(PATIENCE)

        return [await boundary.call(agent, is_async=False, timeout=PATIENCE) for _ in range(3)]

    assert drive(play) == ["sunny"] * 3
    assert drive.waits == 1


def test_whoever_drives_is_told_before_a_slow_agent_is_waited_for(drive: Driver) -> None:
    told = threading.Event()

    async def play(boundary: Boundary) -> Any:
        return await boundary.call(lambda: told.wait(PATIENCE), is_async=False, timeout=PATIENCE)

    assert drive.loop.drive(play(drive.boundary), before_waiting=told.set) is True


def test_a_call_that_takes_too_long_is_left_behind_and_its_answer_is_nobody_elses(drive: Driver) -> None:
    go, gone = threading.Event(), threading.Event()

    def late() -> str:
        go.wait(PATIENCE)
        gone.set()
        return "late"

    def in_time() -> str:
        go.set()
        gone.wait(PATIENCE)
        return "in time"

    with pytest.raises(TrialError, match="did not answer within"):
        drive(calling(late, timeout=0.05))
    assert drive.boundary.abandoned == 1
    assert drive(calling(in_time)) == "in time"
    assert drive(calling(lambda: "next")) == "next"


def test_a_limit_below_what_a_quick_call_may_take_holds(drive: Driver) -> None:
    stuck = threading.Event()
    with pytest.raises(TrialError, match="did not answer within"):
        drive(calling(lambda: stuck.wait(PATIENCE), timeout=0.0001))
    stuck.set()


def test_a_limit_holds_however_long_nobody_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, boundary, stuck = asyncio.new_event_loop(), Boundary(), threading.Event()

    loop.run_until_complete(calling(lambda: "quick")(boundary))
    monkeypatch.setattr(loop, "time", lambda: time.monotonic() + 1_000_000)
    with pytest.raises(TrialError, match="did not answer within"):
        loop.run_until_complete(calling(lambda: stuck.wait(PATIENCE), timeout=0.05)(boundary))

    stuck.set()
    boundary.close()
    loop.close()


@pytest.mark.usefixtures("all_is_quick")
def test_ctrl_c_while_a_quick_answer_is_waited_for_ends_the_wait(drive: Driver) -> None:
    go = threading.Event()

    def interrupting() -> str:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        go.wait(PATIENCE)
        return "late"

    with pytest.raises(KeyboardInterrupt):
        drive(calling(interrupting))
    go.set()
    assert drive(calling(lambda: "next")) == "next"
