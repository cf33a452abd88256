"""What may be changed from here, for the API and for forms alike."""

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.run import Run, RunState
from seatrial.store.labels import Label

from .app_state import Desk, NotFound
from .run_processes import NotNow


def cancel_run(desk: Desk, run_id: str) -> None:
    """Raises NotFound, or NotNow where the run is not under way in a process of ours."""
    if desk.launcher.cancel(run_id):
        return
    if not desk.launcher.knows(run_id) and desk.store.run_row(run_id) is None:
        raise NotFound(f"no run has the id {run_id!r}")
    raise NotNow(f"run {run_id}: is not under way in this server, so it cannot be cancelled from here")


def put_label(desk: Desk, run_id: str, scenario: str, index: int, *, metric: str, value: float, who: str) -> Label:
    """The label, stored. Raises NotFound where there is no such trial."""
    decided, outcome = desk.scenario(run_id, scenario)
    key = outcome.entry.key
    if not any(one.index == index for one in decided.trials.get(key, ())):
        raise NotFound(f"run {run_id}: has no trial-{index + 1} of {key.label!r}")
    label = Label(run_id=run_id, key=key, index=index, metric=metric, value=value, who=who, at=now())
    desk.store.label(label)
    return label


def choose_baseline(desk: Desk, run_id: str, *, suite: str | None) -> Run:
    """The run that is the baseline now. Raises UsageError where it cannot be one."""
    decided = desk.run(run_id)
    run = decided.run
    if run.state is not RunState.FINISHED:
        raise NotNow(f"run {run.id}: did not come to its end, so others would be compared with a part")
    if suite is not None and all(one.entry.key.suite != suite for one in decided.outcome.scenarios):
        raise UsageError(f"run {run.id}: has no suite {suite!r}")
    desk.store.set_baseline(run.id, suite=suite)
    return run


def forget_baseline(desk: Desk, suite: str | None) -> None:
    """Raises NotFound where none is set."""
    if not desk.store.clear_baseline(suite):
        raise NotFound("no such baseline is set")
