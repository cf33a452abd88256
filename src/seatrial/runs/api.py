"""The public verbs of the Python API."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from msgspec.structs import fields, replace

from seatrial.errors import UsageError
from seatrial.model.run import RESERVED_NAMES, RunState
from seatrial.model.scenario import Scenario, Suite
from seatrial.scenarios.load import each_source
from seatrial.scenarios.load import load as load_suites
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.settings import models_from, not_redacted, read_settings
from seatrial.store.store import open_store

from .execute_run import execute, execute_async
from .report import Report, in_a_test, unsettled
from .request import RunRequest

if TYPE_CHECKING:
    from seatrial.model.comparison import Comparison, RegressionLimits
    from seatrial.model.mutation import MutationResult

Source = str | Path | Suite | Scenario

_FROM_SETTINGS = "settings"


def run(
    sources: Source | Sequence[Source],
    *,
    agent: Any = None,
    store: str | None = _FROM_SETTINGS,
    scenario: str | Sequence[str] = (),
    tag: str | Sequence[str] = (),
    name: str | None = None,
    against: str | None = None,
    **overrides: Any,
) -> Report:
    """Run files, folders, Suites or Scenarios against an agent, and report.

    `overrides` are keys of `suite.config`: trials=3, concurrency=5, and so on. `store=None` keeps nothing.
    `against="baseline"` tests against the history of accepted runs.

    Beside them, `faults=True` lets each tool fail in each way, one at a time, and `faults="search=timeout"` only this
    one. `faults={"select": "search=*", "occur": "always", "limit": 20}` also says how often a tool fails in a trial,
    and how many faults are played at most. `report.outcome.faults` is the table.
    """
    report = execute(_request(sources, agent, store, overrides, scenario=scenario, tag=tag, name=name, against=against))
    if report.run.state is RunState.INTERRUPTED:
        raise KeyboardInterrupt
    return _settled_by_test(report)


def attack(
    sources: Source | Sequence[Source],
    *,
    agent: Any = None,
    store: str | None = _FROM_SETTINGS,
    scenario: str | Sequence[str] = (),
    tag: str | Sequence[str] = (),
    families: Sequence[str] = (),
    limit: int | None = None,
    **overrides: Any,
) -> Report:
    """Attack an agent through tool results, as the `attacks` of files, Suites or Scenarios say, and report.

    `report.outcome.attacks` has the table and the rates. `families`, `trials` and `limit` are as in `seatrial attack`;
    `overrides` are keys of `suite.config`.
    """
    from .attack import attack_sweep

    trials = overrides.pop("trials", None)
    sweep = attack_sweep(families=families, trials=trials, limit=limit, seed=overrides.get("seed"))
    request = _request(sources, agent, store, overrides, scenario=scenario, tag=tag, name=None, against=None)
    report = execute(replace(request, sweep=sweep))
    if report.run.state is RunState.INTERRUPTED:
        raise KeyboardInterrupt
    return _settled_by_test(report)


async def arun(
    sources: Source | Sequence[Source],
    *,
    agent: Any = None,
    store: str | None = _FROM_SETTINGS,
    scenario: str | Sequence[str] = (),
    tag: str | Sequence[str] = (),
    name: str | None = None,
    against: str | None = None,
    **overrides: Any,
) -> Report:
    """`run`, on the event loop that is running."""
    report = await execute_async(
        _request(sources, agent, store, overrides, scenario=scenario, tag=tag, name=name, against=against)
    )
    return _settled_by_test(report)


def _settled_by_test(report: Report) -> Report:
    """The report. In a pytest test the plugin asks at the end whether the test asserts its verdict."""
    if in_a_test():
        report.asserted = False
        unsettled.append(report)
    return report


def check(report: Report) -> Report:
    """The report, if the run passed. Raises AssertionError with the reasons where it did not."""
    report.asserted = True
    if not report.passed:
        raise AssertionError(f"run {report.run.id}: {report.status}\n" + "\n".join(report.failure_reasons))
    return report


def load(sources: Source | Sequence[Source]) -> list[LoadedSuite]:
    """The suites of files, folders and objects, checked. Raises UsageError with everything that is wrong."""
    return load_suites(sources)


def compare(
    base: str | Report,
    candidate: str | Report,
    *,
    store: str = _FROM_SETTINGS,
    allow_unfinished: bool = False,
    **limits: float,
) -> "Comparison":
    """Two runs side by side: reports, or stored runs by id, name, `latest` or `baseline`.

    `limits` are max_pass_rate_drop (0.0), max_avg_score_drop (5.0), max_latency_increase_pct (20) and
    max_cost_increase_pct (no limit).
    Raises UsageError where the two cannot be compared.
    """
    from seatrial.comparison.compare import compare_runs

    from .compare_runs import StoredRuns, find_differences, side_of

    allowed = _limits(limits)
    if isinstance(base, Report) and isinstance(candidate, Report):
        before, now = side_of(base.record), side_of(candidate.record)
        differences = find_differences(before, now)
        return compare_runs(before, now, limits=allowed, differences=differences, allow_unfinished=allow_unfinished)
    place = read_settings(Path.cwd(), dict(os.environ))["store"] if store == _FROM_SETTINGS else store
    _require("compare: store", place, (str, Path), "a path or an address")
    names = [run.run.id if isinstance(run, Report) else run for run in (base, candidate)]
    for name in names:
        _require("compare", name, (str,), "a Report, or a stored run by its id or name")
    with open_store(place) as opened:
        return StoredRuns(opened, *names).compare(limits=allowed, allow_unfinished=allow_unfinished)


def mutate(
    run: str | Report = "latest",
    sources: Source | Sequence[Source] = (),
    *,
    store: str = _FROM_SETTINGS,
    **settings: Any,
) -> "MutationResult":
    """Break the passed trials of a run in known ways, and count what the checks notice. No agent is called.

    `run` is a report, or a stored run by id, name or `latest`. `sources` are the files, Suites or Scenarios with the
    checks; the default is the files of the run. `settings` are operators, per_operator (10), limit (10,000), seed (0),
    judges (False) and budget. Raises UsageError if there is nothing to mutate.
    """
    from .compare_runs import newest_run
    from .mutate import MutationSettings, mutate_record
    from .report import MemoryRecord, StoredRecord

    known = [field.name for field in fields(MutationSettings)]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise UsageError(f"mutate: unknown setting {unknown[0]!r}. Known: {', '.join(known)}.")
    chosen = MutationSettings(**settings)
    _require("mutate", run, (str, Report), "a Report, or a stored run by its id or name")
    request = _request(sources, None, store, {}, scenario=(), tag=(), name=None, against=None)
    if isinstance(run, Report) and isinstance(run.record, MemoryRecord):
        return mutate_record(run.record, replace(request, store=None), chosen)
    assert request.store is not None
    with open_store(request.store) as opened:
        if isinstance(run, Report):
            found = opened.run(run.run.id)
        else:
            found = newest_run(opened) if run == "latest" else opened.run(run)
        return mutate_record(StoredRecord(opened, found), request, chosen)


def _limits(given: dict[str, float]) -> "RegressionLimits":
    from seatrial.model.comparison import RegressionLimits

    known = [field.name for field in fields(RegressionLimits)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UsageError(f"compare: unknown limit {unknown[0]!r}. Known: {', '.join(known)}.")
    for name, limit in given.items():
        _require(f"compare: {name}", limit, (int, float), "a number")
    return RegressionLimits(**given)


def _request(
    sources: Any,
    agent: Any,
    store: str | None,
    overrides: dict[str, Any],
    *,
    scenario: Any,
    tag: Any,
    **more: str | None,
) -> RunRequest:
    _require("run: store", store, (str, Path, NoneType), "a path, an address, or None to keep nothing")
    name, against = more["name"], more["against"]
    _require("run: name", name, (str, NoneType), "a text")
    _require("run: against", against, (str, NoneType), "`baseline`, or a stored run by its id or name")
    if name is not None and (not name.strip() or name in RESERVED_NAMES):
        raise UsageError(f"run: name {name!r}: expected a name; not blank, latest or baseline, which mean other runs")
    environ = dict(os.environ)
    settings = read_settings(Path.cwd(), environ)
    config = {key: value for key, value in overrides.items() if key != "faults"}
    return RunRequest(
        sources=tuple(each_source(sources)),
        agent=agent,
        overrides=config,
        scenario_text=_several("scenario", scenario),
        tags=_several("tag", tag),
        name=name,
        against=against,
        sweep=_read_faults(overrides.get("faults"), config),
        store=settings["store"] if store == _FROM_SETTINGS else store,
        cache=settings["cache"],
        environ=environ,
        models=models_from(settings),
        default_agent=settings["agent"],
        not_redacted=not_redacted(settings),
    )


def _read_faults(faults: Any, overrides: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sweep that `faults` asks for; None without one. Raises UsageError."""
    if faults is None or faults is False:
        return None
    from .faults import read_faults

    if faults is True:
        faults = "*"
    return read_faults({"select": faults} if isinstance(faults, str) else faults, overrides)


def _several(where: str, given: str | Sequence[str]) -> tuple[str, ...]:
    several = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for one in several:
        _require(f"run: {where}", one, (str,), "a text or a list of texts")
    return several


def _require(where: str, given: Any, kinds: tuple[type, ...], expected: str) -> None:
    if not isinstance(given, kinds) or isinstance(given, bool):
        raise UsageError(f"{where}: expected {expected}, got {given!r:.80} ({type(given).__name__})")
