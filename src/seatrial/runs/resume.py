"""Resume an interrupted run: read its settings and trials, and check that the files have not changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from seatrial.engine.schedule import TrialSchedule
from seatrial.errors import UsageError
from seatrial.model.conversation import REDACTED, ErrorInfo
from seatrial.model.run import Run, RunState, ScenarioKey, Status, TrialSummary
from seatrial.store.runs import missing_shards
from seatrial.store.store import Store
from seatrial.verdicts.rates import answer_of

from .new_run import redact_spec, to_json
from .request import RunRequest
from .run_plan import RunPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The stored part of an interrupted run."""

    run: Run
    answers: Mapping[ScenarioKey, Mapping[int, bool | None]]
    """The answers of stored trials by scenario and index, without trials that are played again."""
    replaced: Mapping[tuple[ScenarioKey, int], tuple[ErrorInfo, ...]]
    """Errored trials that are played again, each with the agent's errors that still count."""
    stored: dict[ScenarioKey, int]
    """The stored scenarios, each with the number of trials that are kept."""
    spent_usd: float = 0.0

    @property
    def count(self) -> int:
        """How many trials are kept."""
        return sum(self.stored.values())

    def is_complete(self, plan: RunPlan) -> bool:
        """Whether the run is finished and no trial is missing."""
        return (
            self.run.state is RunState.FINISHED and TrialSchedule(plan.scenarios(), known=self.answers).next() is None
        )


def request_again(run: Run, asked: RunRequest) -> RunRequest:
    """The request of the stored run, with the settings of `asked` first. Raises UsageError if a part is not stored."""
    config = run.config or {}
    sources = asked.sources or tuple(config.get("sources") or ())
    where = f"run {run.id}"
    if not sources or any(isinstance(source, str) and source.startswith("<") for source in sources):
        raise UsageError(
            f"{where}: was started from Python objects. Give the files: seatrial run PATHS --resume {run.id}, "
            "or seatrial fork … --suite PATH"
        )
    agent = asked.agent if asked.agent is not None else config.get("agent")
    overrides = {**(config.get("overrides") or {}), **asked.overrides}
    if REDACTED in str(agent) or REDACTED in str(overrides):
        raise UsageError(
            f"{where}: secrets of its agent or models are not stored, so they must come from the files. "
            "Write ${NAME} there, and set the variable"
        )
    only = config.get("only")
    shard = config.get("shard")
    return replace(
        asked,
        sources=sources,
        agent=agent,
        overrides=overrides,
        scenario_text=tuple(config.get("scenario_text") or ()),
        tags=tuple(config.get("tags") or ()),
        only=None if only is None else frozenset((suite, name) for suite, name in only),
        shard=None if shard is None else (shard[0], shard[1]),
        sweep=config.get("sweep"),
        name=run.name,
    )


def find_resumed(store: Store, plan: RunPlan) -> Resumed:
    """The stored part of the run that the plan resumes. Raises UsageError if files or settings have changed."""
    request = plan.request
    assert request.resume is not None
    run = store.run(request.resume)
    if run.parent is not None:
        raise UsageError(
            f"run {run.id}: regrades run {run.parent}, so it cannot be resumed. "
            f"Start again: seatrial regrade {run.parent}"
        )
    if (run.config or {}).get("fork"):
        raise UsageError(f"run {run.id}: continues a stored conversation, so it cannot be resumed. Fork it again.")
    if missing := missing_shards(run):
        lacking = ", ".join(map(str, missing))
        raise UsageError(f"run {run.id}: shard {lacking} is missing. Import it first: seatrial import FILE")
    _require_same(store, run, plan)
    answers: dict[ScenarioKey, Mapping[int, bool | None]] = {}
    replaced: dict[tuple[ScenarioKey, int], tuple[ErrorInfo, ...]] = {}
    stored: dict[ScenarioKey, int] = {}
    spent = 0.0
    alike: dict[tuple[tuple[int, bool | None], ...], Mapping[int, bool | None]] = {}
    for key, summaries in groupby(store.summaries(run.id), key=lambda summary: summary.key):
        said: dict[int, bool | None] = {}
        for summary in summaries:
            spent += _cost(summary)
            if _is_repeated(summary, request):
                replaced[key, summary.index] = _agents_errors(store, run, summary)
            else:
                said[summary.index] = answer_of(summary)
        stored[key] = len(said)
        # Most scenarios have equal answers. Sharing them saves memory in large runs.
        answers[key] = alike.setdefault(tuple(said.items()), said)
    for entry in store.entries(run.id):
        stored.setdefault(entry.key, 0)
    return Resumed(run=run, answers=answers, replaced=replaced, stored=stored, spent_usd=spent)


def _is_repeated(summary: TrialSummary, request: RunRequest) -> bool:
    if summary.status is not Status.ERRORED:
        return False
    is_agents = answer_of(summary) is False
    return request.retry_agent_errors or (request.retry_errors and not is_agents)


def _agents_errors(store: Store, run: Run, summary: TrialSummary) -> tuple[ErrorInfo, ...]:
    """The agent's errors in all tries of the trial so far."""
    if answer_of(summary) is None:
        return ()
    trial = store.trial(run.id, summary.key, summary.index)
    earlier = trial.transcript.earlier
    return earlier if trial.error is None or trial.error in earlier else (*earlier, trial.error)


def _cost(summary: TrialSummary) -> float:
    instruments = summary.instruments.cost_usd if summary.instruments else None
    return (summary.cost_usd or 0.0) + (instruments or 0.0)


def _require_same(store: Store, run: Run, plan: RunPlan) -> None:
    """Raise UsageError if scenarios or settings have changed since the run started."""
    changed = _changed_settings(run, plan)
    if not _is_same_selection(store, run, plan):
        changed += _changed_scenarios(store, run, plan)
    planned = (run.config or {}).get("scenarios")
    if not changed and planned is not None and planned != plan.count()[0]:
        changed.append(f"there were {planned} scenarios, and now there are {plan.count()[0]}")
    if changed:
        shown = "; ".join(changed[:5]) + (f"; and {len(changed) - 5} more" if len(changed) > 5 else "")
        raise UsageError(
            f"run {run.id}: cannot be resumed, because it would not be the same run: {shown}. Start a new run instead."
        )


def _is_same_selection(store: Store, run: Run, plan: RunPlan) -> bool:
    """Whether the stored scenarios are the planned ones, or the first of them. Compares one by one to save memory."""
    entries = store.entries(run.id)
    for prepared in plan.scenarios():
        was, entry = next(entries, None), prepared.entry
        if was is None:
            if run.state is not RunState.RUNNING:
                return False
        elif (was.key, was.position, was.fingerprint) != (entry.key, entry.position, entry.fingerprint):
            return False
    return next(entries, None) is None


def _changed_scenarios(store: Store, run: Run, plan: RunPlan) -> list[str]:
    """Each scenario that is new, edited, moved or gone."""
    changed = []
    there = {entry.key: entry for entry in store.entries(run.id)}
    last = max((entry.position for entry in there.values()), default=-1)
    seen = set()
    for prepared in plan.scenarios():
        entry = prepared.entry
        was = there.get(entry.key)
        seen.add(entry.key)
        if was is None and (entry.position <= last or run.state is not RunState.RUNNING):
            changed.append(f"{entry.key.label} is new")
        elif was is not None and was.fingerprint != entry.fingerprint:
            changed.append(f"{entry.key.label} was edited (the scenario, its mocks or evaluators, or the agent)")
        elif was is not None and was.position != entry.position:
            changed.append(f"{entry.key.label} has moved")
    return changed + [f"{key.label} is gone" for key in there if key not in seen]


def _changed_settings(run: Run, plan: RunPlan) -> list[str]:
    """Settings of the run that changed since it started and could change its verdict."""
    config = run.config or {}
    now: dict[str, tuple[Any, Any]] = {
        "the gates of the run": (to_json(run.gates), to_json(plan.gates)),
        "the models": (config.get("models") or {}, redact_spec(to_json(plan.request.models))),
    }
    if plan.config.seed is not None:
        now["the seed"] = (run.seed, plan.config.seed)
    return [f"{what} changed" for what, (before, after) in now.items() if before != after]
