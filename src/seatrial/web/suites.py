"""The suites that may be run from here: files under the served folder, and nothing else."""

from pathlib import Path

from seatrial.errors import UsageError
from seatrial.scenarios.paths import READABLE, find_files

MOST_LISTED = 500
_HEAD = 65_536
_SIGNS = (b"scenarios", b"turns", b"Scenario", b"Suite")


def list_suites(root: Path) -> list[str]:
    """The files that look like suites, relative to the folder."""
    found = [path for path in find_files([root], []) if isinstance(path, Path) and _looks_like_suite(path)]
    return sorted(path.relative_to(root).as_posix() for path in found[:MOST_LISTED])


def find_suite(root: Path, name: str) -> Path:
    """The file or folder of that name. Raises UsageError where it is not under the folder, links followed."""
    try:
        real = (root / name).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise UsageError(f"{name!r}: there is no such suite. See the list of suites.") from None
    if not real.is_relative_to(root.resolve()):
        raise UsageError(f"{name!r}: is outside the folder that is served, so it cannot be run from here")
    if real.is_file() and real.suffix.lower() not in READABLE:
        raise UsageError(f"{name!r}: is no scenario file. Expected one of {', '.join(READABLE)}.")
    return real


def _looks_like_suite(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return False  # it cannot be run either; naming it by hand says why
    return any(sign in head for sign in _SIGNS)
