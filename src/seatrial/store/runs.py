"""Runs as rows, with their baselines, labels and merged errors; and the shards that make up one run.

`seatrial run --shard I/N` on several machines makes a run on each. Imported into one store, they become one run.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.run import HumanRate, MergedErrors, Run, RunState, ScenarioKey, Status
from seatrial.model.struct import Struct

from . import schema
from .codec import decode, encode, read, write
from .database import Conflict, Connection, ConnectionPool, Row
from .trials import name_scenario, place_of

_COUNT_BATCH = 500
"""The number of runs that one statement counts."""


class RunRow(Struct, frozen=True, kw_only=True):
    """A run with the numbers of its trials, for lists."""

    run: Run
    scenarios: int
    passed: int
    failed: int
    errored: int
    trials: int
    """All stored trials."""


class Label(Struct, frozen=True, kw_only=True):
    """One person's opinion of one trial."""

    run_id: str
    key: ScenarioKey
    index: int
    metric: str
    """A metric, or a name for the trial as a whole, such as `passed`."""
    value: float
    """On the metric's scale; 1 and 0 for yes and no."""
    who: str
    at: datetime


class UnknownRun(UsageError):
    """No stored run has this id or name."""


def insert_run(connection: Connection, run: Run) -> None:
    """Write a new run inside the current transaction."""
    if not _can_be_id(run.id):
        raise UsageError(f"run id {run.id!r}: must be printable ASCII without spaces")
    try:
        connection.execute(schema.ADD_RUN, (run.id, write(run.name), _start(run), encode(run)))
    except Conflict as conflict:
        raise UsageError(
            f"run {run.id}: is stored already. To go on with it: seatrial run --resume {run.id}"
        ) from conflict


def rewrite_run(connection: Connection, run: Run) -> None:
    connection.execute(schema.CHANGE_RUN, (_start(run), encode(run), run.id))


def change_state(pool: ConnectionPool, run_id: str, state: RunState, finished_at: datetime | None) -> None:
    with pool.transaction() as connection:
        run = _lock_run(connection, run_id)
        if state is RunState.FINISHED and missing_shards(run):
            # Other shards were imported while this one was played, and one is still missing.
            state = RunState.INTERRUPTED
        rewrite_run(connection, replace(run, state=state, finished_at=finished_at))


def note_problem(pool: ConnectionPool, run_id: str, problem: str) -> None:
    with pool.transaction() as connection:
        run = _lock_run(connection, run_id)
        rewrite_run(connection, replace(run, problem=run.problem or problem))


def keep_human_rate(pool: ConnectionPool, run_id: str, rate: HumanRate) -> None:
    with pool.transaction() as connection:
        rewrite_run(connection, replace(_lock_run(connection, run_id), human_rate=rate))


def _lock_run(connection: Connection, run_id: str) -> Run:
    connection.database.lock_run(connection, run_id)
    run = read_run(connection, run_id)
    if run is None:
        raise StoreError(f"run {run_id}: is not in the store any more")
    return run


def delete_runs(connection: Connection, ids: Iterable[str], *, where: str, force: bool) -> int:
    """The number of deleted runs: all of them, or none."""
    connection.database.lock_contents(connection, shared=False)
    wanted = list(dict.fromkeys(ids))
    for run_id in wanted:
        if not connection.row(schema.HAS_RUN, (run_id,)):
            raise _unknown(connection, run_id, where)
        if not force and connection.row(schema.BASELINES_OF_RUN, (run_id,)):
            raise UsageError(f"{where}: run {run_id} is a baseline. Choose another baseline first, or force it.")
    for run_id in wanted:
        for statement in schema.DROP_RUN:
            connection.execute(statement, (run_id,))
    connection.execute(schema.DROP_UNUSED_CONTENTS)
    return len(wanted)


def read_run(connection: Connection, run_id: str) -> Run | None:
    row = connection.row(schema.RUN, (run_id,)) if _can_be_id(run_id) else None
    return _read(*row) if row else None


def list_runs(
    connection: Connection,
    *,
    limit: int | None = None,
    name: str | None = None,
    problems: list[tuple[str, str]] | None = None,
) -> list[Run]:
    """Newest first. `problems` gets the ids of the runs that cannot be read, each with the reason."""
    most = schema.NO_LIMIT if limit is None else limit
    if name is None:
        return _read_all(connection.rows(schema.RUNS, (most,)), problems)
    return _read_all(connection.rows(schema.RUNS_NAMED, (write(name), most)), problems)


def find_run(connection: Connection, ref: str, *, where: str, suite: str | None) -> Run:
    """The run for `latest`, `baseline`, an id, a name (the newest of it), or the beginning of an id."""
    if ref == "baseline":
        found = read_baseline(connection, suite)
        if found is None:
            raise UnknownRun(f"{where}: no baseline is set. Set one: seatrial baseline set RUN")
        return found
    if ref == "latest":
        newest = list_runs(connection, limit=1)
    else:
        exact = read_run(connection, ref)
        newest = [exact] if exact else list_runs(connection, limit=1, name=ref)
    if newest:
        return newest[0]
    if ref != "latest" and _can_be_id(ref):
        starting = _read_all(connection.rows(schema.RUNS_BY_PREFIX, (len(ref), ref, 10)), None)
        if len(starting) > 1:
            ids = ", ".join(run.id for run in starting)
            raise UsageError(f"{where}: several runs begin with {ref!r}: {ids}. Give more of the id.")
        if starting:
            return starting[0]
    raise _unknown(connection, ref, where)


def read_baseline(connection: Connection, suite: str | None) -> Run | None:
    """The suite's own baseline, else the general one."""
    for name in (suite, None):
        row = connection.row(schema.BASELINE, (write(name),))
        if row:
            return _read(*row)
    return None


def list_baselines(connection: Connection) -> list[tuple[str | None, Run]]:
    """Every baseline with its suite; None for the general one."""
    rows = connection.rows(schema.BASELINES)
    return [(read(suite), run) for suite, *row in rows for run in _read_all([row], [])]


def count_trials(connection: Connection, runs: Sequence[Run], *, key: ScenarioKey | None = None) -> list[RunRow]:
    """Each run with the numbers of its trials, or of the trials of one scenario."""
    rows: list[RunRow] = []
    for start in range(0, len(runs), _COUNT_BATCH):
        rows += _count_batch(connection, runs[start : start + _COUNT_BATCH], key)
    return rows


def _count_batch(connection: Connection, runs: Sequence[Run], key: ScenarioKey | None) -> list[RunRow]:
    places = ", ".join("?" * len(runs))
    ids = [run.id for run in runs]
    planned = {row[0]: row[1] for row in connection.rows(schema.COUNT_SCENARIOS.format(runs=places), ids)}
    counts: dict[str, dict[str, int]] = {run_id: {} for run_id in ids}
    counted = (
        connection.rows(schema.COUNT_TRIALS.format(runs=places), ids)
        if key is None
        else connection.rows(schema.COUNT_TRIALS_OF_SCENARIO.format(runs=places), [*ids, name_scenario(key)])
    )
    for run_id, status, count in counted:
        counts[run_id][status] = count
    return [
        RunRow(
            run=run,
            scenarios=planned.get(run.id, 0),
            passed=counts[run.id].get(Status.PASSED, 0),
            failed=counts[run.id].get(Status.FAILED, 0),
            errored=counts[run.id].get(Status.ERRORED, 0),
            trials=sum(counts[run.id].values()),
        )
        for run in runs
    ]


def put_label(connection: Connection, label: Label) -> None:
    """Store a label inside the current transaction. It replaces the person's earlier one of the same metric."""
    if not connection.row(schema.BODY, place_of(label.run_id, label.key, label.index)):
        raise UsageError(
            f"run {label.run_id}: has no trial-{label.index + 1} of {label.key.label!r} to label. "
            f"See: seatrial show {label.run_id}"
        )
    place = (label.run_id, name_scenario(label.key), label.index, write(label.metric), write(label.who))
    connection.execute(schema.PUT_LABEL, (*place, encode(label)))


def read_labels(
    connection: Connection, run_id: str, *, key: ScenarioKey | None = None, metric: str | None = None
) -> list[Label]:
    labels = [decode(Label, body) for (body,) in connection.rows(schema.LABELS, (run_id,))]
    return [label for label in labels if key in (None, label.key) and metric in (None, label.metric)]


def put_merged(connection: Connection, run_id: str, merges: Iterable[MergedErrors]) -> None:
    """Store merged errors inside the current transaction. They replace the scenario's earlier ones."""
    rows = [(run_id, name_scenario(merged.key), encode(merged)) for merged in merges]
    for row in sorted(rows):  # in one order, so that two processes cannot deadlock
        connection.execute(schema.PUT_MERGED, row)


def read_merged(connection: Connection, run_id: str) -> list[MergedErrors]:
    return [decode(MergedErrors, body) for (body,) in connection.rows(schema.MERGED, (run_id,))]


def damaged(run_id: str, why: Exception) -> str:
    """The message about a run whose rows cannot be read."""
    return f"run {run_id}: cannot be read: {why}. Other runs are not affected. To delete it: seatrial prune --damaged"


def _read(run_id: str, body: bytes) -> Run:
    """The run of a row. Raises StoreError, with the run's id, when it cannot be read."""
    try:
        run = decode(Run, body)
        check_run(run)
    except (StoreError, ValueError) as error:
        raise StoreError(damaged(run_id, error)) from error
    return run


def _read_all(rows: Iterable[Row], problems: list[tuple[str, str]] | None) -> list[Run]:
    """The runs that can be read. The others go to `problems`; without it, they raise StoreError."""
    found = []
    for run_id, body in rows:
        try:
            found.append(_read(run_id, body))
        except StoreError as error:
            if problems is None:
                raise
            problems.append((run_id, str(error)))
    return found


def _unknown(connection: Connection, ref: str, where: str) -> UnknownRun:
    from difflib import get_close_matches  # only for an error text

    known = connection.rows(schema.RUN_NAMES, (1_000,))
    if not known:
        return UnknownRun(f"{where}: no run is stored yet, so there is no {ref!r}. Start one: seatrial run")
    ids, names = [run_id for run_id, _ in known], dict.fromkeys(read(name) for _, name in known)
    # All ids are similar, since they begin with the time: only one with a typing error counts as close.
    close = get_close_matches(ref, names, n=3, cutoff=0.5) or get_close_matches(ref, ids, n=3, cutoff=0.85)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return UnknownRun(f"{where}: no run has the id or name {ref!r}.{meant} See: seatrial list runs")


def _can_be_id(text: str) -> bool:
    return text.isascii() and text.isprintable() and text != "" and " " not in text


def _start(run: Run) -> str:
    """The start in UTC and fixed width, so that text order is time order."""
    start = run.started_at if run.started_at.tzinfo else run.started_at.replace(tzinfo=UTC)
    return start.astimezone(UTC).isoformat(timespec="microseconds")


_OF_ONE_SHARD = ("shard", "shards", "command", "scenarios")
"""Keys of the config in which the shards of one run differ."""
_MAX_DISTANCE = timedelta(days=1)
"""Shards that started further apart belong to different runs."""


class _RunSettings(msgspec.Struct):
    budget: float | None = None
    concurrency: int | None = None


class _Part(msgspec.Struct):
    id: str
    state: RunState
    scenarios: int


class _Shards(msgspec.Struct):
    of: int
    parts: dict[str, _Part]


class _Config(msgspec.Struct):
    """The keys of a run's config that other code reads. There may be more."""

    sources: list[Any] | None = None
    agents: dict[str, Any] | None = None
    baselines: dict[str, str] | None = None
    overrides: dict[str, Any] | None = None
    scenario_text: list[str] | None = None
    tags: list[str] | None = None
    only: list[tuple[str, str]] | None = None
    shard: tuple[int, int] | None = None
    shards: _Shards | None = None
    scenarios: int | None = None
    run: _RunSettings | None = None
    confirms: str | None = None
    fork: dict[str, Any] | None = None
    sweep: dict[str, Any] | None = None
    models: dict[str, Any] | None = None
    command: str | None = None


class _Group(msgspec.Struct):
    """The keys of a group that verdicts read."""

    name: str
    suite: str | None = None
    tags: list[str] | None = None
    threshold: float = 1.0
    must_pass: list[str] | None = None


def check_run(run: Run) -> None:
    """Raises ValueError when config or groups do not have the types that other code expects."""
    msgspec.convert(run.config, _Config | None)
    msgspec.convert(run.gates.groups, list[_Group])


def is_shard(run: Run) -> bool:
    """Whether the run played only its share of the scenarios."""
    return bool((run.config or {}).get("shard"))


def missing_shards(run: Run) -> list[int]:
    """The numbers of the shards that a merged run still lacks."""
    shards = (run.config or {}).get("shards")
    return [] if not shards else [each for each in range(1, shards["of"] + 1) if str(each) not in shards["parts"]]


def find_whole(stored: Iterable[Run], shard: Run) -> Run | None:
    """The stored run that this shard belongs to; None when there is none."""
    [(number, _)] = _parts(shard).items()
    for run in stored:
        parts = _parts(run)
        if not parts or _common(run) != _common(shard):
            continue
        if shard.id in (part["id"] for part in parts.values()):
            return run
        if number not in parts and abs(run.started_at - shard.started_at) < _MAX_DISTANCE:
            return run
    return None


def merge_shard(whole: Run, shard: Run) -> Run:
    """The stored run with one more shard. It is finished once every shard is there and was finished."""
    parts = _parts(whole) | _parts(shard)
    of = (shard.config or {})["shard"][1]
    finished = len(parts) == of and all(part["state"] == RunState.FINISHED for part in parts.values())
    scenarios = sum(part["scenarios"] for part in parts.values())
    shards = {"of": of, "parts": parts}
    return replace(
        whole,
        config={**(whole.config or {}), "shard": None, "shards": shards, "scenarios": scenarios},
        state=RunState.FINISHED if finished else RunState.INTERRUPTED,
        started_at=min(whole.started_at, shard.started_at),
        finished_at=max(filter(None, (whole.finished_at, shard.finished_at)), default=None),
        problem=whole.problem or shard.problem,
    )


def _parts(run: Run) -> dict[str, dict[str, Any]]:
    """The shards that make up the run, by number."""
    config = run.config or {}
    if not is_shard(run):
        return dict((config.get("shards") or {}).get("parts") or {})
    part = {"id": run.id, "state": run.state.value, "scenarios": config.get("scenarios") or 0}
    return {str(config["shard"][0]): part}


def _common(run: Run) -> tuple[Any, ...]:
    """What is equal in all shards of one run."""
    config = run.config or {}
    shards = config.get("shards")
    of = shards["of"] if shards else (config.get("shard") or (None, None))[1]
    shared = {name: value for name, value in config.items() if name not in _OF_ONE_SHARD}
    return of, shared, run.gates, run.git_commit, run.parent, run.versions
