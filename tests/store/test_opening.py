import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from seatrial.errors import MissingExtra, UsageError
from seatrial.store.store import open_store


@pytest.mark.parametrize("spell", [str, Path, lambda path: f"sqlite:///{path}"])
def test_a_store_is_made_with_its_folder(tmp_path: Path, spell: object) -> None:
    path = tmp_path / "new" / "folder" / "runs.db"
    open_store(spell(str(path))).close()  # type: ignore[operator]
    assert path.exists()


def test_a_sqlite_url_with_three_slashes_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///sub/runs.db").close()
    assert (tmp_path / "sub" / "runs.db").exists()


def test_our_own_folder_is_kept_out_of_git(tmp_path: Path) -> None:
    open_store(tmp_path / ".seatrial" / "runs.db").close()
    assert (tmp_path / ".seatrial" / ".gitignore").read_text() == "*\n"


def test_a_folder_of_somebody_else_gets_no_gitignore(tmp_path: Path) -> None:
    open_store(tmp_path / "runs.db").close()
    assert not (tmp_path / ".gitignore").exists()


def test_a_gitignore_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / ".seatrial").mkdir()
    (tmp_path / ".seatrial" / ".gitignore").write_text("cache/\n")
    open_store(tmp_path / ".seatrial" / "runs.db").close()
    assert (tmp_path / ".seatrial" / ".gitignore").read_text() == "cache/\n"


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, which are longer than the header of a database" * 50)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"notes\.txt: is not a SQLite database"):
        open_store(path)
    assert path.read_bytes() == before


def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as shop:
        shop.execute("CREATE TABLE schema_version (version INTEGER)")
        shop.commit()
    with pytest.raises(UsageError, match=r"shop\.db: is a SQLite database of another program"):
        open_store(path)
    with closing(sqlite3.connect(path)) as shop:
        assert shop.execute("SELECT name FROM sqlite_master").fetchall() == [("schema_version",)]


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be opened for writing"):
        open_store(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be opened for writing"):
        open_store(tmp_path / "file" / "runs.db")


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    open_store(path).close()
    path.chmod(0o444)
    tmp_path.chmod(0o755)
    # The superuser may write to anything, so that somebody else must try.
    script = (
        "import os\nfrom seatrial.store.store import open_store\nos.getuid() or os.setuid(65534)\nopen_store('runs.db')"
    )
    tried = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "runs.db: is read-only" in tried.stderr


@pytest.mark.parametrize("url", ["mysql://host/db", "sqlite://runs.db", "sqlite:///", "sqlite:///:memory:", ""])
def test_a_store_that_cannot_be_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="store"):
        open_store(url)


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'seatrial\[postgres\]'"):
        open_store("postgresql://localhost/x")


def test_a_server_that_is_not_there_is_a_usage_error_without_the_password() -> None:
    with pytest.raises(UsageError, match=r"postgresql://127\.0\.0\.1/runs: cannot be reached") as refused:
        open_store("postgresql://ann:secret-word@127.0.0.1:1/runs")
    assert "secret-word" not in str(refused.value)


def test_opening_a_store_in_a_file_does_not_load_the_driver_of_the_other() -> None:
    script = (
        "import sys, seatrial.store; sys.exit(any(name in sys.modules for name in ('psycopg', 'pydantic', 'asyncio')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
