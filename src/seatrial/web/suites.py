"""The suites that may be run from here: files under the served folder, and nothing else."""

from pathlib import Path

from seatrial.errors import UsageError
from seatrial.scenarios.paths import find_files

MOST_LISTED = 500
_HEAD = 65_536
_SIGNS = (b"scenarios", b"turns", b"Scenario", b"Suite")


def list_suites(root: Path) -> list[str]:
    """The suites, relative to the folder."""
    return sorted(path.relative_to(root).as_posix() for path in _suites(root).values())[:MOST_LISTED]


def find_suite(root: Path, name: str) -> Path:
    """The suite of that name, or the folder if it has nothing but suites. Raises UsageError."""
    try:
        real = (root / name).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise UsageError(f"{name!r}: there is no such suite. See the list of suites.") from None
    if not real.is_relative_to(root.resolve()):
        raise UsageError(f"{name!r}: is outside the folder that is served, so it cannot be run from here")
    known = _suites(root)
    files = [Path(file).resolve() for file in find_files([real], [])]
    others = [file.name for file in files if file not in known]
    if others or not files:
        what = f" ({others[0]})" if real.is_dir() and others else ""
        raise UsageError(f"{name!r}: is not a suite that can be run from here{what}. See the list of suites.")
    return real


def _suites(root: Path) -> dict[Path, Path]:
    """By where they really are: files that look like suites, and stand under the folder with links followed."""
    place = root.resolve()
    found = {path.resolve(): path for path in find_files([root], []) if isinstance(path, Path)}
    return {real: path for real, path in found.items() if real.is_relative_to(place) and _looks_like_suite(path)}


def _looks_like_suite(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return False  # it cannot be run either; naming it by hand says why
    return any(sign in head for sign in _SIGNS)
