"""One round of `seatrial run --watch`, as a process of its own: nothing that was loaded before can be stale.

The task comes as JSON on standard input; what is to be known for the next round is written to the file that it names.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from seatrial.clock import now
from seatrial.errors import SeatrialError
from seatrial.model.protocols import PreparedScenario
from seatrial.reports.progress import Progress
from seatrial.reports.registry import parse_report_option
from seatrial.reports.texts import counted, failing
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan
from seatrial.scenarios.loaded_suite import LoadedSuite

from .imports import files_behind
from .main import show_error
from .run import play_plan, read_request
from .watch_files import FilesRead

Key = tuple[str, str, str]
"""Suite, scenario, agent."""


class Round:
    """What is affected by the changes since the last round, and what became of it."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._options = {**task["options"], "paths": tuple(task["options"]["paths"])}
        self._changed: list[str] | None = task["changed"]
        """None: everything is to be played."""
        self.fingerprints: dict[Key, str] = {(s, n, a): value for s, n, a, value in task["fingerprints"]}
        self.failing: set[tuple[str, str]] = {(suite, name) for suite, name in task["failing"]}
        self.behind: dict[str, set[str]] = {}
        """Suite -> the files of code that it uses."""
        self.loaded = False
        """Whether the changes have been taken in; else they count for the next round as well."""

    def play(self) -> int:
        progress = Progress(sys.stderr)
        asked = [parse_report_option(text) for text in self._options["reports"]]
        request = read_request(self._options, listeners=(progress,))
        plan = RunPlan(request)
        now_there = {_key(prepared): prepared.entry.fingerprint for prepared in plan.scenarios()}
        for suite in plan.suites:
            self.behind.setdefault(suite.name, set()).update(_files_behind(suite))
        affected = self._affected({os.path.abspath(suite.path) for suite in plan.suites}, now_there)
        self.fingerprints, before = now_there, self.fingerprints
        self.loaded = True
        self.failing &= {(suite, name) for suite, name, _ in now_there}
        if before or self._changed is not None:
            self._announce(affected, len(now_there))
            if not affected:
                return 0
            request = replace(request, only=frozenset((suite, name) for suite, name, _ in affected))
        report = play_plan(
            _FailedFirst(request, self.failing), asked, verbose=self._options["verbose"], progress=progress
        )
        self._take_in({(suite, name) for suite, name, _ in affected}, report)
        return report.exit_code

    def _affected(self, suite_files: set[str], now_there: dict[Key, str]) -> set[Key]:
        if self._changed is None:
            return set(now_there)
        edited = {key for key, value in now_there.items() if self.fingerprints.get(key) != value}
        known = set[str]().union(*self.behind.values())
        for name in self._changed:
            if name in known:
                edited |= {key for key in now_there if name in self.behind[key[0]]}
            elif name not in suite_files:
                # Nobody can say who reads a file that no import leads to, so it counts for all.
                return set(now_there)
        return edited

    def _announce(self, affected: set[Key], total: int) -> None:
        folder = f"{Path.cwd()}{os.sep}"
        names = [name.removeprefix(folder) for name in self._changed or ()]
        what = f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''} changed"
        much = f"{len(affected)} of {counted(total, 'scenario')}" if affected else "nothing that decides a verdict"
        click.echo(f"\n── {now().astimezone():%H:%M:%S}  {what}: {much} ──")

    def _take_in(self, played: set[tuple[str, str]], report: Any) -> None:
        keys = [one.entry.key for one in failing(report.outcome)]
        self.failing = (self.failing - played) | {(key.suite, key.name) for key in keys}
        earlier = sorted(name for suite, name in self.failing - played)
        if earlier:
            click.echo(f"not passed in earlier rounds: {', '.join(earlier)}")


class _FailedFirst(RunPlan):
    """What did not pass last time is played before the rest."""

    def __init__(self, request: RunRequest, failing: set[tuple[str, str]]) -> None:
        super().__init__(request)
        self._failing = failing

    def scenarios(self) -> Iterator[PreparedScenario]:
        found = super().scenarios()
        return iter(sorted(found, key=lambda one: _key(one)[:2] not in self._failing)) if self._failing else found


def _key(prepared: PreparedScenario) -> Key:
    key = prepared.entry.key
    return key.suite, key.name, key.agent


def _files_behind(loaded: LoadedSuite) -> set[str]:
    suite = loaded.suite
    agents = [suite.agent, *(suite.agents or {}).values()]
    programs = [part for agent in agents if isinstance(agent, Mapping) for part in _program_files(agent)]
    modules = [f"{name}:any" for name in (*suite.evaluators, *([] if os.path.exists(loaded.path) else [loaded.path]))]
    in_python = [os.path.abspath(loaded.path)] if loaded.path.endswith(".py") else []
    return files_behind([suite, *modules, *loaded.resolved()], files=in_python).union(programs)


def _program_files(agent: Mapping[str, Any]) -> Iterator[str]:
    """The files of a program among its arguments."""
    for part in agent.get("argv") or ():
        file = os.path.abspath(os.path.join(agent.get("cwd") or "", str(part)))
        if os.path.isfile(file):
            yield file


def main() -> int:
    """Plays the round, and gives the exit code of its run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    task = json.load(sys.stdin)
    folder = Path.cwd()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    read = FilesRead(folder)
    sys.addaudithook(read)
    this = Round(task)
    try:
        return this.play()
    except SeatrialError as error:
        show_error(error)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    finally:
        kept = {
            "files": sorted({*read.of_project(), *filter(read.is_of_project, set[str]().union(*this.behind.values()))}),
            "fingerprints": [[*key, value] for key, value in this.fingerprints.items()],
            "failing": sorted(this.failing),
            "loaded": this.loaded,
        }
        Path(task["answer"]).write_text(json.dumps(kept), encoding="utf-8")
