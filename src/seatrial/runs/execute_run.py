"""One run from the plan to the report."""

import asyncio
import secrets
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.clock import now
from seatrial.engine.executors import Executor
from seatrial.engine.redact import Redaction
from seatrial.engine.schedule import Budget, RateLimit, TrialSchedule
from seatrial.errors import UsageError
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import Run

from .event_loop import cancel_on_sigterm, run_to_the_end
from .report import Report, StoredRecord
from .request import RunRequest
from .run_config import Commit, find_commit, snapshot, versions
from .run_plan import RunPlan
from .secrets import discreet
from .session import Jobs, RunSession

if TYPE_CHECKING:
    from .resume import Resumed

_CHUNK = 500
"""Scenarios whose rows are written together, ahead of their trials."""


def execute(what: RunRequest | RunPlan) -> Report:
    """Run it to its end, or until Ctrl-C; what is finished is kept either way."""
    plan = what if isinstance(what, RunPlan) else RunPlan(what)
    plan.require_something()
    return run_to_the_end(_play(plan))[0]


async def play(request: RunRequest) -> Report:
    """The same on a loop of the caller's. Cancelling it keeps what is finished, and then cancels."""
    plan = RunPlan(request)
    plan.require_something()
    report, cancelled = await _play(plan)
    if cancelled:
        raise asyncio.CancelledError
    return report


def open_session(plan: RunPlan) -> RunSession:
    return RunSession(plan.request, agents=plan.agents, models=plan.models, secrets=plan.secrets)


async def _play(plan: RunPlan) -> tuple[Report, bool]:
    """The report, and whether the run was cancelled."""
    request = plan.request
    if request.executor == "ray":
        from .ray_executor import require_cluster

        require_cluster(request)
    commit = find_commit(Path.cwd())
    let_go = cancel_on_sigterm()
    try:
        async with open_session(plan) as session:
            resumed = _resume(session, plan) if request.resume else None
            if resumed is not None and session.store is not None and resumed.is_complete(plan):
                return Report(StoredRecord(session.store, resumed.run)), False
            _start(session, plan, commit, resumed)
            planned = _planned(session, plan, resumed)
            schedule = TrialSchedule(
                planned,
                known=resumed.answers if resumed else None,
                shuffle_seed=plan.config.seed,
                fail_fast=plan.config.fail_fast,
                budget=Budget(_left(plan.config.budget, resumed)),
            )
            jobs = Jobs(
                schedule=schedule,
                executor=_executor(session, plan),
                concurrency=plan.config.concurrency,
                replaced=resumed.replaced if resumed else {},
            )
            return await session.play_to_end(jobs, scenarios=plan.scenarios, rest=planned), session.cancelled
    finally:
        let_go()


def _start(session: RunSession, plan: RunPlan, commit: Commit, resumed: "Resumed | None") -> None:
    scenarios, trials = plan.count()
    if resumed is not None:
        session.start(resumed.run, scenarios=scenarios, trials=max(trials - resumed.count, 0), again=True)
        return
    seed = secrets.randbelow(2**31) if plan.config.seed is None else plan.config.seed
    run = new_run(plan, commit, session.redaction, seed=seed)
    session.claim(run.id)
    session.start(run, scenarios=scenarios, trials=trials)


def _executor(session: RunSession, plan: RunPlan) -> Executor:
    if plan.request.executor == "ray":
        from .ray_executor import RayExecutor

        return RayExecutor(plan.request, session.settings())
    return session.local_executor(rate_limit=RateLimit(plan.config.rpm) if plan.config.rpm else None)


def _planned(session: RunSession, plan: RunPlan, resumed: "Resumed | None") -> Iterator[PreparedScenario]:
    """The scenarios, with their rows written ahead of their trials."""
    scenarios = plan.scenarios()
    while chunk := list(islice(scenarios, _CHUNK)):
        session.add([prepared.entry for prepared in chunk], stored=resumed.stored if resumed else None)
        yield from (discreet(prepared, session.redaction) for prepared in chunk)


def _resume(session: RunSession, plan: RunPlan) -> "Resumed":
    store = session.open_store()
    if store is None:
        raise UsageError("--resume needs a store")
    from .resume import find_resumed

    assert plan.request.resume is not None
    # Before it is looked at: a process that plays the run changes it.
    session.claim(store.run(plan.request.resume).id)
    resumed = find_resumed(store, plan)
    _left(plan.config.budget, resumed)
    return resumed


def new_run(plan: RunPlan, commit: Commit, redaction: Redaction, *, seed: int, parent: str | None = None) -> Run:
    """The record of a run that begins now."""
    found = commit.wait()
    started = now()
    return Run(
        id=plan.request.id or f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        name=plan.name,
        started_at=started,
        seed=seed,
        gates=plan.gates,
        config=redaction.value(snapshot(plan)),
        git_commit=found.sha,
        git_dirty=found.dirty,
        versions=versions(),
        parent=parent,
        replayed=plan.agents.replay(plan.suites),
    )


def _left(budget_usd: float | None, resumed: "Resumed | None") -> float | None:
    """What may still be spent. Raises UsageError where the run has spent it all."""
    if budget_usd is None or resumed is None:
        return budget_usd
    if resumed.spent_usd >= budget_usd:
        raise UsageError(
            f"run {resumed.run.id}: has spent ${resumed.spent_usd:,.4f} of its budget of ${budget_usd:,.4f}. "
            "Give a larger one: --budget USD"
        )
    return budget_usd - resumed.spent_usd
