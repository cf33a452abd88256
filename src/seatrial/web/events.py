"""How far a run has come, told while it goes on: by looking at the store, whoever runs it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from msgspec.structs import asdict

from seatrial.model.run import Run, RunState
from seatrial.model.struct import Struct
from seatrial.store.runs import RunRow

from .app_state import AppState

EVERY_SECONDS = 0.4
KEEP_ALIVE_SECONDS = 15.0


class Progress(Struct, frozen=True, kw_only=True):
    """A run under way in numbers."""

    state: str
    """`starting` until it is in the store or goes on, then as the run says; `refused` when it never came to be, `left`
    when the process that we started is gone before the run's end."""
    planned: int = 0
    """Trials; where their number is not fixed, the most that may be played."""
    played: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0

    @property
    def is_over(self) -> bool:
        return self.state not in ("starting", RunState.RUNNING)


class ProgressReader:
    """Looks at one run again and again."""

    def __init__(self, state: AppState, run_id: str) -> None:
        self._app_state = state
        self._run_id = run_id
        self._planned = (0, 0)
        """For how many scenarios, and how many trials they plan."""

    def look(self) -> Progress | None:
        """Where it stands; None when nobody knows of such a run."""
        row = self._app_state.store.run_row(self._run_id)
        if row is None:
            processes = self._app_state.processes
            if not processes.knows(self._run_id):
                return None
            return Progress(state="starting" if processes.is_running(self._run_id) else "refused")
        return Progress(
            state=self._state(row.run),
            planned=self._plan(row),
            played=row.trials,
            passed=row.passed,
            failed=row.failed,
            errored=row.errored,
        )

    def _state(self, run: Run) -> str:
        processes = self._app_state.processes
        if processes.is_resuming(run):
            return "starting"
        is_left = run.state is RunState.RUNNING and processes.knows(run.id) and not processes.is_running(run.id)
        return "left" if is_left else run.state.value

    def _plan(self, row: RunRow) -> int:
        if self._planned[0] != row.scenarios:
            entries = self._app_state.store.entries(self._run_id)
            self._planned = (row.scenarios, sum(entry.trials for entry in entries if entry.skip is None))
        return self._planned[1]


async def tell(state: AppState, run_id: str) -> AsyncIterator[bytes]:
    """Server-sent events: `progress` whenever a number changes, `end` when there is nothing more to come."""
    watch = ProgressReader(state, run_id)
    last: Progress | None = None
    silent = 0.0
    while not state.closing:
        found = await asyncio.to_thread(watch.look)
        if found is None:
            return
        if found != last:
            last, silent = found, 0.0
            yield _event("progress", asdict(found))
        if found.is_over:
            yield _event("end", asdict(found))
            return
        if silent >= KEEP_ALIVE_SECONDS:
            silent = 0.0
            yield b": still here\n\n"
        await asyncio.sleep(EVERY_SECONDS)
        silent += EVERY_SECONDS


def _event(name: str, value: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode("ascii")
