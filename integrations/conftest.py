"""Tests against real packages. Each folder runs alone, in its own environment: `make integrations`.

A folder with a requirements.txt tests a package that is used next to Seatrial or compared with it. Every other folder
tests a framework; its environment has the extra of the same name.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from seatrial.agents.frameworks.registry import FRAMEWORKS, find_version
from seatrial.model.conversation import Transcript
from seatrial.runs.execute_run import execute
from seatrial.runs.fork import ForkAt, fork
from seatrial.runs.request import RunRequest


@pytest.fixture(autouse=True)
def _in_its_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the folder of the agent, as a user does."""
    monkeypatch.chdir(request.path.parent)
    monkeypatch.syspath_prepend(str(request.path.parent))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop at a framework version that we do not support. Users get only a warning."""
    for path in {Path(path) for path in session.config.args}:
        if not path.is_dir() or (path / "requirements.txt").exists():
            continue
        folder = path.name
        installed = find_version(folder)
        if not FRAMEWORKS[folder].covers(installed):
            pytest.exit(f"{folder} {installed} is not covered by {FRAMEWORKS[folder].requirement}", returncode=1)


DEPOT = """
def track_parcel(state, parcel_id: str) -> str:
    state["asked"] += 1
    return f"parcel {parcel_id} is in Hamburg"
"""


@pytest.fixture
def forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], tuple[Transcript, Transcript]]:
    """Play a conversation in the shop, fork it in the middle of its second turn, and return both.

    A mock with a sequence answers one tool, and a world the other.
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "depot", raising=False)
    (tmp_path / "depot.py").write_text(DEPOT, encoding="utf-8")
    turns = [{"user": "Hello, my name is Ada. Where is order A-1?"}, {"user": "Where is order C-3?"}]
    mock = {"sequence": ["order A-1 is in parcel P-A-1", "order C-3 is in parcel P-C-3"]}
    scenario = {
        "name": "fork",
        "turns": [*turns, {"user": "What is my name?"}],
        "mocks": {"lookup_order": mock},
        "world": {"seed": {"asked": 0}, "tools": "depot:track_parcel"},
        "unmocked_tools": "passthrough",
    }

    def play(agent: Any) -> tuple[Transcript, Transcript]:
        file = tmp_path / "suite.json"
        file.write_text(json.dumps({"suite": {"name": "shop", "agent": agent}, "scenarios": [scenario]}))
        request = RunRequest(sources=(str(file),), store=str(tmp_path / "runs.db"), cache=None)
        first = execute(request)
        (whole,) = first.trials()
        again = fork(first.run.id, whole.key, 0, ForkAt(call=3), trials=1, asked=replace(request, sources=()))
        (trial,) = again.trials()
        assert whole.transcript.world is not None
        assert [change.value for change in whole.transcript.world.changes] == [2]
        assert trial.transcript.world == whole.transcript.world
        return whole.transcript, trial.transcript

    return play
