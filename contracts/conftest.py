"""Each framework's folder is run by itself, in the framework's own environment."""

from pathlib import Path

import pytest

from seatrial.agents.frameworks import FRAMEWORKS, find_version


@pytest.fixture(autouse=True)
def _in_its_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user, who runs Seatrial beside the agent."""
    monkeypatch.chdir(request.path.parent)
    monkeypatch.syspath_prepend(str(request.path.parent))


def pytest_sessionstart(session: pytest.Session) -> None:
    """A framework that changed under us is an error here, though only a warning for users."""
    for folder in {Path(path).name for path in session.config.args}:
        installed = find_version(folder)
        if not FRAMEWORKS[folder].covers(installed):
            pytest.exit(f"{folder} {installed} is not covered by {FRAMEWORKS[folder].requirement}", returncode=1)
