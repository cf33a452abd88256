"""Files and folders with the right permissions: `.seatrial` is readable by its owner only, since it has conversations.

Files elsewhere keep the permissions that the system gives them: a store that a team shares stays shared.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = ".seatrial"


def make_folder(folder: Path) -> None:
    """Make the folder and its parents. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in (folder, *folder.parents):
        if one.name == _NAME:
            _set_mode(one, 0o700)


def make_file(path: Path) -> None:
    """Make an empty private file if there is none. Outside `.seatrial` nothing is made."""
    if _is_ours(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        keep_private(path)


def keep_private(path: Path) -> None:
    """Make a file in `.seatrial` readable by its owner only."""
    if _is_ours(path) and path.exists():
        _set_mode(path, 0o600)


def _is_ours(path: Path) -> bool:
    return _NAME in path.absolute().parent.parts


def _set_mode(path: Path, mode: int) -> None:
    with suppress(OSError):  # it belongs to another user
        if path.stat().st_mode & 0o777 != mode:
            path.chmod(mode)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file to write to, which replaces the path at the end. A link stays a link. Raises OSError.

    A pipe or a device is written to directly.
    """
    make_folder(path.parent)
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    # Not earlier: a pipe such as /dev/stdout has no real path.
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise IsADirectoryError(f"{str(place)!r} is a folder")
    new = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        make_file(new)
        yield new
        os.replace(new, place)
    finally:
        new.unlink(missing_ok=True)
