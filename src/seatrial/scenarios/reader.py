"""Environment variables in agent settings, and nowhere else: test data stays as it is written."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.scenario import ModelRoles, Scenario, Suite, SuiteConfig

from .build_evaluators import is_built_in, scorer_names
from .cross_checks import LargeFile, Names, check_resolved, gates_of_judges, is_at_work, report_idle_gate
from .examples import LineReader, complete, expand_rows
from .keys import SCENARIO, SUITE
from .merge import Resolver
from .metrics import find_definitions
from .problems import KeyPath, Problems, closest, did_you_mean, path_text
from .python_files import collect_evaluators, installed_evaluators
from .readers import given

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def fill_environment(spec: Any, environ: Mapping[str, str]) -> Any:
    """The agent settings with ${NAME} and ${NAME:-default} filled. Raises UsageError that names what is not set."""
    problems = Problems()
    filled = fill_by_path(spec, environ, (), problems)
    if problems.found:
        found = "\n".join(": ".join(filter(None, (path_text(c.where), c.message))) for c in problems.found)
        raise UsageError(f"agent settings: {found}")
    return filled


def fill_by_path(spec: Any, environ: Mapping[str, str], where: KeyPath, problems: Problems) -> Any:
    """The same, with problems by key path."""
    if isinstance(spec, str):
        return _VARIABLE.sub(_value_from(environ, where, problems), spec) if "${" in spec else spec
    if isinstance(spec, Mapping):
        return {key: fill_by_path(value, environ, (*where, key), problems) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [fill_by_path(item, environ, (*where, index), problems) for index, item in enumerate(spec)]
    return spec


def _value_from(environ: Mapping[str, str], where: KeyPath, problems: Problems) -> Callable[[re.Match[str]], str]:
    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        value = environ.get(name)
        # As in a shell, `:-` stands in for an empty variable too.
        if value is None or (value == "" and default is not None):
            if default is None:
                hint = f"Set it, or write ${{{name}:-default}}"
                problems.add(where, f"the environment variable {name!r} is not set", hint)
            return default or ""
        return value

    return value_of


class SuiteReader:
    """Reads one suite and its scenarios, and remembers what holds for all of them."""

    def __init__(self, *, flags: SuiteConfig, names: Names, environ: Mapping[str, str] | None) -> None:
        self.scenarios: list[Scenario] | None = []
        """As they were written; None once they were forgotten, because they are too many to hold."""
        self.resolved: list[Scenario] | None = []
        self._flags = flags
        self._names = names
        self._taken = 0
        self._large: LargeFile | None = None
        self._environ = environ
        self._tags: set[str] = set()
        self._thresholds: set[str] = set()
        self._gates: dict[str, set[bool | None]] = {}
        """Gates of judges in the suite's config, and whether they are at work in its scenarios."""
        self._installed: dict[str, Any] | None = None
        self._resolver: Resolver | None = None
        """None until the suite was read, and where it is not right: then nothing can be merged with it."""
        self.suite: Suite | None = None
        self.evaluators: dict[str, Any] = {}
        self.definitions: Mapping[str, Any] = {}
        """Of metrics, from the suite's metrics_file."""
        self.own_models: list[ModelRoles] = []
        """Those that scenarios name for themselves."""
        self.count = 0
        self.stamp: tuple[int, int] | None = None
        """Of a file that may be read again."""

    def read_suite(self, raw: Any, where: KeyPath, problems: Problems, *, default_name: str, source: str) -> None:
        """Take the suite's settings."""
        self._read_definitions(raw, where, problems, Path(source).parent)
        made = SUITE.read_keys(raw, where, problems)
        if made is None:
            return
        before = len(problems)
        for key in ("agent", "agents") if self._environ is not None else ():
            # Only looked at: the settings stay as written, so that no secret reaches a fingerprint or a report.
            fill_by_path(made.get(key), self._environ or {}, (*where, key), problems)
        self.evaluators = collect_evaluators(made.get("evaluators", ()), (*where, "evaluators"), problems)
        made.setdefault("name", default_name)
        made["source"] = source
        self.suite = Suite(**made)
        if len(problems) == before:
            self._resolver = Resolver(self.suite.config, self._flags, definitions=self.definitions)
            self._gates = {gate: set() for gate in gates_of_judges(given(self.suite.config))}

    def _read_definitions(self, raw: Any, where: KeyPath, problems: Problems, folder: Path) -> None:
        """Read the suite's own metrics ahead of everything that may name them."""
        config = raw.get("config") if isinstance(raw, Mapping) else None
        try:
            self.definitions = find_definitions(config, folder)
        except UsageError as problem:
            problems.add((*where, "config", "metrics_file"), str(problem))
        problems.metrics = self.definitions

    def read_scenario(self, raw: Any, where: KeyPath, problems: Problems, *, source: str) -> None:
        """Take a scenario, or one for each of its rows."""
        problems.metrics = self.definitions
        made = SCENARIO.read_keys(raw, where, problems)
        if made is not None:
            self.take(made, where, problems, source=source)

    def take(self, made: dict[str, Any], where: KeyPath, problems: Problems, *, source: str) -> None:
        """The same, from keys that were read."""
        complete(made, self.suite, source)
        if not made.get("examples"):
            self._take_one(made, where, problems)
            return
        for scenario in expand_rows(Scenario(**made), where, problems):
            self._take_one(given(scenario), where, problems)

    def _take_one(self, made: dict[str, Any], where: KeyPath, problems: Problems) -> None:
        self.count += 1
        if made.get("models") is not None:
            self.own_models.append(made["models"])
        if self.scenarios is not None:
            self.scenarios.append(Scenario(**made))
        self._check(made, where, problems)

    def forget_written(self) -> None:
        """Hold no scenario as it was written: they will be read again."""
        self.scenarios = None

    def forget(self, names: Callable[[], Iterator[tuple[str, str]]]) -> None:
        """Hold no scenario any more. `names` are those of the file and their places, read again."""
        if self._large is None:
            self.scenarios = self.resolved = None
            self._large = LargeFile(names, taken=self._taken)

    def again(self) -> LineReader:
        """Reads the same lines again, and holds nothing but what that takes."""
        return LineReader(suite=self.suite, resolver=self._resolver, definitions=self.definitions, stamp=self.stamp)

    def _check(self, made: dict[str, Any], where: KeyPath, problems: Problems) -> None:
        if self.suite is None or self._resolver is None:
            return
        resolved = self._resolver.resolve_keys(made)
        before = self._names.take(self.suite.name, resolved.name, resolved.source or "", large=self._large)
        self._taken += 1
        if before is not None:
            message = f"the name {resolved.name!r} is taken in the suite {self.suite.name!r} by {before}"
            problems.add((*where, "name"), message, "A name is what results are kept under: make it unique")
        if resolved.tags:
            self._tags.update(resolved.tags)
        if resolved.thresholds:
            self._thresholds.update(resolved.thresholds)
        if self.resolved is not None:
            self.resolved.append(resolved)
        if resolved.scorers != ("passfail",):
            self._look_for_installed(resolved)
        max_turns = self._resolver.max_turns_by(made) if resolved.turns else None
        check_resolved(resolved, self.evaluators, where, problems, max_turns=max_turns)
        for gate in gates_of_judges(made):
            if is_at_work(gate, resolved) is False:
                report_idle_gate(gate, where, problems)
        for gate, seen in self._gates.items():
            seen.add(is_at_work(gate, resolved))

    def _look_for_installed(self, scenario: Scenario) -> None:
        """Ask installed packages only when a name is known to nobody here."""
        names = scorer_names(scenario.scorers)
        if self._installed is None and not all(is_built_in(name) or name in self.evaluators for name in names):
            self._installed = installed_evaluators()
            self.evaluators = {**self._installed, **self.evaluators}

    def finish(self, where: KeyPath, problems: Problems) -> None:
        """Report what holds for no scenario at all. To be asked when all were read."""
        if self.suite is None or self._resolver is None:
            return
        for metric in self.suite.config.thresholds or ():
            if metric not in self._thresholds:
                message = f"a threshold for {metric!r}, which no scenario has among its metrics"
                problems.add((*where, "config", "thresholds", metric), message, "Add it to 'metrics'")
        for gate, seen in self._gates.items():
            if False in seen and True not in seen:
                report_idle_gate(gate, (*where, "config"), problems)
        self._check_groups(self.suite, where, problems)

    def _check_groups(self, suite: Suite, where: KeyPath, problems: Problems) -> None:
        for index, group in enumerate(suite.groups):
            place = (*where, "groups", index)
            known = self._names.of(suite.name) if group.must_pass else ()
            for name in group.must_pass:
                if name not in known:
                    message = f"must_pass names {name!r}, but no scenario has that name"
                    close = closest(name, known)
                    problems.add((*place, "must_pass"), message, f"Did you mean {close!r}?" if close else None)
            for tag in group.tags:
                if tag not in self._tags:
                    hint = did_you_mean(tag, sorted(self._tags)) if self._tags else None
                    problems.add((*place, "tags"), f"no scenario carries the tag {tag!r}", hint)
            if not group.tags and not group.must_pass:
                problems.add(place, "a group needs 'tags' or 'must_pass', else it gates nothing")
