"""The scenarios of a run as rows."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from seatrial.errors import UsageError
from seatrial.model.run import ScenarioEntry, ScenarioKey

from . import schema
from .codec import read
from .connection import Connection, Connections, Row
from .entries import entry_columns, read_entry_rows
from .scenario_numbers import Numbers
from .trials import Keys, name_scenario

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
