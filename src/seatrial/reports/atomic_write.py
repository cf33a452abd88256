"""Files that appear whole or not at all, wherever their path leads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seatrial.private_files import make_file, make_folder


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
