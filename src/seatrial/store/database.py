"""One way to talk to either database: connections that speak our SQL and raise our errors, and a few kept for reuse."""

import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any, Protocol

from seatrial.clock import milliseconds
from seatrial.errors import MissingExtra, StoreError, UsageError
from seatrial.files import keep_private, make_file, make_folder

from .schema import HAS_RUN, PACKED, Insert

Row = Sequence[Any]
_KEPT = 4


class Conflict(StoreError):
    """A row breaks a rule of the schema: it is there already, or what it belongs to is not."""


class Database(Protocol):
    """What SQLite and PostgreSQL do differently."""

    name: str
    """Where the store is, for people; without passwords."""
    begin: str
    errors: tuple[type[Exception], ...]
    conflicts: tuple[type[Exception], ...]

    def connect(self) -> Any:
        """A new connection of the driver, in autocommit mode. Raises UsageError."""
        ...

    def require_there(self) -> None:
        """Raises StoreError where what was committed is lost, since the place it was written to is gone."""
        ...

    def spell(self, statement: str) -> str:
        """The statement with the driver's own placeholders."""
        ...

    def insert(self, cursor: Any, what: Insert, rows: Sequence[Row]) -> int:
        """Add the rows by one of the driver's cursors, and say how many there were to add."""
        ...

    def tidy(self, connection: "Connection") -> None:
        """What may be done when much was written, while nobody waits for it."""
        ...

    def has_version(self, connection: "Connection") -> bool:
        """Whether the store has been set up. Raises UsageError when the place belongs to something else."""
        ...

    def prepare(self, connection: "Connection") -> None:
        """What must be done before the first migration, inside its transaction: above all, keep others out."""
        ...

    def lock_run(self, connection: "Connection", run_id: str) -> None:
        """Make others who add to the run wait until this transaction ends."""
        ...

    def claim_run(self, run_id: str) -> Callable[[], None] | None:
        """Say that this process plays the run. Gives the function that takes it back, as the end of the process does;
        None while another process plays it."""
        ...

    def share_contents(self, connection: "Connection") -> None:
        """Keep contents from being collected until this transaction ends."""
        ...

    def own_contents(self, connection: "Connection") -> None:
        """Wait for everyone who shares contents, and keep them out until this transaction ends."""
        ...


class Connection:
    """A connection of either driver."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._raw = database.connect()

    def execute(self, statement: str, parameters: Row = ()) -> Any:
        """The driver's cursor."""
        try:
            return self._raw.execute(self._database.spell(statement), parameters)
        except self._database.errors as refused:
            raise self._ours(refused) from refused

    def rows(self, statement: str, parameters: Row = ()) -> list[Row]:
        try:
            found: list[Row] = self._raw.execute(self._database.spell(statement), parameters).fetchall()
        except self._database.errors as refused:
            raise self._ours(refused) from refused
        return found

    def row(self, statement: str, parameters: Row = ()) -> Row | None:
        found = self.rows(statement, parameters)
        return found[0] if found else None

    def insert(self, what: Insert, rows: Sequence[Row]) -> int:
        """How many rows were added: none for those that were there already, where the statement leaves them."""
        try:
            cursor = self._raw.cursor()
            try:
                return self._database.insert(cursor, what, rows)
            finally:
                cursor.close()
        except self._database.errors as refused:
            raise self._ours(refused) from refused

    def transaction(self) -> "_Transaction":
        """Everything inside, or nothing."""
        return _Transaction(self)

    def begin(self) -> None:
        self.execute(self._database.begin)

    def commit(self) -> None:
        try:
            self._raw.commit()
        except self._database.errors as refused:
            raise self._ours(refused) from refused
        self._database.require_there()

    def lock_run(self, run_id: str) -> None:
        self._database.lock_run(self, run_id)

    def share_contents(self) -> None:
        self._database.share_contents(self)

    def own_contents(self) -> None:
        self._database.own_contents(self)

    def tidy(self) -> None:
        self._database.tidy(self)

    def close(self) -> None:
        self._raw.close()

    def roll_back(self) -> None:
        try:
            self._raw.execute("ROLLBACK")
        except self._database.errors:
            self._raw.close()  # nothing can be committed any more, and the error under way says why

    def _ours(self, refused: Exception) -> StoreError:
        kind = Conflict if isinstance(refused, self._database.conflicts) else StoreError
        return kind(f"{self._database.name}: {str(refused).strip() or type(refused).__name__}")


class _Transaction:
    """Committed at its end, or rolled back. A class, since a generator takes three times as long to enter."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.begin()

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is None:
            self._connection.commit()
        else:
            self._connection.roll_back()


class _Borrowed:
    """A connection that nobody else uses meanwhile; with `transaction`, all that is done with it, or nothing."""

    __slots__ = ("_connection", "_owner", "_transaction")

    def __init__(self, owner: "Connections", *, transaction: bool) -> None:
        self._owner = owner
        self._transaction = transaction

    def __enter__(self) -> Connection:
        self._connection = connection = self._owner.take()
        if self._transaction:
            try:
                connection.begin()
            except BaseException:
                connection.close()
                raise
        return connection

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        connection = self._connection
        if kind is not None:
            if self._transaction:
                connection.roll_back()
            connection.close()  # it may be what is broken
            return
        try:
            if self._transaction:
                connection.commit()
        except BaseException:
            connection.close()
            raise
        self._owner.give_back(connection)


class Connections:
    """Connections that are free, and new ones when there is none. Any thread may ask."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._free: list[Connection] = []
        self._lock = Lock()
        self._closed = False

    def one(self) -> _Borrowed:
        """A connection that nobody else uses meanwhile."""
        return _Borrowed(self, transaction=False)

    def transaction(self) -> _Borrowed:
        """The same, and a transaction on it."""
        return _Borrowed(self, transaction=True)

    def take(self) -> Connection:
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._database.name}: the store has been closed")
            connection = self._free.pop() if self._free else None
        return connection or Connection(self._database)

    def give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and len(self._free) < _KEPT:
                self._free.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            free, self._free = self._free, []
        for connection in free:
            connection.close()


def hold(path: Path) -> Callable[[], None] | None:
    """Make the file this process's own. Gives the function that lets it go; None while another process has it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return _let_nothing_go  # as where files cannot be locked
    keep_private(path)
    if not _lock(descriptor):
        os.close(descriptor)
        return None
    if not _is_at(path, descriptor):
        os.close(descriptor)
        return hold(path)  # whoever had it deleted it between our opening and our locking it

    def let_go() -> None:
        # Deleted while it is ours, since afterwards it may be another's; Windows deletes only what nobody has open.
        steps: list[Callable[[], None]] = [path.unlink, lambda: os.close(descriptor)]
        for step in reversed(steps) if sys.platform == "win32" else steps:
            with suppress(OSError):
                step()

    return let_go


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _let_nothing_go() -> None:
    """Nothing is held."""


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as refused:
            return not isinstance(refused, PermissionError)
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            # Not `flock`: what an agent forks would hold it, too, and outlive a run that is killed.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as refused:
            # Where files cannot be locked at all, nobody knows who has one, and nobody must be kept from it.
            return not isinstance(refused, BlockingIOError | PermissionError)
        return True


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


_MIGRATING = 0x5345_4154_0001
_CONTENTS = 0x5345_4154_0002
"""Keys of advisory locks."""
_SOON_MISSED = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
"""A machine that is gone without a word is noticed after a minute, not after two hours."""


class PostgresDatabase:
    """A PostgreSQL database that several processes may write to at once."""

    begin = "BEGIN"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as missing:
            raise MissingExtra("postgres", needed_for="A store in PostgreSQL") from missing
        try:
            parts = conninfo_to_dict(url)
        except psycopg.Error as unreadable:
            raise UsageError(
                "store postgresql://…: cannot be read. Use postgresql://user@host:5432/database."
            ) from unreadable
        self.name = f"postgresql://{parts.get('host', 'localhost')}/{parts.get('dbname', '')}"
        self.errors: tuple[type[Exception], ...] = (psycopg.Error,)
        self.conflicts: tuple[type[Exception], ...] = (psycopg.IntegrityError,)
        self._psycopg = psycopg
        self._url = url
        self._options = f"{parts.get('options') or ''} -c search_path=seatrial {_SOON_MISSED}"
        self._spelt: dict[str, str] = {}

    def connect(self) -> Any:
        try:
            return self._psycopg.connect(self._url, autocommit=True, options=self._options)
        except self._psycopg.Error as refused:
            raise UsageError(f"{self.name}: cannot be reached: {str(refused).strip()}") from refused

    def require_there(self) -> None:
        """Nothing to do: a server that is gone refuses to commit."""

    def spell(self, statement: str) -> str:
        spelt = self._spelt.get(statement)
        if spelt is None:
            spelt = self._spelt[statement] = statement.replace("?", "%s").replace(PACKED, "")
        return spelt

    def insert(self, cursor: Any, what: Insert, rows: Sequence[Row]) -> int:
        cursor.executemany(self.spell(what.of(1)), rows)
        added: int = cursor.rowcount
        return added

    def tidy(self, connection: Connection) -> None:
        """Nothing to do: the server does."""

    def has_version(self, connection: Connection) -> bool:
        row = connection.row("SELECT to_regclass('seatrial.schema_version') IS NOT NULL")
        return row is not None and bool(row[0])

    def prepare(self, connection: Connection) -> None:
        connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATING})")
        connection.execute("CREATE SCHEMA IF NOT EXISTS seatrial")

    def lock_run(self, connection: Connection, run_id: str) -> None:
        connection.execute(f"{HAS_RUN} FOR UPDATE", (run_id,))

    def claim_run(self, run_id: str) -> Callable[[], None] | None:
        """By a transaction that stays open: a lock of the session would outlive us in a pool of connections."""
        key = int.from_bytes(blake2b(run_id.encode(), digest_size=8).digest(), signed=True)
        connection = Connection(self)
        connection.begin()
        row = connection.row("SELECT pg_try_advisory_xact_lock(?)", (key,))
        if row is not None and row[0]:
            return connection.close
        connection.close()
        return None

    def share_contents(self, connection: Connection) -> None:
        connection.execute(f"SELECT pg_advisory_xact_lock_shared({_CONTENTS})")

    def own_contents(self, connection: Connection) -> None:
        connection.execute(f"SELECT pg_advisory_xact_lock({_CONTENTS})")
