"""A database that the version with marks wrote: it opens, shows and resumes."""

import shutil
import sys
from collections.abc import Iterator
from math import inf, isnan
from pathlib import Path
from typing import Any

import pytest

from seatrial.model.run import ScenarioKey
from seatrial.store.store import open_store

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with two runs that were stored with schema 3: one finished, one that lacks a trial."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "agent", raising=False)
    (tmp_path / ".seatrial").mkdir()
    shutil.copy(FIXTURES / "schema-3.db", tmp_path / ".seatrial" / "runs.db")
    shutil.copy(FIXTURES / "agent_of_schema_3.txt", tmp_path / "agent.py")
    shutil.copy(FIXTURES / "suite-of-schema-3.yaml", tmp_path / "suite.yaml")
    yield tmp_path / ".seatrial" / "runs.db"
    sys.modules.pop("agent", None)  # other tests have agents of that name


def the_call(store: Any, name: str) -> Any:
    return store.trial("old-run", ScenarioKey("shop", name), 0).transcript.tool_calls[0]


def test_numbers_that_json_does_not_know_are_as_they_were(old: Path) -> None:
    with open_store(old) as store:
        call = the_call(store, "odd numbers")
    assert isnan(call.arguments["x"])
    assert call.arguments["y"] == inf
    assert call.result == {"r": [-inf, [1, 2]]}


def test_large_results_are_as_they_were(old: Path) -> None:
    with open_store(old) as store:
        assert the_call(store, "large").result == "lorem ipsum " * 3000


def test_no_body_has_marks_any_more_and_opening_again_changes_nothing(old: Path) -> None:
    open_store(old).close()
    before = bodies(old)
    assert not any(body.startswith(b'{"$marked"') for body in before)
    open_store(old).close()
    assert bodies(old) == before


def bodies(database: Path) -> list[bytes]:
    import sqlite3

    with sqlite3.connect(database) as connection:
        return [row[0] for row in connection.execute("SELECT body FROM bodies ORDER BY run_id, number, trial")]


def test_an_interrupted_run_is_resumed(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from seatrial.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["run", "--resume", "stopped-run"])
    assert ended.value.code == 1
    with open_store(old) as store:
        assert [row.trials for row in store.run_rows() if row.run.id == "stopped-run"] == [6]


@pytest.mark.parametrize("command", [("list", "runs"), ("show", "old-run"), ("show", "old-run", "odd numbers", "-v")])
def test_the_run_is_shown(old: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    from seatrial.cli import main

    with pytest.raises(SystemExit) as ended:
        main(list(command))
    assert ended.value.code in (0, None)
