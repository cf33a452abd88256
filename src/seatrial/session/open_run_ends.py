"""How a run that stays open begins and ends: its record, its gates, and the scenarios that nobody played."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from seatrial.clock import now
from seatrial.scenarios import LoadedSuite, make_entry
from seatrial.store import open_store
from seatrial.vocabulary.run import Run, RunGates, RunState, ScenarioEntry, ScenarioKey
from seatrial.vocabulary.scenario import Scenario

from .casting import describe_agent
from .open_run import Casting
from .planning import merge_run_configs
from .project import find_commit, versions
from .records import Report, StoredRecord
from .request import RunRequest
from .snapshot import plain, redact_spec


def new_run(
    request: RunRequest, run_id: str, *, seed: int, gates: RunGates, folder: Path, replayed: bool = False
) -> Run:
    """A run that is about to begin."""
    commit = find_commit(folder).wait()
    return Run(
        id=run_id,
        name=request.name or "pytest",
        started_at=now(),
        seed=seed,
        gates=gates,
        config={
            "sources": list(request.sources),
            "agent": None if request.agent is None else redact_spec(request.agent),
            "overrides": plain(request.overrides),
            "models": redact_spec(plain(request.models)),
            "command": request.command,
        },
        git_commit=commit.sha,
        git_dirty=commit.dirty,
        versions=versions(),
        replayed=replayed,
    )


def choose_seed(selected: Sequence[LoadedSuite]) -> int | None:
    """What the suites say; each may come once for each of its scenarios."""
    return merge_run_configs(list({id(loaded): loaded for loaded in selected}.values())).seed


def run_gates(selected: Sequence[tuple[LoadedSuite, Scenario]]) -> RunGates:
    """The gates of the suites, over the scenarios that were selected: what nobody plays cannot be asked for."""
    suites = list({id(loaded): loaded for loaded, _ in selected}.values())
    if not suites:
        return RunGates()
    config = merge_run_configs(suites)
    tags = {(id(loaded), tag) for loaded, scenario in selected for tag in scenario.tags}
    names = {(id(loaded), scenario.name) for loaded, scenario in selected}
    groups = [
        {
            "suite": loaded.name,
            "name": group.name,
            "tags": [tag for tag in group.tags if (id(loaded), tag) in tags],
            "threshold": group.threshold,
            "must_pass": [name for name in group.must_pass if (id(loaded), name) in names],
        }
        for loaded in suites
        for group in loaded.suite.groups
    ]
    return RunGates(
        cases_pass_threshold=config.cases_pass_threshold,
        metrics_pass_threshold=config.metrics_pass_threshold,
        groups=tuple(group for group in groups if group["tags"] or group["must_pass"]),
    )


def end_run(store: str, run_id: str, state: RunState, *, left_out: Sequence[ScenarioEntry] = ()) -> Report:
    """Mark the run as ended, and report what it came to, with the scenarios that nobody played."""
    opened = open_store(store)
    ended = now()
    if left_out:
        known = {entry.key for entry in opened.entries(run_id)}
        opened.add_scenarios(run_id, [entry for entry in left_out if entry.key not in known])
    opened.finish_run(run_id, state, ended)
    return Report(StoredRecord(opened, opened.run(run_id)))


def left_out(casting: Casting, *, skip: str | None = None) -> ScenarioEntry:
    """What a run keeps of a scenario that nobody plays: skipped for a reason, or else kept from it by a mistake."""
    scenario, loaded = casting.scenario, casting.loaded
    return make_entry(
        scenario if skip is None else replace(scenario, skip=skip),
        key=ScenarioKey(casting.suite or loaded.name, casting.name or scenario.name, casting.agent_name),
        agent_key="" if casting.agent is None else describe_agent(casting.agent),
        evaluators=loaded.evaluators,
        position=casting.position,
    )
