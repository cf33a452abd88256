"""User code: its errors, its time limits, and where it runs."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from seatrial import foreign


def call(function: Any, *args: Any, **options: Any) -> Any:
    return asyncio.run(foreign.call(function, *args, **options))


def test_the_traceback_begins_with_the_users_code_also_in_a_folder_of_our_name(tmp_path: Path) -> None:
    folder = tmp_path / "seatrial"
    folder.mkdir()
    file = folder / "mine.py"
    file.write_text("def breaks():\n    raise ValueError('no ruler')\n")
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)

    with pytest.raises(foreign.ForeignError, match=r"^ValueError: no ruler$") as caught:
        call(scope["breaks"])

    assert str(file) in caught.value.traceback
    assert "outcome.py" not in caught.value.traceback


@pytest.mark.parametrize("raised", [SystemExit(0), KeyboardInterrupt(), asyncio.CancelledError(), TimeoutError("own")])
def test_whatever_user_code_raises_is_a_foreign_error(raised: BaseException) -> None:
    def plain() -> None:
        raise raised

    async def on_loop() -> None:
        raise raised

    for function in (plain, on_loop):
        with pytest.raises(foreign.ForeignError) as caught:
            call(function)
        assert caught.value.raised is raised


def test_a_function_that_takes_too_long_is_left_behind() -> None:
    released = threading.Event()
    with pytest.raises(TimeoutError):
        call(released.wait, timeout=0.05)
    released.set()


def test_sync_functions_run_side_by_side() -> None:
    together = threading.Barrier(10)

    async def play() -> list[int]:
        return await asyncio.gather(*(foreign.call(together.wait, 20) for _ in range(10)))

    assert sorted(asyncio.run(play())) == list(range(10))


def test_an_awaitable_that_a_sync_function_returns_is_awaited() -> None:
    async def later() -> str:
        return "done"

    assert call(lambda: later()) == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """
import asyncio, os
from seatrial import foreign
asyncio.run(foreign.call(lambda: 1))
child = os.fork()
if child == 0:
    os._exit(asyncio.run(foreign.call(lambda: 7)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "7", done.stderr
