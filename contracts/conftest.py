"""Each folder is run by itself, in an environment of its own.

A folder with requirements of its own is about a package beside Seatrial, or one that is compared with it. The others
are about frameworks, each with the extra it is named after.
"""

from pathlib import Path

import pytest

from seatrial.agents.frameworks.registry import FRAMEWORKS, find_version


@pytest.fixture(autouse=True)
def _in_its_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user, who runs Seatrial beside the agent."""
    monkeypatch.chdir(request.path.parent)
    monkeypatch.syspath_prepend(str(request.path.parent))


def pytest_sessionstart(session: pytest.Session) -> None:
    """A framework that changed under us is an error here, though only a warning for users."""
    for path in {Path(path) for path in session.config.args}:
        if not path.is_dir() or (path / "requirements.txt").exists():
            continue
        folder = path.name
        installed = find_version(folder)
        if not FRAMEWORKS[folder].covers(installed):
            pytest.exit(f"{folder} {installed} is not covered by {FRAMEWORKS[folder].requirement}", returncode=1)
