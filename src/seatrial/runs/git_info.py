"""What is known of the project a run is made in: its commit, and the versions that take part."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from seatrial.version import __version__


@dataclass(slots=True)
class Commit:
    """The git commit of a folder, looked up on the side while other work goes on."""

    sha: str | None = None
    dirty: bool | None = None
    _thread: Thread | None = None

    def wait(self) -> "Commit":
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        return self


def find_commit(folder: Path) -> Commit:
    """Starts looking; `wait` for the answer. Nothing where there is no repository, or no git."""
    commit = Commit()
    if not any((place / ".git").exists() for place in (folder, *folder.parents)):
        return commit
    commit._thread = Thread(target=_look_up, args=(commit, folder), daemon=True)
    commit._thread.start()
    return commit


def _look_up(commit: Commit, folder: Path) -> None:
    sha = _git(folder, "rev-parse", "HEAD")
    if sha is None:
        return
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    commit.sha = sha.strip()
    commit.dirty = None if changes is None else bool(changes.strip())


def _git(folder: Path, *arguments: str) -> str | None:
    import subprocess

    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=4.0, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def versions() -> Mapping[str, str]:
    """Of Seatrial and Python."""
    return {"seatrial": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
