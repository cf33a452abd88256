"""Which runs are parts of one: `seatrial run --shard I/N` on several machines makes a run on each."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.run import Run, RunState, ScenarioKey, Status
from seatrial.model.struct import Struct

from . import schema
from .codec import decode, encode, read, write
from .database import Conflict, Connection, Connections, Row
from .trials import name_scenario, place_of

_OWN = ("shard", "shards", "command", "scenarios")
"""What each shard has for itself in its config."""
_TOGETHER = timedelta(days=1)
"""Shards that started further apart are of different runs."""


def is_shard(run: Run) -> bool:
    """Whether the run played only its share of the scenarios."""
    return _number(run) is not None


def find_whole(stored: Iterable[Run], shard: Run) -> Run | None:
    """The run of those that this one is part of, or may become part of; None when there is none."""
    if not is_shard(shard):
        return None
    for run in stored:
        parts = _parts(run)
        if not parts or not _is_family(run, shard):
            continue
        if shard.id in (part["id"] for part in parts.values()):
            return run
        if str(_number(shard)) not in parts and abs(run.started_at - shard.started_at) < _TOGETHER:
            return run
    return None


def merge_shard(whole: Run, shard: Run) -> Run:
    """The stored run with one more part. It is finished once every part is there and was finished."""
    parts = _parts(whole) | _parts(shard)
    of = (shard.config or {})["shard"][1]
    shards = {"of": of, "parts": parts}
    states = {RunState(part["state"]) for part in parts.values()}
    complete = len(parts) == of
    ends = (whole.finished_at, shard.finished_at)
    counts = [part["scenarios"] for part in parts.values()]
    return replace(
        whole,
        config={**(whole.config or {}), "shard": None, "shards": shards, "scenarios": sum(counts)},
        state=RunState.FINISHED if complete and states == {RunState.FINISHED} else RunState.INTERRUPTED,
        started_at=min(whole.started_at, shard.started_at),
        finished_at=max(end for end in ends if end is not None) if any(ends) else None,
        problem=whole.problem or shard.problem,
    )


def missing_shards(run: Run) -> list[int]:
    """The numbers of the shards that a merged run still lacks."""
    shards = (run.config or {}).get("shards")
    return [] if not shards else [each for each in range(1, shards["of"] + 1) if str(each) not in shards["parts"]]


def _number(run: Run) -> int | None:
    shard = (run.config or {}).get("shard")
    return None if not shard else int(shard[0])


def _parts(run: Run) -> dict[str, dict[str, Any]]:
    """By number: the shards that make up the run so far."""
    config = run.config or {}
    number = _number(run)
    if number is None:
        return dict((config.get("shards") or {}).get("parts") or {})
    return {str(number): {"id": run.id, "state": run.state.value, "scenarios": config.get("scenarios") or 0}}


def _is_family(run: Run, shard: Run) -> bool:
    return _common(run) == _common(shard)


def _common(run: Run) -> tuple[Any, ...]:
    config = run.config or {}
    shards = config.get("shards")
    of = shards["of"] if shards else (config.get("shard") or (None, None))[1]
    shared = {name: value for name, value in config.items() if name not in _OWN}
    return of, shared, run.gates, run.git_commit, run.parent, run.versions


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


def put_label(connection: Connection, label: Label) -> None:
    """Store the label inside the transaction under way; it takes the place of the person's earlier one."""
    scenario = name_scenario(label.key)
    if not connection.row(schema.BODY, place_of(label.run_id, label.key, label.index)):
        raise UsageError(
            f"run {label.run_id}: has no trial-{label.index + 1} of {label.key.label!r} to label. "
            f"See: seatrial show {label.run_id}"
        )
    place = (label.run_id, scenario, label.index, write(label.metric), write(label.who))
    connection.execute(schema.PUT_LABEL, (*place, encode(label)))


def read_labels(connection: Connection, run_id: str, *, key: ScenarioKey | None, metric: str | None) -> list[Label]:
    labels = [decode(Label, body) for (body,) in connection.rows(schema.LABELS, (run_id,))]
    return [
        label for label in labels if (key is None or label.key == key) and (metric is None or label.metric == metric)
    ]


_BATCH = 500
"""Runs that are counted in one question."""


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
    """What others read of a run's config. It may hold more."""

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
    models: dict[str, Any] | None = None
    command: str | None = None


class _Group(msgspec.Struct):
    """What a verdict reads of a group."""

    name: str
    suite: str | None = None
    tags: list[str] | None = None
    threshold: float = 1.0
    must_pass: list[str] | None = None


class RunRow(Struct, frozen=True, kw_only=True):
    """A run with the numbers of its trials, for lists."""

    run: Run
    scenarios: int
    passed: int
    failed: int
    errored: int
    trials: int
    """All that are stored."""


class UnknownRun(UsageError):
    """No stored run is what somebody called it."""


def check_run(run: Run) -> None:
    """Raises ValueError where config or groups have another form than those who read them expect."""
    msgspec.convert(run.config, _Config | None)
    msgspec.convert(run.gates.groups, list[_Group])


def insert_run(connection: Connection, run: Run) -> None:
    """Write a new run inside the transaction under way."""
    if not _can_be_id(run.id):
        raise UsageError(f"run id {run.id!r}: must be printable ASCII without spaces")
    try:
        connection.execute(schema.ADD_RUN, (run.id, write(run.name), _order(run), encode(run)))
    except Conflict as there:
        raise UsageError(
            f"run {run.id}: is stored already. To go on with it: seatrial run --resume {run.id}"
        ) from there


def change_state(connections: Connections, run_id: str, state: RunState, finished_at: datetime | None) -> None:
    with connections.transaction() as connection:
        connection.lock_run(run_id)
        run = read_run(connection, run_id)
        if run is None:
            raise StoreError(f"run {run_id}: is not in the store any more")
        if state is RunState.FINISHED and missing_shards(run):
            # Others of its parts were imported while this one was played, and one of them is still missing.
            state = RunState.INTERRUPTED
        rewrite_run(connection, replace(run, state=state, finished_at=finished_at))


def note_problem(connections: Connections, run_id: str, problem: str) -> None:
    with connections.transaction() as connection:
        connection.lock_run(run_id)
        run = read_run(connection, run_id)
        if run is None:
            raise StoreError(f"run {run_id}: is not in the store any more")
        rewrite_run(connection, replace(run, problem=run.problem or problem))


def rewrite_run(connection: Connection, run: Run) -> None:
    connection.execute(schema.CHANGE_RUN, (_order(run), encode(run), run.id))


def read_run(connection: Connection, run_id: str) -> Run | None:
    row = connection.row(schema.RUN, (run_id,)) if _can_be_id(run_id) else None
    return _read(run_id, row[0]) if row else None


def _read(run_id: str, body: bytes) -> Run:
    """The run of a row. Raises StoreError, which names it, where it cannot be read."""
    try:
        run = decode(Run, body)
        check_run(run)
    except (StoreError, ValueError) as broken:
        raise StoreError(damaged(run_id, broken)) from broken
    return run


def damaged(run_id: str, why: Exception) -> str:
    """What is said of a run whose rows cannot be read."""
    return f"run {run_id}: cannot be read: {why}. Other runs are not affected. To delete it: seatrial prune --damaged"


def _read_all(rows: Iterable[Row], problems: list[tuple[str, str]] | None) -> list[Run]:
    """The runs that can be read; `problems` is told of the others. Without `problems` they raise StoreError."""
    found = []
    for run_id, body in rows:
        try:
            found.append(_read(run_id, body))
        except StoreError as broken:
            if problems is None:
                raise
            problems.append((run_id, str(broken)))
    return found


def list_runs(
    connection: Connection, *, limit: int | None, name: str | None, problems: list[tuple[str, str]] | None = None
) -> list[Run]:
    """Newest first. `problems` gets the ids of those that cannot be read, each with what is wrong."""
    parameters: list[str | int] = [] if name is None else [write(name)]
    if limit is not None:
        parameters.append(limit)
    statement = {
        (False, False): schema.RUNS,
        (False, True): schema.RUNS_LIMITED,
        (True, False): schema.RUNS_NAMED,
        (True, True): schema.RUNS_NAMED_LIMITED,
    }[name is not None, limit is not None]
    return _read_all(connection.rows(statement, parameters), problems)


def count_trials(connection: Connection, found: Sequence[Run], *, key: ScenarioKey | None = None) -> list[RunRow]:
    """Each run with the numbers of its trials, or of one scenario's alone; in as few questions as possible."""
    rows: list[RunRow] = []
    for start in range(0, len(found), _BATCH):
        rows += _count_batch(connection, found[start : start + _BATCH], key)
    return rows


def _count_batch(connection: Connection, found: Sequence[Run], key: ScenarioKey | None) -> list[RunRow]:
    places = ", ".join("?" * len(found))
    ids = [run.id for run in found]
    scenarios = _pairs(connection.rows(schema.COUNT_SCENARIOS.format(runs=places), ids))
    counts: dict[str, dict[str, int]] = {}
    counted = (
        connection.rows(schema.COUNT_TRIALS.format(runs=places), ids)
        if key is None
        else connection.rows(schema.COUNT_TRIALS_OF_SCENARIO.format(runs=places), [*ids, name_scenario(key)])
    )
    for run_id, status, count in counted:
        counts.setdefault(run_id, {})[status] = count
    return [_row(run, counts.get(run.id, {}), scenarios=scenarios.get(run.id, 0)) for run in found]


def _row(run: Run, counts: dict[str, int], *, scenarios: int) -> RunRow:
    return RunRow(
        run=run,
        scenarios=scenarios,
        passed=counts.get(Status.PASSED, 0),
        failed=counts.get(Status.FAILED, 0),
        errored=counts.get(Status.ERRORED, 0),
        trials=sum(counts.values()),
    )


def find_run(connection: Connection, ref: str, *, where: str, suite: str | None) -> Run:
    """The run that a person means: `latest`, `baseline`, an id, a name (the newest), the beginning of an id."""
    if ref == "baseline":
        found = read_baseline(connection, suite)
        if found is None:
            raise UnknownRun(f"{where}: no baseline is set. Choose one: seatrial baseline set RUN")
        return found
    if ref == "latest":
        newest = list_runs(connection, limit=1, name=None)
    else:
        exact = read_run(connection, ref)
        newest = [exact] if exact else list_runs(connection, limit=1, name=ref)
    if newest:
        return newest[0]
    if ref != "latest" and _can_be_id(ref):
        starting = _read_all(connection.rows(schema.RUNS_BY_PREFIX, (len(ref), ref)), None)
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
    """Every baseline with its suite, the general one (None) among them."""
    rows = connection.rows(schema.BASELINES)
    return [(read(suite), run) for suite, *row in rows for run in _read_all([row], [])]


def delete_runs(connection: Connection, ids: Iterable[str], *, where: str, force: bool) -> int:
    """How many were deleted; all of them or none."""
    connection.own_contents()
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


def _unknown(connection: Connection, ref: str, where: str) -> UnknownRun:
    from difflib import get_close_matches  # only for an error text

    known = connection.rows(schema.RUN_NAMES)
    if not known:
        return UnknownRun(f"{where}: no run is stored yet, so there is no {ref!r}. Start one: seatrial run")
    ids, names = [run_id for run_id, _ in known], dict.fromkeys(read(name) for _, name in known)
    # Any two ids are much alike, since they begin with the time: only a slip in typing is taken for one that is meant.
    close = get_close_matches(ref, names, n=3, cutoff=0.5) or get_close_matches(ref, ids, n=3, cutoff=0.85)
    meant = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return UnknownRun(f"{where}: no run has the id or name {ref!r}.{meant} See: seatrial list runs")


def _can_be_id(text: str) -> bool:
    return text.isascii() and text.isprintable() and text != "" and " " not in text


def _order(run: Run) -> str:
    """The start in UTC and fixed width, so that text order is time order."""
    start = run.started_at if run.started_at.tzinfo else run.started_at.replace(tzinfo=UTC)
    return start.astimezone(UTC).isoformat(timespec="microseconds")


def _pairs(rows: list[Row]) -> dict[str, int]:
    return {str(run_id): int(count) for run_id, count in rows}
