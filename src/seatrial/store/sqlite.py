"""The store in a file."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from time import sleep

from seatrial.clock import milliseconds
from seatrial.errors import StoreError, UsageError
from seatrial.private_files import keep_private, make_file, make_folder

from .connection import Connection, Row
from .file_lock import hold
from .schema import Insert

_PATIENCE_MS = 60_000
_ROWS = 500
"""At once, where SQLite takes so many placeholders: before 3.32 it took 999. For each statement it first copies every
page that it will change, so that few large ones take less than many small."""
_OURS = 0x53_45_41_54
"""SQLite's application id of our files: SEAT."""
_ELSEWHERE = "Name another place: --store, or SEATRIAL_STORE."
"""Both, since pytest does not know the flag."""


class SqliteDatabase:
    """A SQLite file that several processes may write to at once."""

    begin = "BEGIN IMMEDIATE"
    """A transaction that may write says so at its start: one that asks later cannot be made to wait for its turn."""
    synchronous = "FULL"
    """A commit returns once the disk has it. With NORMAL, a power failure could lose trials that were reported."""
    errors: tuple[type[Exception], ...] = (sqlite3.Error, OverflowError)
    conflicts: tuple[type[Exception], ...] = (sqlite3.IntegrityError,)

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        # Connections are opened later, too, when an agent may have changed the current folder.
        self._path = path.absolute()
        self._file: tuple[int, int] | None = None
        """Which file on which disk it is, since it was first opened."""
        _make_folder(path.parent, self.name)
        if path.exists() and not os.access(path, os.W_OK):
            raise UsageError(f"{self.name}: is read-only. {_ELSEWHERE}")
        _keep_private(self._path)

    def connect(self) -> sqlite3.Connection:
        if self._file is not None:
            self.require_there()  # else SQLite would make an empty one
        try:
            raw = sqlite3.connect(
                self._path, timeout=_PATIENCE_MS / 1000, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as refused:
            raise _unusable(self.name, refused) from refused
        try:
            _use_wal(raw)
            raw.execute(f"PRAGMA synchronous = {self.synchronous}")
            raw.execute("PRAGMA foreign_keys = ON")
            # Every 8 MB instead of every 4: hashes of scenarios come in no order, so large runs change the same pages
            # again and again. Not more seldom: for what is left at the end of a run its user waits.
            raw.execute("PRAGMA wal_autocheckpoint = 2000")
        except sqlite3.Error as refused:
            raw.close()
            raise _unusable(self.name, refused) from refused
        if self._file is None:
            self._file = self._find_file()
        return raw

    def require_there(self) -> None:
        """A file that is deleted while it is open can still be written to, and nobody will ever read it."""
        if self._find_file() != self._file:
            raise StoreError(
                f"{self.name}: was deleted or replaced while it was in use, so what was written to it is lost. "
                "Find out what removes it, and start the run again."
            )

    def _find_file(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def spell(self, statement: str) -> str:
        return statement

    def insert(self, cursor: sqlite3.Cursor, what: Insert, rows: Sequence[Row]) -> int:
        """Many rows with each statement: Python's other threads are asked for leave once, and not for each row.

        By `executemany`, which asks them once less than `execute`, since it need not know the last row.
        """
        if len(rows) == 1:
            return cursor.executemany(what.of(1), rows).rowcount
        most = cursor.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        step = min(_ROWS, most // len(rows[0])) if rows else 1
        added = 0
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            added += cursor.executemany(what.of(len(some)), ([*chain.from_iterable(some)],)).rowcount
        return added

    def tidy(self, connection: Connection) -> None:
        """Move what was written from the log to the file. Whoever closes the file last would have to wait for that."""
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def has_version(self, connection: Connection) -> bool:
        tables = {name for (name,) in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return False
        row = connection.row("PRAGMA application_id")
        if row is None or row[0] != _OURS or "schema_version" not in tables:
            raise UsageError(f"{self.name}: is a SQLite database of something else. {_ELSEWHERE}")
        return True

    def prepare(self, connection: Connection) -> None:
        connection.execute(f"PRAGMA application_id = {_OURS}")

    def lock_run(self, connection: Connection, run_id: str) -> None:
        """Nothing to do: writers take turns."""

    def claim_run(self, run_id: str) -> Callable[[], None] | None:
        mark = blake2b(run_id.encode(), digest_size=8).hexdigest()  # an id may have signs that no file's name has
        return hold(self._path.with_name(f"{self._path.name}-{mark}.playing"))

    def share_contents(self, connection: Connection) -> None:
        """Nothing to do: writers take turns."""

    def own_contents(self, connection: Connection) -> None:
        """Nothing to do: writers take turns."""


def _use_wal(raw: sqlite3.Connection) -> None:
    """Readers and the writer do not wait for each other.

    Switching the mode needs the file alone, and SQLite does not wait for that as it does for other locks.
    """
    deadline = milliseconds() + _PATIENCE_MS
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as refused:
            busy = refused.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or milliseconds() > deadline:
                raise
            sleep(0.01)
        else:
            return


def _make_folder(folder: Path, name: str) -> None:
    try:
        make_folder(folder)
        if folder.name == ".seatrial" and not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
            keep_private(folder / ".gitignore")
    except (OSError, ValueError) as refused:
        raise _unusable(name, refused) from refused


def _keep_private(path: Path) -> None:
    """SQLite gives the files of its log the permissions of the database; those of an older version are corrected."""
    with suppress(OSError):  # connecting will say why
        make_file(path)
    for end in ("-wal", "-shm"):
        keep_private(path.with_name(path.name + end))


def _unusable(name: str, refused: Exception) -> UsageError:
    code = getattr(refused, "sqlite_errorcode", None)
    if code is not None and code & 0xFF == sqlite3.SQLITE_NOTADB:
        return UsageError(f"{name}: is not a SQLite database. {_ELSEWHERE}")
    return UsageError(f"{name}: cannot be opened for writing: {refused}. {_ELSEWHERE}")
