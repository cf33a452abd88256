"""Scenario entries as columns: what is a scenario's own, and the terms that it mostly shares with others.

A run of ten thousand scenarios has ten thousand fingerprints and very few sets of gates, so each set is read once.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from msgspec import UNSET

from seatrial.errors import UsageError
from seatrial.model.run import ScenarioEntry, ScenarioKey, TrialSummary

from . import schema
from .codec import decode, encode, read, some_fields, write
from .database import Connection, Connections, Row
from .trials import Keys, Numbers, name_scenario, read_summary_rows, write_key

_OWN = ("key", "position", "fingerprint", "trial_fingerprint", "source")


def entry_columns(entry: ScenarioEntry) -> Row:
    """The columns from scenario_key on."""
    return (
        write_key(entry.key),
        entry.fingerprint,
        entry.trial_fingerprint,
        None if entry.source is None else write(entry.source),
        _write_terms(entry),
    )


def read_entry_rows(rows: Sequence[Row]) -> Iterator[ScenarioEntry]:
    """The entries of rows: position, and the columns from scenario_key on."""
    for position, key, fingerprint, trial_fingerprint, source, terms in rows:
        if fingerprint is None:  # written by an earlier version: everything is among the terms
            yield decode(ScenarioEntry, bytes(terms))
            continue
        yield ScenarioEntry(
            key=ScenarioKey(*read(key)),
            position=position,
            fingerprint=fingerprint,
            trial_fingerprint=trial_fingerprint,
            source=None if source is None else read(source),
            **_read_terms(bytes(terms)),
        )


def _write_terms(entry: ScenarioEntry) -> bytes:
    if entry.sequential is not None or entry.gates.metric_thresholds is not None:
        return _encode_terms(entry)
    terms = (entry.trials, entry.gates, entry.tags, entry.skip, entry.xfail, entry.mocks, entry.must_not_call)
    written = _WRITTEN.get(terms)
    if written is None:
        if len(_WRITTEN) >= _KEPT:
            _WRITTEN.clear()
        written = _WRITTEN[terms] = _encode_terms(entry)
    return written


_Terms = some_fields("Terms", ScenarioEntry, [name for name in ScenarioEntry.__struct_fields__ if name not in _OWN])
"""What a scenario mostly shares with others."""
_KEPT = 1_000
_WRITTEN: dict[Any, bytes] = {}


def _encode_terms(entry: ScenarioEntry) -> bytes:
    terms = _Terms(**{name: getattr(entry, name) for name in _Terms.__struct_fields__})
    return encode(terms)


@lru_cache(maxsize=_KEPT)
def _read_terms(terms: bytes) -> dict[str, Any]:
    found = decode(_Terms, terms)
    return {name: value for name in _Terms.__struct_fields__ if (value := getattr(found, name)) is not UNSET}


_BATCH = 2_000


def add_scenarios(connections: Connections, run_id: str, entries: Iterable[ScenarioEntry]) -> None:
    """Store the entries in batches, each committed by itself; ones that are there already must be the same."""
    remaining, numbers = iter(entries), Numbers(run_id)
    while batch := list(islice(remaining, _BATCH)):
        with connections.transaction() as connection:
            insert_scenarios(connection, numbers, batch)


def make_entry_rows(entries: Iterable[ScenarioEntry]) -> list[Row]:
    """The rows of entries, but for the run and the number in it."""
    return [(name_scenario(entry.key), entry.position, *entry_columns(entry)) for entry in entries]


def insert_scenarios(
    connection: Connection, numbers: Numbers, entries: Sequence[ScenarioEntry], rows: Sequence[Row] | None = None
) -> None:
    """Write the entries inside the transaction under way. `rows` are theirs, where they have been made already."""
    run_id = numbers.run_id
    connection.lock_run(run_id)
    row = connection.row(schema.NEXT_NUMBER, (run_id,))
    if row is None:
        raise UsageError(f"run {run_id!r}: is not in the store, so it cannot be given scenarios")
    made = rows or make_entry_rows(entries)
    numbered = [(run_id, number, *columns) for number, columns in enumerate(made, row[0])]
    if connection.insert(schema.ADD_SCENARIO, numbered) == len(numbered):
        numbers.add([name for name, *_ in made], row[0])
        return
    for entry in entries:
        if [*read_entry_rows(connection.rows(schema.SCENARIO, (run_id, name_scenario(entry.key))))] != [entry]:
            raise UsageError(
                f"run {run_id}: scenario {entry.key.label!r} of suite {entry.key.suite!r} is stored already, and "
                "differs. Start a new run for an edited scenario, or give the two different names."
            )


def read_entries(connections: Connections, run_id: str, *, known: Keys | None = None) -> Iterator[ScenarioEntry]:
    """The entries in the order of reports, page by page. `known` is told which key has which number."""
    position, number = -1, -1
    while True:
        with connections.one() as connection:
            page = connection.rows(schema.SCENARIO_PAGE, (run_id, position, number, _BATCH))
        entries = list(read_entry_rows([row[1:] for row in page]))
        if known is not None:
            known.add(run_id, {row[0]: entry.key for row, entry in zip(page, entries, strict=True)})
        yield from entries
        if len(page) < _BATCH:
            return
        number, position, *_ = page[-1]


def read_finished(connections: Connections, run_id: str) -> set[tuple[ScenarioKey, int]]:
    """Scenario and index of each trial that is stored."""
    with connections.one() as connection:
        rows = connection.rows(schema.FINISHED, (run_id,))
    keys = {written: ScenarioKey(*read(written)) for written in {written for written, _ in rows}}
    return {(keys[written], index) for written, index in rows}


Played = tuple[ScenarioEntry, list[TrialSummary]]

_FIRST = 50
_SCENARIOS = 2_000
_TRIALS = 5_000
_AT_ONCE = 500
"""Scenarios that are asked for by their numbers in one question."""


def read_played(connections: Connections, run_id: str) -> Iterator[Played]:
    """Every scenario with its trials, in the order of reports."""
    position, number = -1, -1
    for size in _sizes(_SCENARIOS):
        with connections.one() as connection:
            page = connection.rows(schema.SCENARIO_PAGE, (run_id, position, number, size))
        yield from _with_trials(connections, run_id, page)
        if len(page) < size:
            return
        number, position, *_ = page[-1]


def _sizes(most: int) -> Iterator[int]:
    """How many to ask for, again and again: few at first, since many only want to see the first."""
    size = min(_FIRST, most)
    while True:
        yield size
        size = min(4 * size, most)


def _with_trials(connections: Connections, run_id: str, rows: Sequence[Row]) -> Iterator[Played]:
    waiting: dict[int, ScenarioEntry] = {}
    room = _TRIALS
    for row, entry in zip(rows, read_entry_rows([row[1:] for row in rows]), strict=True):
        waiting[row[0]] = entry
        room -= entry.trials
        if room <= 0 or len(waiting) == _AT_ONCE:
            yield from _read_trials(connections, run_id, waiting)
            waiting, room = {}, _TRIALS
    if waiting:
        yield from _read_trials(connections, run_id, waiting)


def _read_trials(connections: Connections, run_id: str, entries: dict[int, ScenarioEntry]) -> Iterator[Played]:
    numbers = list(entries)
    with connections.one() as connection:
        rows = connection.rows(_asking(schema.SUMMARIES, numbers), (run_id, *numbers))
    trials: dict[int, list[TrialSummary]] = {number: [] for number in numbers}
    summaries = read_summary_rows(rows, {number: entry.key for number, entry in entries.items()})
    for row, summary in zip(rows, summaries, strict=True):
        trials[row[0]].append(summary)
    for number, entry in entries.items():
        yield entry, trials[number]


def _asking(statement: str, numbers: Sequence[int]) -> str:
    return statement.format(numbers=", ".join("?" * len(numbers)))
