"""Migrations: set a store up, or bring one of an earlier version up to date.

Up to schema 3, a document with NaN, tuples, bytes or very deep values was stored as `{"$marked": …, "parts": […]}`: in
it, a mapping with one key that begins with `$` is a mark for such a value. Only this module reads that format.
"""

from binascii import a2b_base64
from collections.abc import Callable
from typing import Any, Final

from seatrial.errors import StoreError, UsageError
from seatrial.model.json_values import plain_value

from . import schema
from .codec import Fetch, read, write
from .database import Connection, Database
from .schema import CREATE_VERSION, MIGRATIONS, READ_VERSION, VERSION, WRITE_VERSION
from .trials import fetch_through, pack_document

_WITHOUT_MARKS = 4
"""The first schema whose bodies have no marks."""


def migrate(database: Database, connection: Connection) -> None:
    """Set the store up, or bring it up to date. Raises UsageError when a newer Seatrial wrote it."""
    if _version(database, connection) == VERSION:
        return
    with connection.transaction():
        database.prepare_migration(connection)
        version = _version(database, connection)  # another process may have migrated it meanwhile
        if version == 0:
            connection.execute(CREATE_VERSION)
        for number in range(version + 1, VERSION + 1):
            for statement in MIGRATIONS[number - 1]:
                connection.execute(statement)
            if number == _WITHOUT_MARKS and version > 0:
                rewrite_marked_bodies(connection)
            connection.execute(WRITE_VERSION, (number,))


def _version(database: Database, connection: Connection) -> int:
    """The number of the last migration; 0 for a new store."""
    if not database.is_set_up(connection):
        return 0
    row = connection.row(READ_VERSION)
    version = row[0] if row else None
    if not isinstance(version, int):
        raise UsageError(
            f"{database.name}: does not say which version it is. Name another place: --store, or SEATRIAL_STORE."
        )
    if version > VERSION:
        raise UsageError(
            f"{database.name}: was written by a newer Seatrial (schema {version}; this one knows {VERSION}). "
            "Upgrade: pip install --upgrade seatrial"
        )
    return version


_MARKED: Final = b'{"$marked"'
_COLUMNS: Final = (
    ("runs", ("id",), "body"),
    ("runs", ("id",), "name"),
    ("scenarios", ("run_id", "number"), "terms"),
    ("scenarios", ("run_id", "number"), "source"),
    ("trials", ("run_id", "number", "trial"), "details"),
    ("merged_errors", ("run_id", "scenario"), "body"),
    ("labels", ("run_id", "scenario", "trial", "metric", "who"), "body"),
)
"""Table, key and column of everything that may hold marks, except the bodies of trials."""


def rewrite_marked_bodies(connection: Connection) -> None:
    """Rewrite all documents with marks, inside the current transaction."""
    fetch = fetch_through(connection)
    for run_id, number, trial, body in connection.rows("SELECT run_id, number, trial, body FROM bodies"):
        if bytes(body).startswith(_MARKED):
            packed, contents = pack_document(_read(bytes(body), fetch))
            statement = "UPDATE bodies SET body = ? WHERE run_id = ? AND number = ? AND trial = ?"
            connection.execute(statement, (packed, run_id, number, trial))
            connection.insert(schema.ADD_CONTENT, list(contents.items()))
            connection.insert(schema.ADD_CONTENT_USE, [(run_id, name) for name in contents])
    for table, key, column in _COLUMNS:
        _rewrite_column(connection, table, key, column)


def _rewrite_column(connection: Connection, table: str, key: tuple[str, ...], column: str) -> None:
    place = " AND ".join(f"{name} = ?" for name in key)
    for *row, written in connection.rows(f"SELECT {', '.join(key)}, {column} FROM {table}"):
        data = written.encode("ascii") if isinstance(written, str) else written and bytes(written)
        if data and data.startswith(_MARKED):
            text = write(_read(data, None))
            new = text if isinstance(written, str) else text.encode("ascii")
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {place}", (new, *row))


def _read(body: bytes, fetch: Fetch | None) -> Any:
    """The document with marks, as plain values."""
    return plain_value(_restore(read(body), fetch))


def _restore(document: Any, fetch: Fetch | None) -> Any:
    if not (isinstance(document, dict) and "$marked" in document and "parts" in document):
        return document
    marked = document["parts"]
    parts: list[Any] = [None] * len(marked)
    for place in reversed(range(len(marked))):  # a part refers only to later ones
        parts[place] = _unmark(marked[place], parts, fetch)
    return _unmark(document["$marked"], parts, fetch)


def _unmark(value: Any, parts: list[Any], fetch: Fetch | None) -> Any:
    if type(value) is list:
        return [_unmark(item, parts, fetch) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name.startswith("$"):
            return _unmark_one(name, inner, parts, fetch)
    return {name: _unmark(item, parts, fetch) for name, item in value.items()}


def _unmark_one(name: str, inner: Any, parts: list[Any], fetch: Fetch | None) -> Any:
    if name in _SCALARS:
        return _SCALARS[name](inner)
    if name in ("$tuple", "$set", "$frozenset"):
        return [_unmark(item, parts, fetch) for item in inner]
    if name == "$dict":
        return {_as_key(_unmark(key, parts, fetch)): _unmark(item, parts, fetch) for key, item in inner}
    if name == "$part":
        return parts[inner]
    if name == "$content" and fetch is not None:
        return _restore(read(fetch(inner)), fetch)
    if name == "$repr":
        return {name: inner}
    raise StoreError(f"unknown mark {name!r}: the store is damaged")


def _as_key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "$str": "".join,
    "$int": lambda digits: int(digits, 16),
    "$float": float,
    "$bytes": lambda text: a2b_base64(text).decode("utf-8", "backslashreplace"),
}
