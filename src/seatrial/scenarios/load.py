"""Suites from files: all of them read and checked, all problems at once, before any agent is called."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.model.scenario import Scenario, Suite, SuiteConfig

from .jsonl_files import read_jsonl, stream_jsonl
from .loaded_suite import LoadedSuite, Streamed
from .merge import read_overrides
from .paths import find_files
from .problems import FileProblems, Problem, show
from .python_files import find_suites, import_file, import_named
from .python_suites import read_objects
from .reader import SuiteReader
from .unique_names import Names
from .yaml_json_files import read_document

Source = str | Path | Suite | Scenario
IN_PYTHON = "<python>"


def load(
    paths: Source | Sequence[Source],
    *,
    overrides: Mapping[str, Any] | SuiteConfig | None = None,
    environ: Mapping[str, str] | None = None,
    check_agents: bool = True,
) -> list[LoadedSuite]:
    """The suites of files, folders, modules and Python objects. Raises FileProblems with everything that is wrong.

    `overrides` are keys as in `suite.config`, from the command line. `${NAME}` in agent settings must be set in
    `environ` (the process's own without it), unless `check_agents` is False because other agents take their place.
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
    """What was given, one by one; a mapping is one thing, and is told to be none of those that can be loaded."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)) else [given]


class _Loader:
    """Loads one file after the other, and collects what is wrong with any of them."""

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
            message = "no Scenario or Suite stands at the top level of the module"
            self.problems.append(Problem(file=str(file), message=message))
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
        written: Iterable[Scenario] = reader.scenarios or ()
        resolved: Iterable[Scenario] = reader.resolved or ()
        again = reader.again()
        if reader.scenarios is None:
            written = Streamed(lambda: stream_jsonl(file, again, resolved=False))
        if reader.resolved is None:
            resolved = Streamed(lambda: stream_jsonl(file, again, resolved=True))
        if reader.suite is not None:
            self.suites.append(
                LoadedSuite(
                    suite=reader.suite,
                    scenarios=written,
                    path=str(file),
                    count=reader.count,
                    overrides=self._flags,
                    evaluators=reader.evaluators,
                    definitions=reader.definitions,
                    own_models=tuple(reader.own_models),
                    kept=resolved,
                )
            )
