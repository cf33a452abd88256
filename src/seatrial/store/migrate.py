"""Brings a store to the schema of this version, whoever comes first."""

from seatrial.errors import UsageError

from .connection import Connection, Database
from .schema import CREATE_VERSION, MIGRATIONS, READ_VERSION, VERSION, WRITE_VERSION

_WITHOUT_MARKS = 4
"""The migration from which on bodies have no marks."""


def migrate(database: Database, connection: Connection) -> None:
    """Set the store up, or bring it up to date. Raises UsageError when it is ahead of us."""
    if _version(database, connection) == VERSION:
        return
    with connection.transaction():
        database.prepare(connection)
        version = _version(database, connection)  # another process may have been quicker
        if version == 0:
            connection.execute(CREATE_VERSION)
        for number in range(version + 1, VERSION + 1):
            for statement in MIGRATIONS[number - 1]:
                connection.execute(statement)
            if number == _WITHOUT_MARKS and version > 0:
                from .migrate_bodies import rewrite_marked_bodies

                rewrite_marked_bodies(connection)
            connection.execute(WRITE_VERSION, (number,))


def _version(database: Database, connection: Connection) -> int:
    """The number of the last migration; 0 for a store that is new."""
    if not database.has_version(connection):
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
