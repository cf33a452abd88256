"""Connections to SQLite and PostgreSQL: the same methods and errors for both, and a pool of open connections."""

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any

from seatrial.clock import milliseconds
from seatrial.errors import MissingExtra, StoreError, UsageError
from seatrial.files import keep_private, make_file, make_folder

from .schema import HAS_RUN, PACKED

Row = Sequence[Any]
Release = Callable[[], None]
_IDLE_CONNECTIONS = 4


class Conflict(StoreError):
    """A row violates a constraint: it exists already, or a row that it refers to does not exist."""


class Connection:
    """A connection of either driver. Raises StoreError, or Conflict, instead of the driver's errors."""

    def __init__(self, database: "Database") -> None:
        self.database = database
        self._raw = database.connect()

    def execute(self, statement: str, parameters: Row = ()) -> Any:
        """The driver's cursor."""
        with self._driver_errors():
            return self._raw.execute(self.database.adapt(statement), parameters)

    def rows(self, statement: str, parameters: Row = ()) -> list[Row]:
        with self._driver_errors():
            found: list[Row] = self._raw.execute(self.database.adapt(statement), parameters).fetchall()
        return found

    def row(self, statement: str, parameters: Row = ()) -> Row | None:
        found = self.rows(statement, parameters)
        return found[0] if found else None

    def insert(self, statement: str, rows: Sequence[Row]) -> int:
        """The number of rows that were added. `ON CONFLICT DO NOTHING` skips existing rows."""
        with self._driver_errors():
            cursor = self._raw.cursor()
            cursor.executemany(self.database.adapt(statement), rows)
            added: int = cursor.rowcount
        return added

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end; roll back after an exception."""
        self.execute(self.database.begin)
        try:
            yield
        except BaseException:
            self._roll_back()
            raise
        with self._driver_errors():
            self._raw.commit()
        self.database.require_present()

    def close(self) -> None:
        self._raw.close()

    def _roll_back(self) -> None:
        try:
            self._raw.execute("ROLLBACK")
        except self.database.errors:
            self._raw.close()  # nothing can be committed on it now; the first error is the one to raise

    @contextmanager
    def _driver_errors(self) -> Iterator[None]:
        try:
            yield
        except self.database.errors as error:
            kind = Conflict if isinstance(error, self.database.conflicts) else StoreError
            raise kind(f"{self.database.name}: {str(error).strip() or type(error).__name__}") from error


class ConnectionPool:
    """Idle connections, and new ones when none is idle. Any thread may use it."""

    def __init__(self, database: "Database") -> None:
        self._database = database
        self._idle: list[Connection] = []
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[Connection]:
        """A connection that nothing else uses in the meantime."""
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._database.name}: the store has been closed")
            connection = self._idle.pop() if self._idle else None
        connection = connection or Connection(self._database)
        try:
            yield connection
        except BaseException:
            connection.close()  # it may be broken
            raise
        self._give_back(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection inside a transaction."""
        with self.one() as connection, connection.transaction():
            yield connection

    def pages(self, statement: str, parameters: Row, *, after: Row, size: int) -> Iterator[list[Row]]:
        """The rows of a statement, `size` at a time. No connection is held between two pages.

        The last placeholders of the statement are the position after which the page begins and its size. The position
        of a row is its first columns.
        """
        while True:
            with self.one() as connection:
                page = connection.rows(statement, (*parameters, *after, size))
            yield page
            if len(page) < size:
                return
            after = page[-1][: len(after)]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()


class Database:
    """What SQLite and PostgreSQL do differently. Methods that are empty here are needed by one of them only."""

    name: str
    """Where the store is, as shown to people: without passwords."""
    begin: str
    errors: tuple[type[Exception], ...]
    conflicts: tuple[type[Exception], ...]

    def connect(self) -> Any:
        """A new connection of the driver, in autocommit mode. Raises UsageError."""
        raise NotImplementedError

    def is_set_up(self, connection: Connection) -> bool:
        """Whether the store has its tables. Raises UsageError when the database belongs to another program."""
        raise NotImplementedError

    def prepare_migration(self, connection: Connection) -> None:
        """Called inside the transaction of the migrations, before the first of them."""

    def claim_run(self, run_id: str) -> Release | None:
        """Reserve the run for this process until the returned function is called or the process ends.

        None while another process plays the run.
        """
        raise NotImplementedError

    def adapt(self, statement: str) -> str:
        """The statement as the driver expects it."""
        return statement

    def require_present(self) -> None:
        """Raise StoreError when the database was removed, so that commits to it are lost."""

    def checkpoint(self, connection: Connection) -> None:
        """Move what was written from the log to the database file."""

    def lock_run(self, connection: Connection, run_id: str) -> None:
        """Make other writers of the run wait until this transaction ends."""

    def lock_contents(self, connection: Connection, *, shared: bool) -> None:
        """Until this transaction ends: shared, no contents are deleted; else no other transaction adds any."""


_TIMEOUT_MS = 60_000
_APPLICATION_ID = 0x53_45_41_54
"""SQLite's application id of our files: SEAT."""
_ELSEWHERE = "Name another place: --store, or SEATRIAL_STORE."
"""Both, since pytest does not have the flag."""


class SqliteDatabase(Database):
    """A SQLite file. Several processes may write to it: their transactions take turns."""

    begin = "BEGIN IMMEDIATE"
    """Take the write lock at the start: SQLite cannot wait for it in the middle of a transaction."""
    synchronous = "FULL"
    """A commit returns once the disk has it. With NORMAL, a power failure could lose trials that were reported."""
    errors = (sqlite3.Error, OverflowError)
    conflicts = (sqlite3.IntegrityError,)

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        # Absolute, since an agent may change the current folder before another connection is opened.
        self._path = path.absolute()
        self._file: tuple[int, int] | None = None
        """Device and inode of the file, once it was opened."""
        _make_folder(path.parent, self.name)
        if path.exists() and not os.access(path, os.W_OK):
            raise UsageError(f"{self.name}: is read-only. {_ELSEWHERE}")
        _keep_private(self._path)

    def connect(self) -> sqlite3.Connection:
        if self._file is not None:
            self.require_present()  # else SQLite would make an empty file
        try:
            raw = sqlite3.connect(self._path, timeout=_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise _unusable(self.name, error) from error
        try:
            _use_wal(raw)
            raw.execute(f"PRAGMA synchronous = {self.synchronous}")
            raw.execute("PRAGMA foreign_keys = ON")
        except sqlite3.Error as error:
            raw.close()
            raise _unusable(self.name, error) from error
        if self._file is None:
            self._file = self._find_file()
        return raw

    def require_present(self) -> None:
        """A file that is deleted while it is open can still be written to, but never be read again."""
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

    def checkpoint(self, connection: Connection) -> None:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def is_set_up(self, connection: Connection) -> bool:
        tables = {name for (name,) in connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return False
        row = connection.row("PRAGMA application_id")
        if row is None or row[0] != _APPLICATION_ID or "schema_version" not in tables:
            raise UsageError(f"{self.name}: is a SQLite database of another program. {_ELSEWHERE}")
        return True

    def prepare_migration(self, connection: Connection) -> None:
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")

    def claim_run(self, run_id: str) -> Release | None:
        name = blake2b(run_id.encode(), digest_size=8).hexdigest()  # an id may have characters that no file name has
        return lock_file(self._path.with_name(f"{self._path.name}-{name}.playing"))


def _use_wal(raw: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, so that readers and the writer do not wait for each other.

    The switch needs the file alone. SQLite's timeout does not apply to it.
    """
    deadline = milliseconds() + _TIMEOUT_MS
    while True:
        try:
            raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
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
    except (OSError, ValueError) as error:
        raise _unusable(name, error) from error


def _keep_private(path: Path) -> None:
    """SQLite gives its log files the permissions of the database. Correct those that an older version made."""
    with suppress(OSError):  # connecting will say why
        make_file(path)
    for end in ("-wal", "-shm"):
        keep_private(path.with_name(path.name + end))


def _unusable(name: str, error: Exception) -> UsageError:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF == sqlite3.SQLITE_NOTADB:
        return UsageError(f"{name}: is not a SQLite database. {_ELSEWHERE}")
    return UsageError(f"{name}: cannot be opened for writing: {error}. {_ELSEWHERE}")


def lock_file(path: Path) -> Release | None:
    """Lock a file until the returned function is called or the process ends; None while another process has it.

    Where files cannot be made or locked at all, nothing is locked.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return lambda: None
    keep_private(path)
    if not _lock(descriptor):
        os.close(descriptor)
        return None
    if not _is_at(path, descriptor):
        os.close(descriptor)
        return lock_file(path)  # its owner deleted it after we opened it and before we locked it

    def release() -> None:
        # Deleted while it is locked: later it may be locked by another process. Windows deletes only closed files.
        steps: list[Release] = [path.unlink, lambda: os.close(descriptor)]
        for step in reversed(steps) if sys.platform == "win32" else steps:
            with suppress(OSError):
                step()

    return release


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            return not isinstance(error, PermissionError)
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            # Not `flock`: processes that an agent forks would hold it, too, and may outlive a run that is killed.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return not isinstance(error, BlockingIOError | PermissionError)
        return True


_MIGRATING = 0x5345_4154_0001
_CONTENTS = 0x5345_4154_0002
"""Keys of advisory locks."""
_KEEPALIVE = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
"""The server notices a lost client after a minute, instead of two hours."""


class PostgresDatabase(Database):
    """A PostgreSQL database, in the schema `seatrial`."""

    begin = "BEGIN"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as missing:
            raise MissingExtra("postgres", needed_for="A store in PostgreSQL") from missing
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error as error:
            raise UsageError(
                "store postgresql://…: cannot be read. Use postgresql://user@host:5432/database."
            ) from error
        self.name = f"postgresql://{parts.get('host', 'localhost')}/{parts.get('dbname', '')}"
        self.errors = (psycopg.Error,)
        self.conflicts = (psycopg.IntegrityError,)
        self._psycopg = psycopg
        self._url = url
        self._options = f"{parts.get('options') or ''} -c search_path=seatrial {_KEEPALIVE}"

    def connect(self) -> Any:
        try:
            return self._psycopg.connect(self._url, autocommit=True, options=self._options)
        except self._psycopg.Error as error:
            raise UsageError(f"{self.name}: cannot be reached: {str(error).strip()}") from error

    def adapt(self, statement: str) -> str:
        return statement.replace("?", "%s").replace(PACKED, "")

    def is_set_up(self, connection: Connection) -> bool:
        row = connection.row("SELECT to_regclass('seatrial.schema_version') IS NOT NULL")
        return row is not None and bool(row[0])

    def prepare_migration(self, connection: Connection) -> None:
        connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATING})")
        connection.execute("CREATE SCHEMA IF NOT EXISTS seatrial")

    def claim_run(self, run_id: str) -> Release | None:
        """By a transaction that stays open: a connection pooler would keep a lock of the session after our end."""
        key = int.from_bytes(blake2b(run_id.encode(), digest_size=8).digest(), signed=True)
        connection = Connection(self)
        connection.execute(self.begin)
        row = connection.row("SELECT pg_try_advisory_xact_lock(?)", (key,))
        if row is None or not row[0]:
            connection.close()
            return None

        def release() -> None:
            # Closing alone frees the run only when the server notices it. A broken connection has no lock.
            with suppress(StoreError):
                connection.execute("ROLLBACK")
            connection.close()

        return release

    def lock_run(self, connection: Connection, run_id: str) -> None:
        connection.execute(f"{HAS_RUN} FOR UPDATE", (run_id,))

    def lock_contents(self, connection: Connection, *, shared: bool) -> None:
        connection.execute(f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}({_CONTENTS})")
