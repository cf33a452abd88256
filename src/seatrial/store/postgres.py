"""The store in a PostgreSQL database, in a schema of its own."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from seatrial.errors import MissingExtra, UsageError

from .connection import Connection, Row
from .schema import HAS_RUN, PACKED, Insert

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
