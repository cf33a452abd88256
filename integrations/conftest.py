"""Tests against real packages. Each folder runs alone, in its own environment: `make integrations`.

A folder with a requirements.txt tests a package that is used next to Seatrial or compared with it. Every other folder
tests a framework; its environment has the extra of the same name.
"""

from pathlib import Path

import pytest

from seatrial.agents.frameworks.registry import FRAMEWORKS, find_version


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
