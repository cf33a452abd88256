"""From what a person writes to a store."""

from pathlib import Path

from seatrial.errors import UsageError

from .sqlite import SqliteDatabase
from .store import Store


def open_store(url: str | Path) -> Store:
    """The store at a path, `sqlite:///path` or `postgresql://…`; made when it is not there yet.

    Raises UsageError when the place cannot be used, MissingExtra without the driver for PostgreSQL.
    """
    text = str(url)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Store(_file(text, text))
    if scheme in ("postgresql", "postgres"):
        from .postgres import PostgresDatabase  # its driver is an extra

        return Store(PostgresDatabase(text))
    if scheme == "sqlite" and rest.startswith("/"):
        return Store(_file(rest[1:], text))
    raise UsageError(f"store {text!r}: unknown kind. Use a path, sqlite:///path or postgresql://user@host/database.")


def _file(path: str, given: str) -> SqliteDatabase:
    if path in ("", ":memory:"):
        raise UsageError(f"store {given!r}: must name a file, since several connections share it.")
    return SqliteDatabase(Path(path).expanduser())
