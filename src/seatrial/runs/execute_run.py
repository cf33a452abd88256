"""Run a plan from its first trial to its report."""

import asyncio
import secrets
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.engine.executors import Executor, LocalExecutor
from seatrial.engine.schedule import Budget, RateLimit, TrialSchedule
from seatrial.errors import UsageError
from seatrial.model.protocols import PreparedScenario
from seatrial.store.store import Store

from .event_loop import run_until_complete
from .new_run import Commit, find_commit, new_planned_run
from .report import Report, StoredRecord
from .request import RunRequest
from .run_plan import RunPlan
from .secrets import redact_user_input
from .session import Jobs, RunSession

if TYPE_CHECKING:
    from .resume import Resumed

_CHUNK = 500
"""Scenarios whose rows are stored together, before their trials."""


def execute(what: RunRequest | RunPlan) -> Report:
    """Run to the end, or until Ctrl-C. Finished trials are stored in both cases."""
    plan = what if isinstance(what, RunPlan) else RunPlan(what)
    plan.require_scenarios()
    return run_until_complete(_play(plan))[0]


async def execute_async(request: RunRequest) -> Report:
    """`execute` on the caller's event loop. Cancelling it stores finished trials, then raises CancelledError."""
    plan = RunPlan(request)
    plan.require_scenarios()
    report, cancelled = await _play(plan)
    if cancelled:
        raise asyncio.CancelledError
    return report


async def _play(plan: RunPlan) -> tuple[Report, bool]:
    """The report, and whether the run was cancelled."""
    if plan.request.executor == "ray":
        from .ray_executor import require_cluster

        require_cluster(plan.request)
    commit = find_commit(Path.cwd())
    async with plan.open_session() as session:
        resumed = _resume(session, plan) if plan.request.resume else None
        if resumed is None and plan.request.against is not None:
            prepare_history(plan, session.open_store(), commit)
        if resumed is not None and session.store is not None and resumed.is_complete(plan):
            return Report(StoredRecord(session.store, resumed.run)), False
        _start(session, plan, commit, resumed)
        scenarios = _store_and_yield(session, plan, resumed)
        schedule = TrialSchedule(
            scenarios,
            known=resumed.answers if resumed else None,
            shuffle_seed=plan.config.seed,
            fail_fast=plan.config.fail_fast and plan.request.sweep is None,
            budget=Budget(_budget_left(plan.config.budget, resumed)),
        )
        jobs = Jobs(
            schedule=schedule,
            executor=_executor(session, plan),
            concurrency=plan.config.concurrency,
            replaced=resumed.replaced if resumed else {},
        )
        return await session.play_to_end(jobs, scenarios=plan.scenarios, rest=scenarios), session.cancelled


def prepare_history(plan: RunPlan, store: Store | None, commit: Commit) -> None:
    """Give the scenarios of the plan their tests against the history. Raises UsageError without a store."""
    from .against_history import plan_history, read_history

    against = plan.request.against
    assert against is not None
    if store is None:
        raise UsageError("--against: needs a store, which has the runs to test against")
    if plan.request.shard is not None:
        raise UsageError("--against: cannot be combined with --shard, because one test covers all scenarios")
    here = commit.wait()
    history = read_history(
        store,
        against,
        baselines={suite.name: suite.suite.baseline for suite in plan.suites},
        commit=None if here.dirty else here.sha,
    )
    entries = (prepared.entry for prepared in plan.scenarios())
    plan.use_history(plan_history(history, entries, plan.gates))


def _resume(session: RunSession, plan: RunPlan) -> "Resumed":
    store = session.open_store()
    if store is None:
        raise UsageError("--resume needs a store")
    from .resume import find_resumed

    assert plan.request.resume is not None
    # Claimed before it is read: another process that plays the run would change it.
    run = store.run(plan.request.resume)
    session.claim(run.id)
    if run.gates.history is not None:
        from .against_history import stored_plan

        plan.use_history(stored_plan(store, run))
    resumed = find_resumed(store, plan)
    _budget_left(plan.config.budget, resumed)
    return resumed


def _budget_left(budget_usd: float | None, resumed: "Resumed | None") -> float | None:
    """What the run may still spend. Raises UsageError if nothing is left."""
    if budget_usd is None or resumed is None:
        return budget_usd
    if resumed.spent_usd >= budget_usd:
        raise UsageError(
            f"run {resumed.run.id}: has spent ${resumed.spent_usd:,.4f} of its budget of ${budget_usd:,.4f}. "
            "Give a larger one: --budget USD"
        )
    return budget_usd - resumed.spent_usd


def _start(session: RunSession, plan: RunPlan, commit: Commit, resumed: "Resumed | None") -> None:
    scenarios, trials = plan.count()
    if resumed is not None:
        session.start(resumed.run, scenarios=scenarios, trials=max(trials - resumed.count, 0), again=True)
        return
    seed = secrets.randbelow(2**31) if plan.config.seed is None else plan.config.seed
    run = new_planned_run(plan, commit, session.redaction, seed=seed)
    session.claim(run.id)
    session.start(run, scenarios=scenarios, trials=trials)


def _store_and_yield(session: RunSession, plan: RunPlan, resumed: "Resumed | None") -> Iterator[PreparedScenario]:
    """The scenarios. Their rows are stored before their trials."""
    scenarios = plan.scenarios()
    while chunk := list(islice(scenarios, _CHUNK)):
        session.recorder.add([prepared.entry for prepared in chunk], stored=resumed.stored if resumed else None)
        session.keep_contents(chunk)
        yield from (redact_user_input(prepared, session.redaction) for prepared in chunk)


def _executor(session: RunSession, plan: RunPlan) -> Executor:
    if plan.request.executor == "ray":
        from .ray_executor import RayExecutor

        return RayExecutor(plan.request, session.trial_settings())
    rate_limit = RateLimit(plan.config.rpm) if plan.config.rpm else None
    return LocalExecutor(session.trial_settings(rate_limit=rate_limit))
