"""Files that one process holds until it lets them go, or ends, however it ends: the system sees to that."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from seatrial.private_files import keep_private


def hold(path: Path) -> Callable[[], None] | None:
    """Make the file this process's own. Gives the function that lets it go; None while another process has it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return _let_nothing_go  # as where files cannot be locked
    keep_private(path)
    if not _lock(descriptor):
        os.close(descriptor)
        return None
    if not _is_at(path, descriptor):
        os.close(descriptor)
        return hold(path)  # whoever had it deleted it between our opening and our locking it

    def let_go() -> None:
        # Deleted while it is ours, since afterwards it may be another's; Windows deletes only what nobody has open.
        steps: list[Callable[[], None]] = [path.unlink, lambda: os.close(descriptor)]
        for step in reversed(steps) if sys.platform == "win32" else steps:
            with suppress(OSError):
                step()

    return let_go


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _let_nothing_go() -> None:
    """Nothing is held."""


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as refused:
            return not isinstance(refused, PermissionError)
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            # Not `flock`: what an agent forks would hold it, too, and outlive a run that is killed.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as refused:
            # Where files cannot be locked at all, nobody knows who has one, and nobody must be kept from it.
            return not isinstance(refused, BlockingIOError | PermissionError)
        return True
