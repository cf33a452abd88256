"""Live progress of a run as server-sent events, read from the store."""

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
    """The progress of a run."""

    state: str
    """The state of the run, or `starting` (not stored yet), `refused` (it did not start) or `left` (its process ended
    before the run was finished)."""
    planned: int = 0
    """The maximum number of trials."""
    played: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0

    @property
    def is_over(self) -> bool:
        return self.state not in ("starting", RunState.RUNNING)


class ProgressReader:
    """Reads the progress of one run again and again."""

    def __init__(self, state: AppState, run_id: str) -> None:
        self._app_state = state
        self._run_id = run_id
        self._planned = (0, 0)
        """The number of scenarios, and of trials that they plan."""

    def read(self) -> Progress | None:
        """The current progress; None if the run is unknown."""
        row = self._app_state.store.run_row(self._run_id)
        if row is None:
            processes = self._app_state.processes
            if not processes.was_started(self._run_id):
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
        is_left = run.state is RunState.RUNNING and processes.was_started(run.id) and not processes.is_running(run.id)
        return "left" if is_left else run.state.value

    def _plan(self, row: RunRow) -> int:
        if self._planned[0] != row.scenarios:
            entries = self._app_state.store.entries(self._run_id)
            self._planned = (row.scenarios, sum(entry.trials for entry in entries if entry.skip is None))
        return self._planned[1]


async def progress_events(state: AppState, run_id: str) -> AsyncIterator[bytes]:
    """Server-sent events: `progress` whenever a number changes, `end` after the last event."""
    reader = ProgressReader(state, run_id)
    last: Progress | None = None
    silent = 0.0
    while not state.closing:
        found = await asyncio.to_thread(reader.read)
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
