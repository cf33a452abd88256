"""The border to foreign code: what agents may raise, how long they may take, and whom that concerns."""

import asyncio
import contextvars
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from seatrial.agents.python import call_agent
from seatrial.foreign import ForeignCode
from seatrial.model.conversation import ErrorKind
from seatrial.model.results import AgentFailure, RepeatTrial, TrialError

WAIT_SECONDS = 20.0
"""For what must end well: never reached, and long enough for a busy machine."""


def call(function: Callable[[], Any], *, timeout: float = WAIT_SECONDS) -> Any:
    async def play() -> Any:
        code = ForeignCode("test")
        try:
            return await call_agent(function, timeout=timeout, code=code)
        finally:
            code.close()

    return asyncio.run(play())


def in_both_ways(raise_it: Callable[[], Any]) -> list[Callable[[], Any]]:
    """A sync and an async agent that do the same."""

    async def on_loop() -> Any:
        await asyncio.sleep(0)
        return raise_it()

    return [raise_it, on_loop]


def raising(error: BaseException) -> Callable[[], Any]:
    def agent() -> Any:
        raise error

    return agent


class Odd(BaseException):
    pass


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


# What they raise.


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (KeyError(), "KeyError"),
        (SystemExit(0), r"the agent called sys.exit\(0\)"),
        (SystemExit(), r"the agent called sys.exit\(\)"),
        (SystemExit("bye"), r"the agent called sys.exit\('bye'\)"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (Odd("odd"), "Odd: odd"),
        (asyncio.CancelledError(), "CancelledError"),
        (TimeoutError("its own"), "TimeoutError: its own"),
        (GeneratorExit(), "GeneratorExit"),
        (ExceptionGroup("several", [ValueError("a"), TypeError("b")]), "ExceptionGroup: several"),
        (Unspeakable(), "Unspeakable: .its text cannot be shown: RuntimeError."),
    ],
)
def test_whatever_an_agent_raises_is_an_agent_failure(error: BaseException, message: str) -> None:
    for agent in in_both_ways(raising(error)):
        with pytest.raises(AgentFailure, match=f"^{message}") as caught:
            call(agent)
        assert caught.value.info.kind is ErrorKind.AGENT


def test_a_stop_iteration_is_an_agent_failure() -> None:
    with pytest.raises(AgentFailure, match="StopIteration"):
        call(raising(StopIteration("end")))


def test_recursion_without_end_is_an_agent_failure() -> None:
    def agent() -> Any:
        return agent()

    with pytest.raises(AgentFailure, match="RecursionError"):
        call(agent)


def test_a_failure_of_the_trial_passes_the_border_as_it_is() -> None:
    failure = TrialError(ErrorKind.TOOL, "no mock")
    for agent in in_both_ways(raising(failure)):
        with pytest.raises(TrialError) as caught:
            call(agent)
        assert caught.value is failure


def test_the_traceback_begins_with_the_agents_own_code_and_tells_the_cause() -> None:
    def agent() -> None:
        try:
            raise OSError("socket closed")
        except OSError as cause:
            raise ValueError("boom") from cause

    with pytest.raises(AgentFailure) as caught:
        call(agent)
    shown = caught.value.info.traceback or ""
    assert "OSError: socket closed" in shown
    assert "direct cause" in shown
    assert shown.endswith("ValueError: boom")
    assert "/seatrial/agents/" not in shown


def test_the_traceback_of_a_group_tells_its_members() -> None:
    with pytest.raises(AgentFailure) as caught:
        call(raising(ExceptionGroup("several", [ValueError("first"), TypeError("second")])))
    assert "ValueError: first" in (caught.value.info.traceback or "")
    assert "TypeError: second" in (caught.value.info.traceback or "")


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), ValueError("boom")])
def test_what_a_sub_task_raises_comes_from_the_agent_that_awaits_it(error: BaseException) -> None:
    async def sub_task() -> None:
        raise error

    async def agent() -> None:
        await asyncio.create_task(sub_task())

    with pytest.raises(AgentFailure, match=r"sys.exit\(0\)|KeyboardInterrupt|boom"):
        call(agent)


def test_a_sub_task_that_exits_does_not_stop_the_loop_for_others() -> None:
    async def leaving() -> None:
        sys.exit(0)

    async def agent() -> str:
        task = asyncio.create_task(leaving())
        await asyncio.wait([task])
        assert isinstance(task.exception(), SystemExit)
        return "still here"

    async def other() -> str:
        for _ in range(50):
            await asyncio.sleep(0)
        return "so am I"

    assert play_together(agent, other) == ["still here", "so am I"]


# Where they run.


def test_a_sync_agent_runs_in_a_daemon_thread() -> None:
    assert call(lambda: threading.current_thread().daemon) is True


def test_an_async_agent_runs_apart_from_the_runners_loop() -> None:
    async def agent() -> int:
        assert threading.current_thread().daemon
        return threading.get_ident()

    assert call(agent) != threading.get_ident()


def test_async_agents_share_one_loop() -> None:
    async def agent() -> int:
        return id(asyncio.get_running_loop())

    assert len(set(play_together(agent, agent, agent))) == 1


def test_agents_see_the_context_variables_of_the_caller() -> None:
    marked: contextvars.ContextVar[str] = contextvars.ContextVar("marked", default="nothing")

    async def on_loop() -> str:
        return marked.get()

    def play() -> list[str]:
        marked.set("mine")
        return [call(marked.get), call(on_loop)]

    assert contextvars.copy_context().run(play) == ["mine", "mine"]


def test_a_context_variable_set_by_one_agent_is_not_seen_by_the_next() -> None:
    marked: contextvars.ContextVar[str] = contextvars.ContextVar("marked", default="nothing")

    async def play() -> str:
        code = ForeignCode("test")
        try:
            await call_agent(lambda: marked.set("mine"), timeout=WAIT_SECONDS, code=code)
            return str(await call_agent(marked.get, timeout=WAIT_SECONDS, code=code))
        finally:
            code.close()

    assert asyncio.run(play()) == "nothing"


def test_what_is_left_on_the_loop_is_cancelled_when_the_run_ends() -> None:
    ended = threading.Event()

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    kept = []

    async def agent() -> str:
        kept.append(asyncio.create_task(for_ever()))
        await asyncio.sleep(0)
        return "done"

    assert call(agent) == "done"
    assert ended.wait(WAIT_SECONDS)


# How long they take.


def play_together(*agents: Callable[[], Awaitable[Any]], timeouts: tuple[float, ...] = ()) -> list[Any]:
    """The agents at once on one boundary; their values, or what was raised."""

    async def play() -> list[Any]:
        code = ForeignCode("test")
        calls = [
            call_agent(agent, timeout=timeout, code=code)
            for agent, timeout in itertools.zip_longest(agents, timeouts, fillvalue=WAIT_SECONDS)  # type: ignore[arg-type]
        ]
        try:
            return list(await asyncio.gather(*calls, return_exceptions=True))
        finally:
            code.close()

    return asyncio.run(play())


def is_overrun(raised: Any) -> bool:
    return isinstance(raised, TrialError) and raised.info.kind is ErrorKind.LIMIT


def test_a_sync_agent_that_overruns_is_a_limit_error_with_the_remedy() -> None:
    released = threading.Event()
    with pytest.raises(TrialError, match=r"did not answer within 0.05 s") as caught:
        call(released.wait, timeout=0.05)
    released.set()
    assert caught.value.info.kind is ErrorKind.LIMIT
    assert "timeout_seconds" in (caught.value.info.hint or "")


def test_an_async_agent_that_overruns_is_cancelled() -> None:
    ended = threading.Event()

    async def agent() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TrialError, match="did not answer"):
        call(agent, timeout=0.05)
    assert ended.wait(WAIT_SECONDS)


def test_an_agent_that_swallows_its_cancellation_is_a_limit_error_all_the_same() -> None:
    async def stubborn() -> str:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if stop.is_set():
                    raise

    stop = threading.Event()

    async def other() -> str:
        await asyncio.sleep(0.1)
        stop.set()
        return "fine"

    results = play_together(stubborn, other, timeouts=(0.05, WAIT_SECONDS))
    assert is_overrun(results[0])
    assert results[1] == "fine"


def test_an_awaitable_from_a_plain_function_shares_the_timeout_of_its_maker() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TrialError, match=r"within 0.05 s"):
        call(lambda: never(), timeout=0.05)


def test_calls_that_were_left_behind_are_counted_until_they_return() -> None:
    released = threading.Event()

    async def play() -> tuple[int, int]:
        code = ForeignCode("test")
        with pytest.raises(TrialError):
            await call_agent(released.wait, timeout=0.02, code=code)
        before = code.abandoned
        released.set()
        while code.abandoned:
            await asyncio.sleep(0.001)
        # Its thread is free again.
        value = await call_agent(lambda: 1, timeout=WAIT_SECONDS, code=code)
        code.close()
        return before, value

    assert asyncio.run(play()) == (1, 1)


def test_cancelling_a_call_cancels_the_agent() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def agent() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def play() -> None:
        code = ForeignCode("test")
        task = asyncio.create_task(call_agent(agent, timeout=WAIT_SECONDS, code=code))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        code.close()

    asyncio.run(play())
    assert ended.wait(WAIT_SECONDS)


async def sleeping_on_the_loop() -> None:
    while not released.is_set():
        time.sleep(0.01)


async def spinning() -> None:
    while not released.is_set():
        pass


async def blocking_in_a_sub_task() -> None:
    await asyncio.create_task(sleeping_on_the_loop())


async def blocking_in_a_callback() -> None:
    asyncio.get_running_loop().call_later(0.001, released.wait)
    await asyncio.Event().wait()


released = threading.Event()


@pytest.fixture(autouse=True)
def _release_blocked_agents() -> Any:
    released.clear()
    yield
    released.set()


BLOCKERS = (sleeping_on_the_loop, spinning, blocking_in_a_sub_task, blocking_in_a_callback)


@pytest.mark.parametrize("blocker", BLOCKERS, ids=lambda blocker: blocker.__name__)
def test_an_agent_that_blocks_the_loop_times_out_and_the_others_are_played_again(blocker: Any) -> None:
    async def other() -> str:
        # Longer than the blocker's timeout, on a shorter timeout than the time that the loop is blocked.
        await asyncio.sleep(0.3)
        return "fine"

    results = play_together(blocker, other, other, timeouts=(0.2, 0.6, 0.6))
    assert is_overrun(results[0])
    assert [type(result) for result in results[1:]] == [RepeatTrial, RepeatTrial]


def test_time_in_which_others_held_the_loop_is_not_on_an_agents_clock() -> None:
    async def holds() -> str:
        await asyncio.sleep(0.01)
        time.sleep(1.5)
        return "held"

    async def waits() -> str:
        await asyncio.sleep(0.02)
        return "waited"

    assert play_together(holds, waits, timeouts=(WAIT_SECONDS, 1.0)) == ["held", "waited"]


def test_time_in_which_an_agent_itself_held_the_loop_is_on_its_clock() -> None:
    async def works_in_steps() -> None:
        while True:
            time.sleep(0.01)
            await asyncio.sleep(0)

    assert is_overrun(play_together(works_in_steps, timeouts=(0.1,))[0])


def test_an_agent_that_answered_but_left_a_blocking_task_behind_does_not_time_others_out() -> None:
    begun = threading.Event()

    async def blocks_later() -> None:
        begun.set()
        released.wait()

    kept = []

    async def agent() -> str:
        kept.append(asyncio.create_task(blocks_later()))
        return "done"

    async def other() -> str:
        await asyncio.to_thread(begun.wait)
        await asyncio.sleep(0)
        return "fine"

    results = play_together(agent, other, timeouts=(WAIT_SECONDS, 1.5))
    assert results[0] == "done"
    assert isinstance(results[1], RepeatTrial)


def test_an_answer_is_heard_even_while_another_agent_holds_the_loop() -> None:
    heard = threading.Event()

    async def quick() -> str:
        return "quick"

    async def blocking() -> bool:
        return heard.wait(WAIT_SECONDS)

    async def play() -> tuple[Any, Any]:
        code = ForeignCode("test")
        try:
            first = asyncio.create_task(call_agent(quick, timeout=WAIT_SECONDS, code=code))
            second = asyncio.create_task(call_agent(blocking, timeout=2 * WAIT_SECONDS, code=code))
            answer = await first
            heard.set()
            return answer, await second
        finally:
            code.close()

    assert asyncio.run(play()) == ("quick", True)


def test_after_a_loop_was_left_behind_the_next_call_gets_a_fresh_one() -> None:
    async def fine() -> str:
        return "fine"

    async def play() -> str:
        code = ForeignCode("test")
        results = await asyncio.gather(
            call_agent(sleeping_on_the_loop, timeout=0.05, code=code),
            call_agent(fine, timeout=WAIT_SECONDS, code=code),
            return_exceptions=True,
        )
        assert is_overrun(results[0])
        while code.abandoned == 0:
            await asyncio.sleep(0.01)
        try:
            return str(await call_agent(fine, timeout=WAIT_SECONDS, code=code))
        finally:
            code.close()

    assert asyncio.run(play()) == "fine"


ENDS_ANYWAY = """
import asyncio, threading, time
from seatrial.agents.python import call_agent
from seatrial.foreign import ForeignCode

def sync_for_ever(): threading.Event().wait()
def spins_for_ever():
    while True: pass
async def async_for_ever(): time.sleep(3600)
async def in_a_thread(): await asyncio.to_thread(threading.Event().wait)

async def main():
    code = ForeignCode("test")
    for agent in (sync_for_ever, spins_for_ever, in_a_thread, async_for_ever):
        try:
            await call_agent(agent, timeout=0.05, code=code)
        except Exception as error:
            print(type(error).__name__, flush=True)
    code.close()

asyncio.run(main())
print("the end", flush=True)
"""


def test_agents_that_never_return_do_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS_ANYWAY], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split("\n")) == (0, [*["TrialError"] * 4, "the end", ""]), done.stderr
