"""Trials as rows: columns for lists and verdicts, and a body with the whole trial.

Parts of a body that are large are stored by their hash in `contents`, each once.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from msgspec import UNSET

from seatrial.errors import StoreError, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import ScenarioKey, Status, Trial, TrialSummary, summarise
from seatrial.model.struct import Struct

from . import schema
from .codec import ENVELOPE, Fetch, decode, encode, read, some_fields, to_document, write
from .database import Conflict, Connection, ConnectionPool, Row

_LARGE = 16_384
"""Parts above this size, in bytes, are stored by their hash."""
_SYSTEM = 1_024
"""The same for the system prompt of a judge, which many trials share."""
_SUMMARY_PAGE = 5_000
_BODY_PAGE = 50
_IN_DETAILS = (
    *("failure_reasons", "error_message", "counts_as_failed", "scores", "outcomes_unavailable", "failures"),
    *("instruments", "tools", "invariants", "drift", "turn_latencies_ms", "attack", "fault"),
)
"""Fields of a summary without a column of their own."""
_NUMBERS = ("turns", "overall_score", "latency_ms", "median_latency_ms", "tokens", "cost_usd", "duration_ms")
_MAX_NUMBER = 2.0**63
_Details = some_fields("Details", TrialSummary, (*_IN_DETAILS, *_NUMBERS))
"""The column `details`: fields without a column, and numbers that no database can hold."""

Path = tuple[str | int, ...]


@lru_cache(maxsize=4096)
def write_key(key: ScenarioKey) -> str:
    """The key as it is stored: ASCII JSON."""
    return write(list(key))


@lru_cache(maxsize=4096)
def name_scenario(key: ScenarioKey) -> str:
    """The key's hash. Names themselves may be too long for an index, or contain a NUL."""
    return blake2b(write_key(key).encode("ascii"), digest_size=16).hexdigest()


def place_of(run_id: str, key: ScenarioKey, index: int) -> Row:
    """The parameters that select a trial: its run, run and scenario (for the scenario's number), and its index."""
    return run_id, run_id, name_scenario(key), index


class TrialRows(Struct, frozen=True, kw_only=True):
    """Everything that is written for one trial."""

    key: ScenarioKey
    index: int
    columns: Row
    body: bytes
    contents: dict[str, bytes]


def make_rows(trial: Trial) -> TrialRows:
    """The rows of a trial."""
    body, contents = pack_document(to_document(trial))
    return TrialRows(key=trial.key, index=trial.index, columns=_columns(summarise(trial)), body=body, contents=contents)


def insert_trials(
    connection: Connection, run_id: str, group: Sequence[TrialRows], *, replaced: Iterable[TrialRows] = ()
) -> None:
    """Write trials inside the current transaction. Stored trials in the places of `replaced` are deleted first."""
    contents = {name: body for rows in group for name, body in rows.contents.items()}
    if contents:
        connection.database.lock_contents(connection, shared=True)  # before any row, as `delete_runs` does
    for rows in replaced:
        place = place_of(run_id, rows.key, rows.index)
        connection.execute(schema.DROP_TRIAL, place)
        connection.execute(schema.DROP_BODY, place)
    placed = [(place_of(run_id, rows.key, rows.index), rows) for rows in group]
    connection.insert(schema.ADD_TRIAL, [(*place, *rows.columns) for place, rows in placed])
    connection.insert(schema.ADD_BODY, [(*place, rows.body) for place, rows in placed])
    if contents:
        # In the order of their hashes, so that processes that insert the same contents cannot deadlock.
        connection.insert(schema.ADD_CONTENT, sorted(contents.items()))
        connection.insert(schema.ADD_CONTENT_USE, [(run_id, name) for name in sorted(contents)])


def explain_conflict(
    connection: Connection, run_id: str, group: Iterable[tuple[Trial, bool]], conflict: Conflict
) -> StoreError:
    """Which trial of a refused group is the cause, and why. Each trial comes with whether it may replace another."""
    for trial, may_replace in group:
        where = f"run {run_id}: {trial.id} of {trial.key.label!r}"
        if not may_replace and connection.row(schema.BODY, place_of(run_id, trial.key, trial.index)):
            return StoreError(f"{where}: is stored already. To play errored trials again: --resume RUN --retry-errors")
        if not connection.row(schema.SCENARIO, (run_id, name_scenario(trial.key))):
            return StoreError(f"{where}: the scenario is not among those of the run, or the run was deleted")
    return StoreError(f"run {run_id}: the same trial was handed in twice: {conflict}")


def read_trials(pool: ConnectionPool, run_id: str, key: ScenarioKey) -> Iterator[Trial]:
    """The trials of a scenario, by index."""
    for _, _, body in _body_rows(pool, run_id, key, _BODY_PAGE):
        yield _unpack(pool, body)


def read_trial(pool: ConnectionPool, run_id: str, key: ScenarioKey, index: int) -> Trial:
    """One trial. Raises UsageError when it is not stored."""
    with pool.one() as connection:
        row = connection.row(schema.BODY, place_of(run_id, key, index))
    if row is None:
        raise UsageError(f"run {run_id}: has no trial-{index + 1} of {key.label!r}. See: seatrial show {run_id}")
    return _unpack(pool, row[0])


def read_summaries(pool: ConnectionPool, run_id: str, key: ScenarioKey | None) -> Iterator[TrialSummary]:
    """The summaries by scenario, in the order in which the scenarios were added, and by index."""
    pages = _pages(pool, schema.SUMMARY_PAGE, schema.SUMMARY_PAGE_OF_SCENARIO, run_id, key, _SUMMARY_PAGE)
    for page in pages:
        if page:
            yield from read_summary_rows(page, _read_keys(pool, run_id, page[0][0], page[-1][0]))


def read_summary_rows(rows: Sequence[Row], keys: Mapping[int, ScenarioKey]) -> Iterator[TrialSummary]:
    """The summaries of rows: number of the scenario, index and columns. `keys` has the scenarios by number."""
    for number, index, *columns in rows:
        yield _summary(keys[number], index, columns)


def _pages(
    pool: ConnectionPool, of_run: str, of_scenario: str, run_id: str, key: ScenarioKey | None, size: int
) -> Iterator[list[Row]]:
    """Rows of all trials, or of those of one scenario: number of the scenario, index, and more."""
    if key is None:
        return pool.pages(of_run, (run_id,), after=(-1, -1), size=size)
    return pool.pages(of_scenario, (run_id, run_id, name_scenario(key)), after=(-1, -1), size=size)


def _body_rows(pool: ConnectionPool, run_id: str, key: ScenarioKey | None, size: int) -> Iterator[Row]:
    for page in _pages(pool, schema.BODY_PAGE, schema.BODY_PAGE_OF_SCENARIO, run_id, key, size):
        yield from page


def _read_keys(pool: ConnectionPool, run_id: str, first: int, last: int) -> dict[int, ScenarioKey]:
    with pool.one() as connection:
        rows = connection.rows(schema.NUMBERS, (run_id, first, last))
    return {number: ScenarioKey(*read(written)) for number, written in rows}


def pack_document(document: dict[str, Any]) -> tuple[bytes, dict[str, bytes]]:
    """The body of a trial's document, and its large parts by their hashes."""
    body = write(document).encode("ascii")
    exchanges = list(_exchanges(document))
    if len(body) <= _LARGE and not exchanges:
        return body, {}
    contents: dict[str, bytes] = {}
    places: dict[Path, str] = {}

    def set_apart(holder: dict[str, Any], path: Path, *names: str, above: int = _LARGE) -> None:
        for name in names:
            part = (*path, name)
            inside = {place[len(part) :]: hashed for place, hashed in places.items() if place[: len(part)] == part}
            text = write(holder.get(name), inside).encode("ascii")
            if len(text) > above:
                hashed = blake2b(text, digest_size=20).hexdigest()
                contents[hashed] = text
                for place in inside:
                    del places[*part, *place]
                places[part] = hashed
                holder[name] = None

    for path, exchange in exchanges:
        set_apart(exchange, path, "system", above=_SYSTEM)
    for number, turn in enumerate(document["transcript"]["turns"]):
        for kind in ("attachments", "reply_attachments"):
            for place, each in enumerate(turn.get(kind) or ()):
                set_apart(each, ("transcript", "turns", number, kind, place), "data")
        for place, call in enumerate(turn.get("tool_calls") or ()):
            set_apart(call, ("transcript", "turns", number, "tool_calls", place), "arguments", "result", "changes")
    set_apart(document["transcript"], ("transcript",), "history", "state", "world", "recorded")
    set_apart(document, (), "transcript", "results", "judgement")
    return write(document, places).encode("ascii"), contents


def _exchanges(document: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """What judges were sent. All trials of a scenario have the same system prompt."""
    judged: list[tuple[Path, Any]] = [(("judgement",), document.get("judgement"))]
    judged += [(("results", place), result) for place, result in enumerate(document.get("results") or ())]
    for path, one in judged:
        if one and one.get("exchange"):
            yield (*path, "exchange"), one["exchange"]


def fetch_through(connection: Connection) -> Fetch:
    """A function that reads contents by their hashes."""

    def fetch(hashed: str) -> bytes:
        row = connection.row(schema.CONTENT, (hashed,))
        if row is None:
            raise StoreError(f"a trial refers to the content {hashed}, which is not stored; the store is damaged")
        found: bytes = row[0]
        return found

    return fetch


def _fetch_from(pool: ConnectionPool) -> Fetch:
    def fetch(hashed: str) -> bytes:
        with pool.one() as connection:
            return fetch_through(connection)(hashed)

    return fetch


def _unpack(pool: ConnectionPool, body: bytes) -> Trial:
    return decode(Trial, body, fetch=_fetch_from(pool))


def _columns(summary: TrialSummary) -> Row:
    """The columns from `status` on."""
    numbers = {name: getattr(summary, name) for name in _NUMBERS}
    details = {name: value for name in _IN_DETAILS if (value := getattr(summary, name))}
    # `not <`, since every comparison with NaN is false.
    details |= {name: value for name, value in numbers.items() if value and not abs(value) < _MAX_NUMBER}
    return (
        str(summary.status),
        str(summary.error_kind) if summary.error_kind else None,
        summary.stop_reason,
        None if summary.trajectory_matched is None else int(summary.trajectory_matched),
        summary.started_at.isoformat(),
        *(0 if name in details else value for name, value in numbers.items()),
        encode(_Details(**details)) if details else None,
    )


def _summary(key: ScenarioKey, index: int, columns: Row) -> TrialSummary:
    status, error_kind, stop_reason, matched, started_at, *numbers, details = columns
    fields = dict(zip(_NUMBERS, numbers, strict=True))
    if details is not None:
        found = decode(_Details, bytes(details))
        fields |= {name: value for name in _Details.__struct_fields__ if (value := getattr(found, name)) is not UNSET}
    return TrialSummary(
        key=key,
        index=index,
        status=Status(status),
        error_kind=ErrorKind(error_kind) if error_kind else None,
        stop_reason=stop_reason,
        trajectory_matched=None if matched is None else bool(matched),
        started_at=datetime.fromisoformat(started_at),
        **fields,
    )


MAX_SEARCH_BYTES: Final = 32 * 1024 * 1024
_SEARCH_PAGE = 1_000
_WORD = re.compile("[a-z0-9_.@/+#-]+")
"""Characters that stand in a body as they were said: JSON escapes none of them."""


class SearchResult(Struct, frozen=True, kw_only=True):
    """The trials that contain a text."""

    trials: frozenset[tuple[ScenarioKey, int]]
    searched: int
    """The number of trials that were searched, from the first on."""
    complete: bool
    """Whether all trials were searched."""


def search_trials(
    pool: ConnectionPool, run_id: str, text: str, *, key: ScenarioKey | None = None, max_bytes: int = MAX_SEARCH_BYTES
) -> SearchResult:
    """The trials with the text in a user message, a reply or a tool call, in any case; of one scenario or of all.

    Stops after `max_bytes` of bodies, so that a search of a large run stays fast.
    """
    wanted = text.lower()
    word = max(_WORD.findall(wanted), key=len, default="").encode("ascii")
    fetch = _fetch_from(pool)
    found: list[tuple[int, int]] = []
    searched, read_bytes, complete = 0, 0, True
    for number, index, stored in _body_rows(pool, run_id, key, _SEARCH_PAGE):
        if read_bytes >= max_bytes:
            complete = False
            break
        body = bytes(stored)
        read_bytes += len(body)
        searched += 1
        # Parsing takes ten times as long as searching the bytes for a word.
        if (word in body.lower() or body.startswith(ENVELOPE)) and _contains(read(body, fetch=fetch), wanted):
            found.append((number, index))
    keys = _read_keys(pool, run_id, found[0][0], found[-1][0]) if found else {}
    trials = frozenset((keys[number], index) for number, index in found)
    return SearchResult(trials=trials, searched=searched, complete=complete)


def _contains(trial: dict[str, Any], wanted: str) -> bool:
    turns = trial["transcript"].get("turns", ())
    return any(wanted in text.lower() for turn in turns for text in _texts(turn))


def _texts(turn: dict[str, Any]) -> Iterator[str]:
    yield turn.get("user") or ""
    yield turn.get("reply") or ""
    for call in turn.get("tool_calls") or ():
        # As the pages show a call.
        yield f"{call['name']}({json.dumps(call.get('arguments'), ensure_ascii=False, default=str)})"
