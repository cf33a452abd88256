"""`seatrial run --watch`: run affected scenarios again after each change.

Each round runs in its own process, so that edited modules are imported again. The process reports which files it read.
"""

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec, source_from_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any, Final

import click
from msgspec.structs import replace

from seatrial.clock import now
from seatrial.errors import SeatrialError, UsageError
from seatrial.model.protocols import PreparedScenario
from seatrial.model.struct import field_names
from seatrial.reports.progress import Progress
from seatrial.reports.registry import parse_report_option
from seatrial.reports.texts import counted, failing
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan
from seatrial.scenarios.load import find_files
from seatrial.scenarios.loaded_suite import LoadedSuite

from .main import show_error
from .options import default_paths
from .run import play_plan, read_request

_OURS: Final = str(Path(__file__).resolve().parent.parent) + os.sep
_INSTALLED: Final = tuple({f"{Path(place).absolute()}{os.sep}" for place in (sys.prefix, sys.base_prefix)})
_WRITING: Final = os.O_WRONLY | os.O_RDWR
_LEFT_OUT: Final = ("node_modules", "__pycache__", "site-packages")


class FilesRead:
    """An audit hook that records every file of the project that is opened, such as prompts.

    Files that are also written are not watched: a log would start a new round after every round.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}{os.sep}"
        self._read: dict[str, None] = {}
        self._written: set[str] = set()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], (str, os.PathLike)):
            return
        path, _, flags = arguments
        name = os.path.abspath(os.fspath(path))
        if isinstance(flags, int) and flags & _WRITING:
            self._written.add(name)
        else:
            self._read[name] = None

    def of_project(self) -> list[str]:
        """Modules that are not installed, and other files in the project folder that are not hidden."""
        sources = dict.fromkeys(map(_source, list(self._read)))
        return [name for name in sources if name not in self._written and self.is_of_project(name)]

    def is_of_project(self, name: str) -> bool:
        if is_installed(name):
            return False
        inside = name.startswith(self._folder)
        hidden = inside and any(part.startswith(".") for part in Path(name.removeprefix(self._folder)).parts)
        return (inside and not hidden) or name.endswith(".py")


def is_installed(name: str) -> bool:
    """Whether the file belongs to Python, Seatrial or an installed package."""
    return name.startswith((_OURS, *_INSTALLED)) or any(f"{os.sep}{part}{os.sep}" in name for part in _LEFT_OUT)


def _source(name: str) -> str:
    """The source of a compiled file."""
    if not name.endswith(".pyc"):
        return name
    try:
        return source_from_cache(name)
    except ValueError:
        return name


def python_files(folder: Path) -> Iterator[str]:
    """Every Python file of a project: any of them may be why it could not be loaded."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _LEFT_OUT
            and not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))
        ]
        yield from (os.path.join(parent, name) for name in files if name.endswith(".py"))


def code_files_of(things: Iterable[Any], *, files: Iterable[str] = ()) -> set[str]:
    """The files, and those of all modules that the files and `things` (import paths, functions) import."""
    found = {f"<{file}>": file for file in files}
    waiting = [module for thing in things for module in _modules_in(thing)]
    waiting += [module for file in files for module in _imported_by("", file)]
    while waiting:
        name = waiting.pop()
        file = None if name in found else _file_of(name)
        if file is not None:
            found[name] = file
            waiting += _imported_by(name, file)
    return set(found.values())


def _modules_in(thing: Any) -> Iterator[str]:
    if isinstance(thing, str):
        module, colon, attribute = thing.partition(":")
        if colon and all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
            yield module
    elif isinstance(thing, Mapping):
        yield from (module for value in thing.values() for module in _modules_in(value))
    elif isinstance(thing, Sequence) and not isinstance(thing, bytes):
        yield from (module for value in thing for module in _modules_in(value))
    elif not isinstance(thing, type) and (names := field_names(thing)) is not None:
        yield from (module for name in names for module in _modules_in(getattr(thing, name)))
    else:
        own = getattr(thing, "__module__", None)
        if isinstance(own, str):
            yield own


def _file_of(name: str) -> str | None:
    """The source of a module of the project; None if it is installed, built in or missing."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        return None
    loaded = sys.modules.get(name)
    if loaded is None and (parent := name.rpartition(".")[0]) and _file_of(parent) is None:
        return None  # searching for it would import its package
    try:
        spec = None if loaded is not None else find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    file = spec.origin if spec is not None else getattr(loaded, "__file__", None)
    file = None if file is None else os.path.abspath(file)
    return file if file is not None and file.endswith(".py") and not is_installed(file) else None


def _imported_by(name: str, file: str) -> Iterator[str]:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = name if file.endswith("__init__.py") else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            # An imported name may be a module of the package.
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))


Key = tuple[str, str, str]
"""Suite, scenario, agent."""


class Round:
    """One round: the scenarios that the changes affect, and their results."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._options = {**task["options"], "paths": tuple(task["options"]["paths"])}
        self._changed: list[str] | None = task["changed"]
        """None: run everything."""
        self.fingerprints: dict[Key, str] = {(s, n, a): value for s, n, a, value in task["fingerprints"]}
        self.failing: set[tuple[str, str]] = {(suite, name) for suite, name in task["failing"]}
        self.code_files: dict[str, set[str]] = {}
        """Suite -> the code files that it uses."""
        self.loaded = False
        """Whether the suites could be loaded; else the changes count in the next round too."""

    def play(self) -> int:
        progress = Progress(sys.stderr)
        asked = [parse_report_option(text) for text in self._options["reports"]]
        request = read_request(self._options, listeners=(progress,))
        plan = RunPlan(request)
        current = {_key(prepared): prepared.entry.fingerprint for prepared in plan.scenarios()}
        for suite in plan.suites:
            self.code_files.setdefault(suite.name, set()).update(_suite_code_files(suite))
        affected = self._affected({os.path.abspath(suite.path) for suite in plan.suites}, current)
        self.fingerprints, before = current, self.fingerprints
        self.loaded = True
        self.failing &= {(suite, name) for suite, name, _ in current}
        if before or self._changed is not None:
            self._announce(affected, len(current))
            if not affected:
                return 0
            request = replace(request, only=frozenset((suite, name) for suite, name, _ in affected))
        report = play_plan(
            _FailedFirst(request, self.failing), asked, verbose=self._options["verbose"], progress=progress
        )
        self._update_failing({(suite, name) for suite, name, _ in affected}, report)
        return report.exit_code

    def _affected(self, suite_files: set[str], current: dict[Key, str]) -> set[Key]:
        if self._changed is None:
            return set(current)
        edited = {key for key, value in current.items() if self.fingerprints.get(key) != value}
        known = set[str]().union(*self.code_files.values())
        for name in self._changed:
            if name in known:
                edited |= {key for key in current if name in self.code_files[key[0]]}
            elif name not in suite_files:
                # No import leads to this file, so any scenario may read it.
                return set(current)
        return edited

    def _announce(self, affected: set[Key], total: int) -> None:
        folder = f"{Path.cwd()}{os.sep}"
        names = [name.removeprefix(folder) for name in self._changed or ()]
        what = f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''} changed"
        much = f"{len(affected)} of {counted(total, 'scenario')}" if affected else "no scenario is affected"
        click.echo(f"\n── {now().astimezone():%H:%M:%S}  {what}: {much} ──")

    def _update_failing(self, played: set[tuple[str, str]], report: Any) -> None:
        keys = [one.entry.key for one in failing(report.outcome)]
        self.failing = (self.failing - played) | {(key.suite, key.name) for key in keys}
        earlier = sorted(name for suite, name in self.failing - played)
        if earlier:
            click.echo(f"not passed in earlier rounds: {', '.join(earlier)}")


class _FailedFirst(RunPlan):
    """Scenarios that failed last time run first."""

    def __init__(self, request: RunRequest, failing: set[tuple[str, str]]) -> None:
        super().__init__(request)
        self._failing = failing

    def scenarios(self) -> Iterator[PreparedScenario]:
        found = super().scenarios()
        return iter(sorted(found, key=lambda one: _key(one)[:2] not in self._failing)) if self._failing else found


def _key(prepared: PreparedScenario) -> Key:
    key = prepared.entry.key
    return key.suite, key.name, key.agent


def _suite_code_files(loaded: LoadedSuite) -> set[str]:
    suite = loaded.suite
    agents = [suite.agent, *(suite.agents or {}).values()]
    programs = [part for agent in agents if isinstance(agent, Mapping) for part in _program_files(agent)]
    modules = [f"{name}:any" for name in (*suite.evaluators, *([] if os.path.exists(loaded.path) else [loaded.path]))]
    in_python = [os.path.abspath(loaded.path)] if loaded.path.endswith(".py") else []
    return code_files_of([suite, *modules, *loaded.scenarios], files=in_python).union(programs)


def _program_files(agent: Mapping[str, Any]) -> Iterator[str]:
    """The arguments of a program that are files."""
    for part in agent.get("argv") or ():
        file = os.path.abspath(os.path.join(agent.get("cwd") or "", str(part)))
        if os.path.isfile(file):
            yield file


def main() -> int:
    """Run one round; return its exit code."""
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
            "files": sorted(
                {*read.of_project(), *filter(read.is_of_project, set[str]().union(*this.code_files.values()))}
            ),
            "fingerprints": [[*key, value] for key, value in this.fingerprints.items()],
            "failing": sorted(this.failing),
            "loaded": this.loaded,
        }
        Path(task["answer"]).write_text(json.dumps(kept), encoding="utf-8")


_LOOK_EVERY_SECONDS = 0.25
_ROUND = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "from seatrial.cli.watch import main; sys.exit(main())"
)
"""Before a round starts there is nothing to save, so Ctrl-C ends it silently."""
_NOT_COMBINED = {
    "resume": "--resume",
    "retry_errors": "--retry-errors",
    "retry_agent_errors": "--retry-agent-errors",
    "failed": "--failed",
    "run_id": "--id",
    "dry_run": "--dry-run",
}
"""Options that cannot be combined with --watch."""


def watch(options: dict[str, Any]) -> int:
    """Run rounds until Ctrl-C; then return 130."""
    for name, flag in _NOT_COMBINED.items():
        if options[name]:
            raise UsageError(f"--watch: cannot be combined with {flag}")
    with TemporaryDirectory(prefix="seatrial-watch-") as place:
        return _Watch(options, Path(place) / "answer.json").watch()


class _Watch:
    """Starts the rounds and waits for changes in between."""

    def __init__(self, options: dict[str, Any], answer: Path) -> None:
        self._options = {**options, "watch": False}
        self._answer = answer
        self._kept: dict[str, Any] = {"files": [], "fingerprints": [], "failing": [], "loaded": False}
        self._changed: list[str] | None = None

    def watch(self) -> int:
        while True:
            before = file_states(self._files())
            code = self._play()
            if code == 130:
                return code
            # A file that was edited during the round has changed. For a new file this is unknown.
            before = {name: before.get(name, state) for name, state in file_states(self._files()).items()}
            click.echo(f"watching {len(before)} file{'' if len(before) == 1 else 's'}; Ctrl-C to stop", err=True)
            changed = self._wait(before)
            self._changed = None if self._changed is None else sorted({*self._changed, *changed})

    def _play(self) -> int:
        """The exit code of a round."""
        self._answer.unlink(missing_ok=True)
        known = {name: self._kept[name] for name in ("fingerprints", "failing")}
        task = {"options": self._options, "changed": self._changed, "answer": str(self._answer), **known}
        with subprocess.Popen([sys.executable, "-c", _ROUND], stdin=subprocess.PIPE) as child:
            try:
                child.communicate(json.dumps(task).encode())
            except KeyboardInterrupt:
                child.wait()  # it got Ctrl-C too, and saves finished trials
                raise
        if self._answer.exists():
            self._kept = json.loads(self._answer.read_text(encoding="utf-8"))
            self._changed = [] if self._kept["loaded"] else self._changed
        return child.returncode

    def _files(self) -> set[str]:
        """The files of the suites and, if they could not be loaded, all Python files."""
        suites = find_files(default_paths(self._options["paths"]), [])
        found = {os.path.abspath(file) for file in suites if isinstance(file, Path)} | set(self._kept["files"])
        return found if self._kept["loaded"] else found | set(python_files(Path.cwd()))

    def _wait(self, before: dict[str, Any]) -> list[str]:
        """The changed files, once nothing changes any more: editors write in several steps."""
        while True:
            sleep(_LOOK_EVERY_SECONDS)
            seen = file_states(self._files())
            if seen == before:
                continue
            while True:
                sleep(_LOOK_EVERY_SECONDS)
                again = file_states(self._files())
                if again == seen:
                    break
                seen = again
            changed = [name for name in {**before, **seen} if before.get(name) != seen.get(name)]
            if changed:  # else the change was undone
                return changed


def file_states(files: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """Time and size of each file; None if it is gone."""
    seen: dict[str, tuple[int, int] | None] = {}
    for name in files:
        try:
            state = os.stat(name)
        except OSError:
            seen[name] = None
        else:
            seen[name] = (state.st_mtime_ns, state.st_size)
    return seen
