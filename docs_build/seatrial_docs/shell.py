"""The shell in which a page runs: a folder with the files of the page, and `seatrial` on the path.

`seatrial` runs in this process, because starting Python for each of 200 commands would take a minute. bash runs
everything else.
"""

import contextlib
import importlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from seatrial.cli import main

from .blocks import ROOT

_METACHARACTERS = re.compile(r"[|<>;&$`*()]")
_SECONDS = 60


class Shell:
    """Runs the commands of one page, one after another. Closing it restores the state of this process."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = self._root = folder
        self.environ = {**environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', '')}"}
        self.code = 0
        self.not_run: list[str] = []
        """Commands that were checked, and not run."""
        self.imported: set[Path] = set()
        """Files of the page that were imported in this process."""
        self.programs = 0
        """How many other programs were run; what those import is not seen."""
        self._servers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        self._before = (os.getcwd(), dict(os.environ), list(sys.path), set(sys.modules), sys.dont_write_bytecode)
        self._argv = sys.argv
        # Pages write one file several times within a second, which the time in a .pyc would not tell apart.
        sys.dont_write_bytecode = True
        os.chdir(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            _end(server)
        self._forget_modules()
        folder, environ, path, _, written = self._before
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        sys.path[:], sys.dont_write_bytecode, sys.argv = path, written, self._argv

    def run(self, command: str, *, shown: str = "") -> str:
        """Run the command and return its output; `code` is its exit code."""
        words = shlex.split(command, comments=True)
        if command == "echo $?":
            return str(self.code)
        if words[0] == "cd":
            self.folder = self.folder / words[1]
            os.chdir(self.folder)
            return ""
        if words[0] == "export":
            self.environ |= {name: value for name, _, value in (word.partition("=") for word in words[1:])}
            return ""
        if words[0] in _CHECKED:
            _CHECKED[words[0]](words)
            self.not_run.append(command)
            return ""
        if words[-1] == "&":
            return self._serve(command.rpartition("&")[0], len(shown.splitlines()))
        if words[0] == "seatrial" and not _METACHARACTERS.search(re.sub(r"'[^']*'|\"[^\"$]*\"|#.*", "", command)):
            return self._seatrial(words[1:])
        parts = re.split(r" && |; ", command.partition(" #")[0])
        if len(parts) > 1 and all(part.startswith("seatrial ") for part in parts):
            return "".join(self.run(part) for part in parts)
        return self._bash(command)

    def execute(self, code: str, name: str, namespace: dict[str, object]) -> None:
        """Run Python in this process, with what earlier blocks defined."""
        with self._inside():
            exec(compile(code, name, "exec"), namespace)

    def _seatrial(self, args: list[str]) -> str:
        """The output that stays on a terminal: the report or the error, without the progress."""
        with self._inside() as (out, err):
            sys.argv = ["seatrial", *args]
            try:
                main(args)
            except SystemExit as end:
                self.code = end.code if isinstance(end.code, int) else 1
        self._forget_modules()
        return out.getvalue() + (err.getvalue() if self.code == 2 or not out.getvalue() else "")

    @contextlib.contextmanager
    def _inside(self) -> Iterator[tuple[io.StringIO, io.StringIO]]:
        self._forget_modules()
        importlib.invalidate_caches()
        os.environ.clear()
        os.environ.update(self.environ)
        sys.path[:] = [str(self.folder), *self._before[2]]
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            yield out, err

    def _forget_modules(self) -> None:
        for name in set(sys.modules) - self._before[3]:
            file = Path(str(getattr(sys.modules[name], "__file__", None)))
            if file.is_relative_to(self._root):
                self.imported.add(file)
                del sys.modules[name]

    def _bash(self, command: str) -> str:
        self.programs += 1
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._plain_environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        self.code = done.returncode
        return done.stdout

    def _serve(self, command: str, lines: int) -> str:
        """Start a server and wait for as many lines as the page shows: then it listens."""
        self.programs += 1
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self._plain_environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._servers.append(server)
        out: IO[str] | None = server.stdout
        assert out is not None
        self.code = 0
        return "".join(out.readline() for _ in range(lines))

    def _plain_environ(self) -> dict[str, str]:
        """The environment without the other pytest plugins of this machine: they are slow, and a reader has others."""
        ours = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p seatrial_pytest"}
        return {**self.environ, **ours, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"}


def _end(server: subprocess.Popen[str]) -> None:
    """End the server and everything that it started; kill it after five seconds."""
    for number, seconds in ((signal.SIGTERM, 5), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.communicate(timeout=seconds)
            return


def _check_pip(words: list[str]) -> None:
    """Every extra that a page installs exists."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for word in words:
        for named in re.findall(r"seatrial\[([^\]]*)\]", word):
            unknown = set(named.split(",")) - set(extras)
            assert not unknown, f"{' '.join(words)}: there is no extra {', '.join(sorted(unknown))}"


def _check_make(words: list[str]) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    missing = [word for word in words[1:] if word not in targets]
    assert not missing, f"{' '.join(words)}: the Makefile has no target {', '.join(missing)}"


def _check_nothing(words: list[str]) -> None:
    """Nothing of ours to look up."""


_CHECKED: Mapping[str, Callable[[list[str]], None]] = {"pip": _check_pip, "make": _check_make, "git": _check_nothing}
"""Commands that install packages, run all tests or need a network: they are checked, not run."""
