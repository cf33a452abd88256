"""One way to talk to either database: connections that speak our SQL and raise our errors, and a few kept for reuse."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Protocol

from seatrial.errors import StoreError

from .schema import Insert

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
