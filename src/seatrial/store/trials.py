"""Which number a scenario has in the rows of a run."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from math import hypot
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import MergedErrors, ScenarioKey, Status, Trial, TrialSummary, summarise
from seatrial.model.struct import Struct

from . import schema
from .codec import ENVELOPE, Fetch, decode, encode, read, some_fields, to_document, write
from .database import Conflict, Connection, Connections, Row

_MOST_NUMBERS = 20_000


class Numbers:
    """The numbers of one run's scenarios: whoever added them knows them, the rest is looked up.

    To look them up where the rows are written would take a third of the time that the rows take.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._known: dict[str, int] = {}

    def add(self, names: Iterable[str], first: int) -> None:
        """These are in the run's rows now, numbered from `first`."""
        if len(self._known) >= _MOST_NUMBERS:
            self._known.clear()
        self._known.update(zip(names, count(first), strict=False))

    def of(self, connection: Connection, name: str) -> int | None:
        """None when the run has no such scenario."""
        if name not in self._known:
            row = connection.row(schema.NUMBER, (self.run_id, name))
            if row is None:
                return None
            self.add((name,), row[0])
        return self._known[name]


def put_merged(connection: Connection, run_id: str, merges: Iterable[MergedErrors]) -> None:
    """Store them inside the transaction under way; each takes the place of the scenario's earlier one."""
    rows = [(run_id, name_scenario(merged.key), encode(merged)) for merged in merges]
    for row in sorted(rows):  # in one order, so that processes never wait for each other in a circle
        connection.execute(schema.PUT_MERGED, row)


def read_merged(connection: Connection, run_id: str) -> list[MergedErrors]:
    return [decode(MergedErrors, body) for (body,) in connection.rows(schema.MERGED, (run_id,))]


_LARGE = 16_384
"""Bodies above this size, in bytes, are stored by their hash."""
_PAGE = 5_000
_KEPT_KEYS = 20_000
_BODY_PAGE = 50
_KEPT_IN_DETAILS = (
    *("failure_reasons", "error_message", "counts_as_failed", "scores", "outcomes_unavailable", "failures"),
    *("instruments", "tools"),
)
_NUMBERS = ("turns", "overall_score", "latency_ms", "median_latency_ms", "tokens", "cost_usd", "duration_ms")
_MOST = 2.0**63
_kept = attrgetter(*_KEPT_IN_DETAILS)
_numbers = attrgetter(*_NUMBERS)
_write_json = msgspec.json.Encoder().encode
"""Of names that can be printed in ASCII it makes the same as `write`, and sooner."""


@lru_cache(maxsize=4096)
def write_key(key: ScenarioKey) -> str:
    """The key as rows have it: ASCII JSON."""
    text = "".join(key)
    return _write_json(key).decode() if text.isascii() and text.isprintable() else write(list(key))


@lru_cache(maxsize=4096)
def name_scenario(key: ScenarioKey) -> str:
    """The scenario's name in rows: a hash, since what people write may be too long for an index, or hold a NUL."""
    return blake2b(write_key(key).encode("ascii"), digest_size=16).hexdigest()


class Keys:
    """Which scenario has which number in a run, as far as somebody asked. Only of one run, the last that was read."""

    def __init__(self) -> None:
        self._of: tuple[str, dict[int, ScenarioKey]] = ("", {})

    def add(self, run_id: str, found: dict[int, ScenarioKey]) -> None:
        of, keys = self._of
        if of != run_id or len(keys) >= _KEPT_KEYS:
            self._of = (run_id, found)
        else:
            keys.update(found)

    def of(self, run_id: str) -> dict[int, ScenarioKey]:
        """By number."""
        of, keys = self._of
        return keys if of == run_id else {}


class TrialRows(Struct, frozen=True, kw_only=True):
    """Everything that is written for one trial."""

    scenario: str
    """As `name_scenario` has it."""
    index: int
    columns: Row
    body: bytes
    contents: dict[str, bytes]


def make_rows(trial: Trial) -> TrialRows:
    """The rows of a trial."""
    body, contents = _pack(trial)
    return TrialRows(
        scenario=name_scenario(trial.key),
        index=trial.index,
        columns=_columns(summarise(trial)),
        body=body,
        contents=contents,
    )


def place_of(run_id: str, key: ScenarioKey, index: int) -> Row:
    """Where a trial is kept. The run stands there twice: once for itself, once to find the scenario's number."""
    return run_id, run_id, name_scenario(key), index


def insert_trials(
    connection: Connection, numbers: Numbers, group: Sequence[TrialRows], *, replaced: Iterable[TrialRows] = ()
) -> None:
    """Write a group inside the transaction under way; what is stored at the places of `replaced` makes way."""
    run_id = numbers.run_id
    contents = {name: body for rows in group for name, body in rows.contents.items()}
    if contents:
        connection.share_contents()  # before any row: whoever deletes runs takes the locks in the same order
    for rows in replaced:
        place = (run_id, numbers.of(connection, rows.scenario), rows.index)
        connection.execute(schema.DROP_TRIAL, place)
        connection.execute(schema.DROP_BODY, place)
    placed = [((run_id, numbers.of(connection, rows.scenario), rows.index), rows) for rows in group]
    connection.insert(schema.ADD_TRIAL, [(*place, *rows.columns) for place, rows in placed])
    connection.insert(schema.ADD_BODY, [(*place, rows.body) for place, rows in placed])
    if not contents:
        return
    # In order of their hashes: processes that insert the same contents would otherwise wait for each other in a circle.
    connection.insert(schema.ADD_CONTENT, sorted(contents.items()))
    connection.insert(schema.ADD_CONTENT_USE, [(run_id, name) for name in sorted(contents)])


def explain_conflict(
    connection: Connection, run_id: str, group: Iterable[tuple[Trial, bool]], conflict: Conflict
) -> StoreError:
    """Which trial of a refused group (each with whether it may replace one) was at fault, and why."""
    for trial, may_replace in group:
        where = f"run {run_id}: {trial.id} of {trial.key.label!r}"
        if not may_replace and connection.row(schema.BODY, place_of(run_id, trial.key, trial.index)):
            return StoreError(f"{where}: is stored already. To play errored trials again: --resume RUN --retry-errors")
        if not connection.row(schema.SCENARIO, (run_id, name_scenario(trial.key))):
            return StoreError(f"{where}: the scenario is not among those of the run, or the run was deleted")
    return StoreError(f"run {run_id}: the same trial was handed in twice: {conflict}")


def read_summaries(
    connections: Connections, run_id: str, key: ScenarioKey | None, *, known: Keys
) -> Iterator[TrialSummary]:
    """The summaries by scenario, in the order in which the scenarios were added, and trial; page by page."""
    number, trial = -1, -1
    while True:
        with connections.one() as connection:
            page = (
                connection.rows(schema.SUMMARY_PAGE, (run_id, number, number, trial, _PAGE))
                if key is None
                else connection.rows(schema.SUMMARY_PAGE_OF_SCENARIO, (*place_of(run_id, key, trial), _PAGE))
            )
            keys = known.of(run_id) if key is None else {}
            if key is None and not all(row[0] in keys for row in page):
                keys = _read_keys(connection, run_id, page[0][0], page[-1][0])
        yield from read_summary_rows(page, keys if key is None else {row[0]: key for row in page})
        if len(page) < _PAGE:
            return
        number, trial, *_ = page[-1]


def read_summary_rows(rows: Sequence[Row], keys: Mapping[int, ScenarioKey]) -> Iterator[TrialSummary]:
    """The summaries of rows: number, trial, and the columns. `keys` are those of the scenarios with these numbers."""
    for number, trial, *columns, details in rows:
        yield _summary(keys[number], trial, columns, None if details is None else _read_details(bytes(details)))


def _read_keys(connection: Connection, run_id: str, first: int, last: int) -> dict[int, ScenarioKey]:
    rows = connection.rows(schema.NUMBERS, (run_id, first, last))
    return {number: ScenarioKey(*read(written)) for number, written in rows}


def read_trials(connections: Connections, run_id: str, key: ScenarioKey) -> Iterator[Trial]:
    """The trials of a scenario in index order, page by page."""
    last = -1
    while True:
        with connections.one() as connection:
            page = connection.rows(schema.BODY_PAGE, (*place_of(run_id, key, last), _BODY_PAGE))
        for _, body in page:
            yield _unpack(connections, body)
        if len(page) < _BODY_PAGE:
            return
        last = page[-1][0]


def read_trial(connections: Connections, run_id: str, key: ScenarioKey, index: int) -> Trial:
    """One trial. Raises UsageError when there is none."""
    with connections.one() as connection:
        row = connection.row(schema.BODY, place_of(run_id, key, index))
    if row is None:
        raise UsageError(f"run {run_id}: has no trial-{index + 1} of {key.label!r}. See: seatrial show {run_id}")
    return _unpack(connections, row[0])


def _pack(trial: Trial) -> tuple[bytes, dict[str, bytes]]:
    """The trial's body, and by hash what is large in it."""
    return pack_document(to_document(trial))


def pack_document(document: dict[str, Any]) -> tuple[bytes, dict[str, bytes]]:
    """The body of a trial's document, and by hash what is large in it."""
    body = write(document).encode("ascii")
    if len(body) <= _LARGE:
        return body, {}
    contents: dict[str, bytes] = {}
    places: dict[tuple[str | int, ...], str] = {}

    def set_apart(holder: dict[str, Any], path: tuple[str | int, ...], *names: str) -> None:
        for name in names:
            text = write(holder.get(name), _below(places, (*path, name))).encode("ascii")
            if len(text) > _LARGE:
                hashed = blake2b(text, digest_size=20).hexdigest()
                contents[hashed] = text
                for place in [place for place in places if place[: len(path) + 1] == (*path, name)]:
                    del places[place]
                places[*path, name] = hashed
                holder[name] = None

    for number, turn in enumerate(document["transcript"]["turns"]):
        for place, call in enumerate(turn.get("tool_calls") or ()):
            set_apart(call, ("transcript", "turns", number, "tool_calls", place), "arguments", "result")
    set_apart(document["transcript"], ("transcript",), "history", "state", "recorded")
    set_apart(document, (), "transcript", "results", "judgement")
    return write(document, places).encode("ascii"), contents


def _below(
    places: Mapping[tuple[str | int, ...], str], path: tuple[str | int, ...]
) -> dict[tuple[str | int, ...], str]:
    """The places inside a part, as seen from it."""
    return {place[len(path) :]: name for place, name in places.items() if place[: len(path)] == path}


def unpack(body: bytes, fetch: Fetch) -> Trial:
    """The trial of a body."""
    return decode(Trial, body, fetch=fetch)


def fetch_through(connection: Connection) -> Fetch:
    """Finds contents by their hashes."""

    def fetch(hashed: str) -> bytes:
        row = connection.row(schema.CONTENT, (hashed,))
        if row is None:
            raise StoreError(f"a trial refers to the content {hashed}, which is not stored; the store is damaged")
        found: bytes = row[0]
        return found

    return fetch


def _unpack(connections: Connections, body: bytes) -> Trial:
    def fetch(hashed: str) -> bytes:
        with connections.one() as connection:
            return fetch_through(connection)(hashed)

    return unpack(body, fetch)


def _columns(summary: TrialSummary) -> Row:
    """The columns from status on."""
    numbers, details = _numbers(summary), None
    if any(_kept(summary)) or not _are_small(numbers):
        strange = [name for name, value in zip(_NUMBERS, numbers, strict=True) if not _are_small((value,))]
        numbers = tuple([0 if name in strange else getattr(summary, name) for name in _NUMBERS])
        kept = [*(name for name in _KEPT_IN_DETAILS if getattr(summary, name)), *strange]
        details = encode(_Details(**{name: getattr(summary, name) for name in kept}))
    return (
        str(summary.status),
        str(summary.error_kind) if summary.error_kind else None,
        summary.stop_reason,
        None if summary.trajectory_matched is None else int(summary.trajectory_matched),
        _write_time(summary.started_at),
        *numbers,
        details,
    )


def _write_time(moment: datetime) -> str:
    """As `isoformat` has it, and in a quarter of the time."""
    return _write_json(moment)[1:-1].decode().replace("Z", "+00:00")


def _are_small(numbers: Iterable[float | None]) -> bool:
    """Whether databases know them: neither NaN nor numbers larger than any of their own."""
    try:
        return hypot(*filter(None, numbers)) < _MOST  # of NaN never
    except OverflowError:
        return False  # no float is as large


_Details = some_fields("Details", TrialSummary, (*_KEPT_IN_DETAILS, *_NUMBERS))
"""What columns do not have."""


def _read_details(body: bytes) -> dict[str, Any]:
    details = decode(_Details, body)
    return {name: value for name in _Details.__struct_fields__ if (value := getattr(details, name)) is not UNSET}


def _summary(key: ScenarioKey, index: int, columns: Row, details: dict[str, Any] | None) -> TrialSummary:
    if details is not None and not details.keys().isdisjoint(_NUMBERS):
        return replace(_summary(key, index, columns, None), **details)
    status, error_kind, stop_reason, matched, started, turns, score, slowest, median, tokens, cost, took = columns
    return TrialSummary(
        key=key,
        index=index,
        status=_STATUS[status],
        error_kind=ErrorKind(error_kind) if error_kind else None,
        stop_reason=stop_reason,
        trajectory_matched=None if matched is None else bool(matched),
        started_at=datetime.fromisoformat(started),
        turns=turns,
        overall_score=score,
        latency_ms=slowest,
        median_latency_ms=median,
        tokens=tokens,
        cost_usd=cost,
        duration_ms=took,
        **(details or _NONE),
    )


_NONE: dict[str, Any] = {}


_STATUS = {status.value: status for status in Status}


MOST_BYTES: Final = 32 * 1024 * 1024
_SEARCH_PAGE = 1_000
_WORD = re.compile("[a-z0-9_.@/+#-]+")
"""What stands in a body as it was said, however the JSON around it is written."""


class Said(Struct, frozen=True, kw_only=True):
    """Where something was said."""

    trials: frozenset[tuple[ScenarioKey, int]]
    looked_at: int
    """How many trials were looked through, from the first."""
    is_whole: bool
    """Whether those were all there are."""


def find_said(
    connections: Connections, run_id: str, text: str, *, key: ScenarioKey | None = None, most_bytes: int = MOST_BYTES
) -> Said:
    """The trials whose user, replies, or calls have the text, whatever its case; of one scenario or of all.

    Looks no further than `most_bytes` of bodies, so that it comes to an end soon.
    """
    wanted = text.lower()
    word = max(_WORD.findall(wanted), key=len, default="").encode("ascii")
    found: list[tuple[int, int]] = []
    looked_at, left = 0, most_bytes
    for number, index, body in _bodies(connections, run_id, key):
        if left <= 0:
            return Said(trials=_named(connections, run_id, found, key), looked_at=looked_at, is_whole=False)
        left -= len(body)
        looked_at += 1
        # Parsing takes ten times as long as looking for a word in the bytes.
        if (word in body.lower() or body.startswith(ENVELOPE)) and _says(connections, body, wanted):
            found.append((number, index))
    return Said(trials=_named(connections, run_id, found, key), looked_at=looked_at, is_whole=True)


def _bodies(connections: Connections, run_id: str, key: ScenarioKey | None) -> Iterator[tuple[int, int, bytes]]:
    """(number of the scenario, index, body), page by page."""
    number, trial = -1, -1
    while True:
        with connections.one() as connection:
            page = (
                connection.rows(schema.BODIES_PAGE, (run_id, number, number, trial, _SEARCH_PAGE))
                if key is None
                else [
                    (0, *row)
                    for row in connection.rows(schema.BODY_PAGE, (*place_of(run_id, key, trial), _SEARCH_PAGE))
                ]
            )
        for number, trial, body in page:
            yield number, trial, bytes(body)
        if len(page) < _SEARCH_PAGE:
            return


def _says(connections: Connections, body: bytes, wanted: str) -> bool:
    def fetch(hashed: str) -> bytes:
        with connections.one() as connection:
            return fetch_through(connection)(hashed)

    transcript = read(body, fetch=fetch)["transcript"]
    return any(wanted in text.lower() for turn in transcript.get("turns", ()) for text in _texts(turn))


def _texts(turn: dict[str, Any]) -> Iterator[str]:
    yield turn.get("user") or ""
    yield turn.get("reply") or ""
    for call in turn.get("tool_calls") or ():
        # As pages write it, so that what is seen can be looked for.
        yield f"{call['name']}({json.dumps(call.get('arguments'), ensure_ascii=False, default=str)})"


def _named(
    connections: Connections, run_id: str, found: list[tuple[int, int]], key: ScenarioKey | None
) -> frozenset[tuple[ScenarioKey, int]]:
    if key is not None or not found:
        return frozenset((key, index) for _, index in found if key is not None)
    with connections.one() as connection:
        rows = connection.rows(schema.NUMBERS, (run_id, found[0][0], found[-1][0]))
    keys = {number: ScenarioKey(*read(written)) for number, written in rows}
    return frozenset((keys[number], index) for number, index in found)
