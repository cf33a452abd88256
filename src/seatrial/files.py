"""The folder `.seatrial` and all files in it are for their owner alone: they hold what users and agents said.

Files elsewhere keep the permissions that the system gives them: a store that a team shares stays shared.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = ".seatrial"


def make_folder(folder: Path) -> None:
    """Make the folder and those above it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in (folder, *folder.parents):
        if one.name == _NAME:
            _set_mode(one, 0o700)


def make_file(path: Path) -> None:
    """Make an empty file, unless it is there, that nobody else can read. Files elsewhere are left to others to make."""
    if _is_ours(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        keep_private(path)


def keep_private(path: Path) -> None:
    """Let nobody else read the file."""
    if _is_ours(path) and path.exists():
        _set_mode(path, 0o600)


def _is_ours(path: Path) -> bool:
    return _NAME in path.absolute().parent.parts


def _set_mode(path: Path, mode: int) -> None:
    with suppress(OSError):  # it belongs to another user, who has decided
        if path.stat().st_mode & 0o777 != mode:
            path.chmod(mode)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write: a new file beside the path, which takes its place at the end. A link stays a link.

    A pipe or a device cannot be replaced; it takes what is written as it comes. Raises OSError.
    """
    make_folder(path.parent)
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    # Only now: of a pipe that a shell hands over, such as /dev/stdout, the real path is no path at all.
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise IsADirectoryError(f"{str(place)!r} is a folder")
    draft = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        make_file(draft)
        yield draft
        os.replace(draft, place)
    finally:
        draft.unlink(missing_ok=True)
