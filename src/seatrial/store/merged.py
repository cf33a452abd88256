"""Behaviour failures as a model merged them: one row for each scenario of a run that needed it."""

from collections.abc import Iterable

from seatrial.model.run import MergedErrors

from . import schema
from .codec import decode, encode
from .connection import Connection
from .trials import name_scenario


def put_merged(connection: Connection, run_id: str, merges: Iterable[MergedErrors]) -> None:
    """Store them inside the transaction under way; each takes the place of the scenario's earlier one."""
    rows = [(run_id, name_scenario(merged.key), encode(merged)) for merged in merges]
    for row in sorted(rows):  # in one order, so that processes never wait for each other in a circle
        connection.execute(schema.PUT_MERGED, row)


def read_merged(connection: Connection, run_id: str) -> list[MergedErrors]:
    return [decode(MergedErrors, body) for (body,) in connection.rows(schema.MERGED, (run_id,))]
