"""The suites that can be run, and the processes that run them."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.run import Run, RunState
from seatrial.model.struct import Struct
from seatrial.scenarios.load import find_files

from .access import ServeOptions

MOST_LISTED = 500
_HEAD = 65_536
_SIGNS = (b"scenarios", b"turns", b"Scenario", b"Suite")


def list_suites(root: Path) -> list[str]:
    """The suites, relative to the folder."""
    return sorted(path.relative_to(root).as_posix() for path in _suites(root).values())[:MOST_LISTED]


def find_suite(root: Path, name: str) -> Path:
    """The path of a suite, or of a folder that contains only suites. Raises UsageError."""
    try:
        real = (root / name).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        raise UsageError(f"{name!r}: there is no such suite. See the list of suites.") from None
    if not real.is_relative_to(root.resolve()):
        raise UsageError(f"{name!r}: is outside the served folder, so it cannot be run here")
    known = _suites(root)
    files = [Path(file).resolve() for file in find_files([real], [])]
    others = [file.name for file in files if file not in known]
    if others or not files:
        what = f" ({others[0]})" if real.is_dir() and others else ""
        raise UsageError(f"{name!r}: is not a suite that can be run here{what}. See the list of suites.")
    return real


def _suites(root: Path) -> dict[Path, Path]:
    """Resolved path -> path of the files that look like suites and are in the folder, with links followed."""
    place = root.resolve()
    found = {path.resolve(): path for path in find_files([root], []) if isinstance(path, Path)}
    return {real: path for real, path in found.items() if real.is_relative_to(place) and _looks_like_suite(path)}


def _looks_like_suite(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD)
    except OSError:
        return False  # it cannot be run either
    return any(sign in head for sign in _SIGNS)


MOST_AT_ONCE = 8
_SAID_AT_MOST = 4_000
_STOP_TIMEOUT_SECONDS = 5.0


class Conflict(UsageError):
    """The run is in the wrong state for the request."""


class Start(Struct, frozen=True, kw_only=True):
    """What to run."""

    paths: tuple[str, ...]
    name: str | None = None
    scenario_text: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    trials: str | None = None


def _new_id() -> str:
    return f"{now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


class _Started:
    """A process of `seatrial run` or `seatrial fork`."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[Any], *, before: Run | None = None) -> None:
        self.process = process
        self.errors = errors
        self.before = before
        """The run at the time it was resumed."""

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait(self, run_id: str) -> None:
        """Wait until the process ends. Raises Conflict."""
        try:
            self.process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Conflict(f"run {run_id}: is still stopping. Try again in a moment.") from None

    def read_errors(self) -> str:
        """The last part of its stderr."""
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(size - _SAID_AT_MOST, 0))
        text: str = self.errors.read().decode("utf-8", errors="replace")
        return text.strip()


class RunProcesses:
    """Starts, resumes and cancels runs of this server."""

    def __init__(self, options: ServeOptions, environ: Mapping[str, str]) -> None:
        self._options = options
        # The agent must not see the server's token. The store goes into the environment, because its URL may contain a
        # password and other users can see arguments.
        kept = {name: value for name, value in environ.items() if name != "SEATRIAL_TOKEN"}
        self._environ = {**kept, "SEATRIAL_STORE": options.store}
        self._started: dict[str, _Started] = {}
        self._lock = Lock()

    def start(self, request: Start) -> str:
        """Start a run and return its id. It is stored when its files are loaded. Raises UsageError, Conflict."""
        if not request.paths:
            raise UsageError("paths: name at least one suite")
        files = [find_suite(self._options.root, path) for path in request.paths]
        run_id = _new_id()
        options = [
            f"--id={run_id}",
            *([f"--name={request.name}"] if request.name else []),
            *(f"--scenario={text}" for text in request.scenario_text),
            *(f"--tag={tag}" for tag in request.tags),
            *([f"--trials={request.trials}"] if request.trials else []),
        ]
        with self._lock:
            self._require_free_slot()
            self._started[run_id] = self._spawn(["run", *options, "--", *map(str, files)])
        return run_id

    def fork(self, trial: tuple[str, str, str], files: list[Path], *, at: str, trials: int) -> str:
        """Continue a trial (run, scenario, number) and return the id of the new run. Raises Conflict."""
        run_id = _new_id()
        options = [f"--id={run_id}", f"--at={at}", f"--trials={trials}", *(f"--suite={file}" for file in files)]
        with self._lock:
            self._require_free_slot()
            self._started[run_id] = self._spawn(["fork", *options, "--", *trial])
        return run_id

    def resume(self, run: Run, files: list[Path]) -> None:
        """Run the missing trials of a stopped run. Raises Conflict."""
        with self._lock:
            earlier = self._started.get(run.id)
            if earlier is not None and earlier.is_running and earlier.before == run:
                return  # another request has resumed it
            self._require_free_slot()
            if earlier is not None:
                earlier.wait(run.id)
                earlier.errors.close()
            command = ["run", f"--resume={run.id}", "--", *map(str, files)]
            self._started[run.id] = self._spawn(command, before=run)

    def is_resuming(self, run: Run) -> bool:
        """Whether the run was resumed and its process is still loading files."""
        started = self._started.get(run.id)
        if started is None or run.state is RunState.RUNNING:
            return False
        return started.is_running and started.before == run

    def cancel(self, run_id: str) -> bool:
        """Interrupt the run, like Ctrl-C. False if it is not running here."""
        started = self._started.get(run_id)
        if started is None or not started.is_running:
            return False
        started.process.send_signal(signal.SIGINT)
        return True

    def is_running(self, run_id: str) -> bool:
        started = self._started.get(run_id)
        return started is not None and started.is_running

    def was_started(self, run_id: str) -> bool:
        return run_id in self._started

    def error_output(self, run_id: str) -> str | None:
        """The stderr of a process that ended with an error; else None."""
        started = self._started.get(run_id)
        if started is None or started.is_running or not started.process.returncode:
            return None
        return started.read_errors() or f"the process ended with exit code {started.process.returncode}"

    def close(self) -> None:
        """Interrupt all runs and wait until they have saved finished trials."""
        running = [one for one in self._started.values() if one.is_running]
        for one in running:
            one.process.send_signal(signal.SIGINT)
        for one in running:
            try:
                one.process.wait(_STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
        for one in self._started.values():
            one.errors.close()

    def _require_free_slot(self) -> None:
        if sum(one.is_running for one in self._started.values()) >= MOST_AT_ONCE:
            raise Conflict(f"{MOST_AT_ONCE} runs are running already. Wait for one, or cancel one.")

    def _spawn(self, command: list[str], *, before: Run | None = None) -> _Started:
        errors = TemporaryFile()  # noqa: SIM115  closed with the processes
        process = subprocess.Popen(
            [sys.executable, "-m", "seatrial", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=self._environ,
            start_new_session=True,  # Ctrl-C in the terminal goes to the server only
        )
        return _Started(process, errors, before=before)
