"""Files that one process holds; what other processes see of them is in the contracts of stores."""

from pathlib import Path

import pytest

from seatrial.store import database as file_lock
from seatrial.store.database import lock_file


def test_a_file_is_gone_when_it_is_release(tmp_path: Path) -> None:
    release = lock_file(tmp_path / "mine")
    assert release is not None
    assert (tmp_path / "mine").exists()
    release()
    assert list(tmp_path.iterdir()) == []


def test_where_no_file_can_be_made_nobody_is_kept_from_anything(tmp_path: Path) -> None:
    release = lock_file(tmp_path / "no such folder" / "mine")
    assert release is not None
    release()


def test_where_no_file_can_be_locked_nobody_is_kept_from_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def refuse(descriptor: int, flags: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    release = lock_file(tmp_path / "mine")
    assert release is not None
    release()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_deleted_before_it_could_be_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock, deleted = tmp_path / "run.playing", file_lock._lock, []

    def lock_late(descriptor: int) -> bool:
        if not deleted:
            path.unlink()  # as its owner does when it lets it go
            deleted.append(path)
        return lock(descriptor)

    monkeypatch.setattr(file_lock, "_lock", lock_late)
    release = lock_file(path)

    assert release is not None
    assert path.exists()
    release()
    assert not path.exists()
