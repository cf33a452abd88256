"""`seatrial run --watch`: plays what is affected whenever a file changes, each round in a fresh process."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import click

from seatrial.errors import UsageError
from seatrial.scenarios.paths import find_files

from .request import default_paths
from .watch_files import python_files

_LOOK_EVERY_SECONDS = 0.25
_ROUND = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "from seatrial.cli.watch_round import main; sys.exit(main())"
)
"""Until a round has begun there is nothing to keep, so Ctrl-C ends it without a word."""
_ALONE = {
    "resume": "--resume",
    "retry_errors": "--retry-errors",
    "retry_agent_errors": "--retry-agent-errors",
    "failed": "--failed",
    "run_id": "--id",
    "dry_run": "--dry-run",
}
"""Flags that make no sense in round after round."""


def watch(options: dict[str, Any]) -> int:
    """Never ends by itself; Ctrl-C ends it with 130, whatever the rounds said."""
    for name, flag in _ALONE.items():
        if options[name]:
            raise UsageError(f"--watch: plays again and again what changed, failed scenarios first; leave out {flag}")
    with TemporaryDirectory(prefix="seatrial-watch-") as place:
        return _Watch(options, Path(place) / "answer.json").go_on()


class _Watch:
    """What is known from round to round."""

    def __init__(self, options: dict[str, Any], answer: Path) -> None:
        self._options = {**options, "watch": False}
        self._answer = answer
        self._kept: dict[str, Any] = {"files": [], "fingerprints": [], "failing": [], "loaded": False}
        self._changed: list[str] | None = None

    def go_on(self) -> int:
        while True:
            before = look_at(self._files())
            code = self._play()
            if code == 130:
                return code
            # A file that was edited while the round went on has changed; of one that is new to us nobody can tell.
            before = {name: before.get(name, state) for name, state in look_at(self._files()).items()}
            click.echo(f"watching {len(before)} file{'' if len(before) == 1 else 's'}; Ctrl-C ends it", err=True)
            changed = self._wait(before)
            self._changed = None if self._changed is None else sorted({*self._changed, *changed})

    def _play(self) -> int:
        """The exit code of a round. Its changes are done with only if it could load the suites."""
        self._answer.unlink(missing_ok=True)
        known = {name: self._kept[name] for name in ("fingerprints", "failing")}
        task = {"options": self._options, "changed": self._changed, "answer": str(self._answer), **known}
        with subprocess.Popen([sys.executable, "-c", _ROUND], stdin=subprocess.PIPE) as child:
            try:
                child.communicate(json.dumps(task).encode())
            except KeyboardInterrupt:
                child.wait()  # it was interrupted as well, and keeps what is finished
                raise
        if self._answer.exists():
            self._kept = json.loads(self._answer.read_text(encoding="utf-8"))
            self._changed = [] if self._kept["loaded"] else self._changed
        return child.returncode

    def _files(self) -> set[str]:
        """What the suites were made of, and what may have kept them from being loaded."""
        suites = find_files(default_paths(self._options["paths"]), [])
        found = {os.path.abspath(file) for file in suites if isinstance(file, Path)} | set(self._kept["files"])
        return found if self._kept["loaded"] else found | set(python_files(Path.cwd()))

    def _wait(self, before: dict[str, Any]) -> list[str]:
        """The files that changed, once they have come to rest: editors write in several steps."""
        while True:
            sleep(_LOOK_EVERY_SECONDS)
            seen = look_at(self._files())
            if seen == before:
                continue
            while True:
                sleep(_LOOK_EVERY_SECONDS)
                again = look_at(self._files())
                if again == seen:
                    break
                seen = again
            changed = [name for name in {**before, **seen} if before.get(name) != seen.get(name)]
            if changed:  # else it was taken back meanwhile
                return changed


def look_at(files: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """What would be different after an edit; None for a file that is gone."""
    seen: dict[str, tuple[int, int] | None] = {}
    for name in files:
        try:
            state = os.stat(name)
        except OSError:
            seen[name] = None
        else:
            seen[name] = (state.st_mtime_ns, state.st_size)
    return seen
