"""`load`: suites from files, folders, modules and Python objects."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.model.scenario import Scenario, Suite, SuiteConfig

from .cross_checks import Names
from .loaded_suite import LoadedSuite
from .merge import read_overrides
from .problems import FileProblems, Problem, Problems, show
from .python_files import find_suites, import_file, import_named
from .suite_files import read_document, read_jsonl
from .suite_reader import SuiteReader
from .value_readers import given

Source = str | Path | Suite | Scenario
IN_PYTHON = "<python>"
READABLE = (".yaml", ".yml", ".json", ".jsonl", ".py")
IN_FOLDERS = (".yaml", ".yml", ".jsonl", ".trial.json", "_trials.py")
RECORDINGS = (".calls.yaml", ".calls.yml")
"""Recorded tool calls (`run --record`). In folders they are not read as scenarios."""
_LOOKED_FOR = "*.yaml, *.yml, *.jsonl, *.json of scenarios and *_trials.py"
_SUITE_IN_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:suite|scenarios)"\s*:')
_HEAD = 1024
_LEFT_OUT = ("node_modules", "__pycache__")


def load(
    paths: Source | Sequence[Source],
    *,
    overrides: Mapping[str, Any] | SuiteConfig | None = None,
    environ: Mapping[str, str] | None = None,
    check_agents: bool = True,
) -> list[LoadedSuite]:
    """The suites of files, folders, modules and Python objects. Raises FileProblems with all problems.

    `overrides` are keys as in `suite.config`, from the command line. `${NAME}` in agent settings must be set in
    `environ` (the process's own without it), unless `check_agents` is False because other agents are used.
    """
    sources = each_source(paths)
    known = os.environ if environ is None else environ
    loader = _Loader(read_overrides(overrides), known if check_agents else None)
    if not sources:
        loader.problems.append(Problem(file="paths", message="nothing is given to load"))
    for each in sources:
        if not isinstance(each, (str, Path, Suite, Scenario)):
            message = f"expected a path, a Suite or a Scenario, got {show(each)}"
            loader.problems.append(Problem(file=IN_PYTHON, message=message))
    for file in find_files([each for each in sources if isinstance(each, (str, Path))], loader.problems):
        loader.load_file(file)
    loader.load_objects([each for each in sources if isinstance(each, (Suite, Scenario))], IN_PYTHON, "scenarios")
    if loader.problems:
        raise FileProblems(loader.problems)
    return loader.suites


def each_source(given: Any) -> list[Any]:
    """The sources as a list. A mapping is one source, which `load` then refuses."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)) else [given]


class _Loader:
    """Loads one file after the other, and collects the problems of all."""

    def __init__(self, flags: SuiteConfig, environ: Mapping[str, str] | None) -> None:
        self.suites: list[LoadedSuite] = []
        self.problems: list[Problem] = []
        self._flags = flags
        self._environ = environ
        self._names = Names()

    def load_file(self, file: Path | str) -> None:
        if isinstance(file, str) or file.suffix.lower() == ".py":
            self._load_module(file)
            return
        reader = self._reader()
        read = read_jsonl if file.suffix.lower() == ".jsonl" else read_document
        read(file, reader, self.problems)
        self._add(reader, file)

    def _load_module(self, file: Path | str) -> None:
        try:
            module = import_named(file) if isinstance(file, str) else import_file(file)
        except FileProblems as error:
            self.problems.extend(error.problems)
            return
        stem = file.rpartition(".")[2] if isinstance(file, str) else file.stem
        suites = find_suites(list(vars(module).values()), stem)
        if not suites:
            message = "there is no Scenario or Suite at the top level of the module"
            hint = "Give a file of scenarios. An agent belongs into its suite, or behind --agent"
            self.problems.append(Problem(file=str(file), message=message, suggestion=hint))
        for suite in suites:
            self._load_suite(suite, str(file))

    def load_objects(self, objects: Sequence[Suite | Scenario], file: str, name: str) -> None:
        for suite in find_suites(objects, name):
            self._load_suite(suite, file)

    def _load_suite(self, suite: Suite, file: str) -> None:
        reader = self._reader()
        read_objects(suite, file, reader, self.problems)
        self._add(reader, Path(file))

    def _reader(self) -> SuiteReader:
        return SuiteReader(flags=self._flags, names=self._names, environ=self._environ)

    def _add(self, reader: SuiteReader, file: Path) -> None:
        if reader.suite is not None:
            self.suites.append(
                LoadedSuite(
                    suite=reader.suite,
                    scenarios=reader.scenarios,
                    path=str(file),
                    count=reader.count,
                    overrides=self._flags,
                    evaluators=reader.evaluators,
                    definitions=reader.definitions,
                    own_models=tuple(reader.own_models),
                )
            )


def read_objects(suite: Suite, file: str, reader: SuiteReader, all_problems: list[Problem]) -> None:
    """Read a suite, and add its problems."""
    problems = Problems(python=True)
    settings = given(suite)
    raws = settings.pop("scenarios", ())
    source = settings.pop("source", None) or file
    reader.read_suite(settings, (), problems, default_name=suite.name, source=source)
    all_problems.extend(problem.placed(file, subject=f"suite {suite.name!r}") for problem in problems.found)
    if not isinstance(raws, (list, tuple)) or not raws:
        message = f"expected a list of at least one Scenario, got {show(raws)}"
        all_problems.append(Problem(file=file, path=f"suite {suite.name!r}: scenarios", message=message))
        return
    for index, raw in enumerate(raws):
        _read_scenario(raw, index, file, reader, all_problems)
    problems = Problems(python=True)
    reader.finish((), problems)
    all_problems.extend(problem.placed(file, subject=f"suite {suite.name!r}") for problem in problems.found)


def _read_scenario(raw: Any, index: int, file: str, reader: SuiteReader, all_problems: list[Problem]) -> None:
    problems = Problems(python=True)
    if not isinstance(raw, Scenario):
        all_problems.append(
            Problem(file=file, path=f"scenarios[{index}]", message=f"expected a Scenario, got {show(raw)}")
        )
        return
    keys = given(raw)
    source = keys.pop("source", None) or file
    reader.read_scenario(keys, (), problems, source=source)
    all_problems.extend(problem.placed(file, subject=f"scenario {raw.name!r}") for problem in problems.found)


def find_files(paths: Sequence[str | Path], all_problems: list[Problem]) -> list[Path | str]:
    """The files, those of a folder in the order of their names; `pkg.mod` stays text. Each file comes once."""
    found: dict[Path | str, Path | str] = {}
    for path in map(Path, paths):
        if path.is_dir():
            files = sorted(_walk(path))
            if not files:
                message = f"no scenario file in this folder: {_LOOKED_FOR}"
                all_problems.append(Problem(file=str(path), message=message, suggestion=_where_scenarios_are(path)))
            found |= {file.resolve(): file for file in files if file.resolve() not in found}
        elif path.exists():
            if path.suffix.lower() not in READABLE:
                message = f"expected a folder or a file of {', '.join(READABLE)}, got {path.suffix or path.name!r}"
                all_problems.append(Problem(file=str(path), message=message))
            else:
                found.setdefault(path.resolve(), path)
        elif _is_module(str(path)):
            found.setdefault(str(path), str(path))
        else:
            message = "there is no such file, folder or module"
            all_problems.append(Problem(file=str(path), message=message, suggestion=_similar_name(path)))
    return list(found.values())


def _where_scenarios_are(folder: Path) -> str:
    """What to do if a folder has no scenarios: use the folder of scenarios above it, or make the first one."""
    given = folder.resolve()
    above = next((place for place in list(given.parents)[:3] if _has_scenarios(place / "scenarios", given)), None)
    if above is None:
        return "Make a first one: seatrial init"
    there = os.path.relpath(above, folder)
    if folder.resolve() != Path.cwd():
        return f"Did you mean {os.path.normpath(folder / there / 'scenarios')!r}?"
    return f"There is a folder of scenarios in {there}; go there first: cd {there}"


def _has_scenarios(folder: Path, given: Path) -> bool:
    return folder != given and folder.is_dir() and next(_walk(folder), None) is not None


def _similar_name(path: Path) -> str:
    from difflib import get_close_matches

    names = os.listdir(path.parent) if path.parent.is_dir() else []
    close = get_close_matches(path.name, names, n=1)
    return f"Did you mean {str(path.with_name(close[0]))!r}?" if close else "See what is there: seatrial list"


def _walk(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        place = os.path.realpath(parent)
        if place in seen:  # a link to a folder above it
            folders.clear()
            continue
        seen.add(place)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _LEFT_OUT]
        for name in files:
            path = Path(parent, name)
            if belongs_to_folder(path):
                yield path


def belongs_to_folder(file: Path) -> bool:
    """Whether this file of a folder is loaded: JSON only if it begins like a suite, and no file to be included."""
    name = file.name.lower()
    if name.startswith(".") or name.endswith((".include.yaml", ".include.yml")):
        return False
    if name.endswith(RECORDINGS):
        return False
    return name.endswith(IN_FOLDERS) or (name.endswith(".json") and _begins_like_suite(file))


def _begins_like_suite(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return _SUITE_IN_JSON.match(stream.read(_HEAD)) is not None
    except OSError:
        return False


def _is_module(name: str) -> bool:
    """Whether Python can find a module of that name."""
    from importlib.util import find_spec

    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
