"""Scenarios of a run as rows.

A run of ten thousand scenarios has ten thousand fingerprints and very few sets of gates. So gates, tags and the like
are one column, `terms`, and each distinct value of it is decoded once.
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
from .database import Connection, ConnectionPool, Row
from .trials import name_scenario, read_summary_rows, write_key

_BATCH = 2_000
_PLAYED_BATCH = 100
"""Scenarios whose trials are read at once: few, since each may have many trials."""
_OWN = ("key", "position", "fingerprint", "trial_fingerprint", "source")
_Terms = some_fields("Terms", ScenarioEntry, [name for name in ScenarioEntry.__struct_fields__ if name not in _OWN])
"""Everything that has no column of its own."""


def add_scenarios(pool: ConnectionPool, run_id: str, entries: Iterable[ScenarioEntry]) -> None:
    """Store the entries in batches, each in its own transaction."""
    remaining = iter(entries)
    while batch := list(islice(remaining, _BATCH)):
        with pool.transaction() as connection:
            insert_scenarios(connection, run_id, batch)


def insert_scenarios(connection: Connection, run_id: str, entries: Sequence[ScenarioEntry]) -> None:
    """Write the entries inside the current transaction. Raises UsageError when a stored one differs."""
    connection.database.lock_run(connection, run_id)
    row = connection.row(schema.NEXT_NUMBER, (run_id,))
    if row is None:
        raise UsageError(f"run {run_id!r}: is not in the store, so it cannot be given scenarios")
    rows = [(run_id, number, *_columns(entry)) for number, entry in enumerate(entries, row[0])]
    if connection.insert(schema.ADD_SCENARIO, rows) == len(rows):
        return
    for entry in entries:
        if [*read_entry_rows(connection.rows(schema.SCENARIO, (run_id, name_scenario(entry.key))))] != [entry]:
            raise UsageError(
                f"run {run_id}: scenario {entry.key.label!r} of suite {entry.key.suite!r} is stored already, and "
                "differs. Start a new run for an edited scenario, or give the two different names."
            )


def read_entries(pool: ConnectionPool, run_id: str) -> Iterator[ScenarioEntry]:
    """The entries in the order of reports."""
    for page in pool.pages(schema.SCENARIO_PAGE, (run_id,), after=(-1, -1), size=_BATCH):
        yield from read_entry_rows(page)


def read_finished(pool: ConnectionPool, run_id: str) -> set[tuple[ScenarioKey, int]]:
    """Scenario and index of each stored trial."""
    with pool.one() as connection:
        rows = connection.rows(schema.FINISHED, (run_id,))
    keys = {written: ScenarioKey(*read(written)) for written in {written for written, _ in rows}}
    return {(keys[written], index) for written, index in rows}


def read_entry_rows(rows: Iterable[Row]) -> Iterator[ScenarioEntry]:
    """The entries of rows: position, number, and the columns from `scenario_key` on."""
    for position, _, key, fingerprint, trial_fingerprint, source, terms in rows:
        if fingerprint is None:  # written by an earlier version: everything is in `terms`
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


def _columns(entry: ScenarioEntry) -> Row:
    """The columns from `scenario` on."""
    return (
        name_scenario(entry.key),
        entry.position,
        write_key(entry.key),
        entry.fingerprint,
        entry.trial_fingerprint,
        None if entry.source is None else write(entry.source),
        encode(_Terms(**{name: getattr(entry, name) for name in _Terms.__struct_fields__})),
    )


@lru_cache(maxsize=1_000)
def _read_terms(terms: bytes) -> dict[str, Any]:
    found = decode(_Terms, terms)
    return {name: value for name in _Terms.__struct_fields__ if (value := getattr(found, name)) is not UNSET}


Played = tuple[ScenarioEntry, list[TrialSummary]]


def read_played(pool: ConnectionPool, run_id: str) -> Iterator[Played]:
    """Every scenario with its trials, in the order of reports."""
    for page in pool.pages(schema.SCENARIO_PAGE, (run_id,), after=(-1, -1), size=_PLAYED_BATCH):
        entries = {row[1]: entry for row, entry in zip(page, read_entry_rows(page), strict=True)}
        trials = {number: list[TrialSummary]() for number in entries}
        if entries:
            statement = schema.SUMMARIES.format(numbers=", ".join("?" * len(entries)))
            with pool.one() as connection:
                rows = connection.rows(statement, (run_id, *entries))
            keys = {number: entry.key for number, entry in entries.items()}
            for (number, *_), summary in zip(rows, read_summary_rows(rows, keys), strict=True):
                trials[number].append(summary)
        yield from ((entry, trials[number]) for number, entry in entries.items())
