import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import UserMove
from seatrial.model.results import TrialError
from seatrial.users.scripted import FunctionUser

PAIRS = [("Hello", "Hi, how can I help?")]


def move_of(function: Any, **more: Any) -> UserMove:
    return asyncio.run(FunctionUser(function, **more).next(PAIRS))


def error_of(function: Any) -> TrialError:
    with pytest.raises(TrialError) as caught:
        move_of(function)
    assert caught.value.info.kind is ErrorKind.SIMULATOR
    return caught.value


@pytest.mark.parametrize(
    ("returned", "move"),
    [
        ("Next", UserMove(message="Next")),
        (None, UserMove(stop=True)),
        (UserMove(message="Thanks", goal_met=True), UserMove(message="Thanks", goal_met=True)),
        ({"message": "Thanks", "goal_met": True}, UserMove(message="Thanks", goal_met=True)),
        ({"stop": True}, UserMove(stop=True)),
    ],
)
def test_what_a_function_may_return(returned: Any, move: UserMove) -> None:
    assert move_of(lambda conversation: returned) == move


def test_the_function_gets_the_conversation_as_a_list_of_its_own() -> None:
    seen: list[Any] = []

    def user(conversation: list[tuple[str, str]]) -> str:
        seen.append(list(conversation))
        conversation.clear()
        return "ok"

    move_of(user)
    assert seen == [PAIRS]
    assert PAIRS


def test_trial_and_seed_are_given_by_name_to_those_who_ask() -> None:
    def user(conversation: list[Any], *, seed: int, trial: int) -> str:
        return f"{trial}/{seed}"

    assert move_of(user, trial=2, seed=99).message == "2/99"


def test_neither_an_async_nor_a_plain_function_runs_on_the_event_loop_of_the_run() -> None:
    async def on_loop(conversation: list[Any]) -> str:
        return threading.current_thread().name

    def in_thread(conversation: list[Any]) -> str:
        return threading.current_thread().name

    assert move_of(on_loop).message == "seatrial-instrument-loop"
    assert (move_of(in_thread).message or "").startswith("seatrial-instrument-")


def test_an_object_with_an_async_call_is_awaited() -> None:
    class Shopper:
        async def __call__(self, conversation: list[Any]) -> str:
            return "I want shoes"

    assert move_of(Shopper()).message == "I want shoes"


@pytest.mark.parametrize("problem", [ValueError("no idea"), SystemExit(0), KeyboardInterrupt(), StopIteration()])
def test_whatever_a_function_raises_is_the_simulators_error(problem: BaseException) -> None:
    def user(conversation: list[Any]) -> str:
        raise problem

    error = error_of(user)
    assert f"raised {type(problem).__name__}" in str(error)
    assert "test_function.py" in (error.info.traceback or "")


@pytest.mark.parametrize("problem", [ValueError("no idea"), SystemExit(0)])
def test_whatever_an_async_function_raises_is_the_simulators_error(problem: BaseException) -> None:
    async def user(conversation: list[Any]) -> str:
        raise problem

    error = error_of(user)
    assert f"raised {type(problem).__name__}" in str(error)
    assert "test_function.py" in (error.info.traceback or "")


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ("  ", "said nothing and did not stop"),
        ({}, "said nothing and did not stop"),
        (UserMove(), "said nothing and did not stop"),
        (17, "returned 17"),
        ({"mesage": "x"}, "unknown key 'mesage'"),
        ({"message": "x", "stop": "no"}, "returned {"),
        ({"message": 5}, "returned {"),
    ],
)
def test_nonsense_is_the_simulators_error_and_never_a_quiet_stop(returned: Any, problem: str) -> None:
    error = error_of(lambda conversation: returned)
    assert problem in str(error)
    assert "return a text" in (error.info.hint or "")


def test_a_function_that_cannot_take_the_conversation_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="def user\\(conversation\\)"):
        FunctionUser(lambda: "hi")


def test_a_function_that_never_returns_does_not_keep_the_process_from_ending() -> None:
    code = """
import asyncio, threading
from seatrial.users.scripted import FunctionUser

async def main():
    user = FunctionUser(lambda conversation: threading.Event().wait())
    try:
        await asyncio.wait_for(user.next([]), 0.1)
    except TimeoutError:
        print("timed out")

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "timed out"
