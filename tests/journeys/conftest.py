"""A folder as a user has it, and `seatrial` run in it: in this process, or as one of its own."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from seatrial.cli import main


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str


class Folder:
    """A user's project."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys

    def write(self, name: str, text: str) -> Path:
        """Write a file; the text may be indented as the test is."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return file

    def seatrial(self, *args: str) -> Ended:
        """Run a command in this process, as the console script would."""
        self._capsys.readouterr()
        importlib.invalidate_caches()
        with pytest.raises(SystemExit) as ended:
            main(args)
        captured = self._capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, captured.out, captured.err)

    def process(self, *args: str) -> Ended:
        """Run a command in a process of its own."""
        with self.start(*args) as process:
            out, err = process.communicate(timeout=60)
        return Ended(process.returncode, out, err)

    def start(self, *args: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "seatrial", *args],
            cwd=self.path,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def results(self) -> Any:
        """What is stored of the last run."""
        return json.loads(self.seatrial("show", "latest", "--json").out)

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Folder]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in os.environ if name.startswith("SEATRIAL_")]:
        monkeypatch.delenv(name)
    known = set(sys.modules)
    yield Folder(tmp_path, capsys)
    # Every test has an `agent` module of its own.
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
