"""Runs that did not come to their end: since when nothing was written, and whether they can go on from here."""

from datetime import datetime
from pathlib import Path

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.run import Run, RunState

from .app_state import Desk, NotFound
from .run_processes import NotNow
from .suites import find_suite

SILENT_SECONDS = 60.0
"""A run that another process plays is taken for left only after so long without a new trial."""
_HARMLESS = {
    "trials",
    "concurrency",
    "seed",
    "fail_fast",
    "budget",
    "pass_threshold",
    "metrics_pass_threshold",
    "cases_pass_threshold",
}
"""Settings of a stored run that may hold again. Others name models and agents, and a stored run may be anybody's."""


def silent_since(desk: Desk, run: Run) -> datetime | None:
    """When the last trial of a run under way was written, if that is long ago and nobody here plays it."""
    if run.state is not RunState.RUNNING or desk.launcher.is_running(run.id):
        return None
    written = desk.store.last_written(run.id) or run.started_at
    is_left = desk.launcher.knows(run.id) or (now() - written).total_seconds() > SILENT_SECONDS
    return written if is_left else None


def resume_run(desk: Desk, run_id: str) -> None:
    """Go on with the run in a process of its own. Raises NotFound, or NotNow where that cannot be done."""
    row = desk.store.run_row(run_id)
    if row is None:
        raise NotFound(f"no run has the id {run_id!r}")
    refused = why_not_resumed(desk, row.run)
    if refused is not None:
        raise NotNow(f"run {run_id}: {refused}")
    desk.launcher.resume(row.run, _files(desk, row.run))


def why_not_resumed(desk: Desk, run: Run) -> str | None:
    """Why the run cannot go on from here; None where it can."""
    config = run.config or {}
    if run.state is RunState.FINISHED:
        return "has come to its end"
    # One that was interrupted may still be ending; it is waited for.
    if desk.launcher.is_waking(run) or (run.state is RunState.RUNNING and desk.launcher.is_running(run.id)):
        return "is under way"
    if run.state is RunState.RUNNING and silent_since(desk, run) is None:
        return "was written to a moment ago, so another process may be playing it"
    by_hand = f"Where it was started, this may: seatrial run --resume {run.id}"
    if run.parent is not None or "run" not in config:
        return "was not played by `seatrial run`, so it cannot be resumed"
    if config.get("agent") is not None or not set(config.get("overrides") or ()) <= _HARMLESS:
        return f"was started with an agent or settings that are not in its files. {by_hand}"
    try:
        return None if _files(desk, run) else f"has no files. {by_hand}"
    except UsageError as problem:
        return f"{problem} {by_hand}"


def _files(desk: Desk, run: Run) -> list[Path]:
    return [find_suite(desk.options.root, str(source)) for source in (run.config or {}).get("sources") or ()]
