"""Read suites and scenarios from decoded files, with environment variables in agent settings filled in."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.errors import UsageError
from seatrial.model.scenario import Attacks, ModelRoles, Scenario, Suite, SuiteConfig

from .build_evaluators import check_exemptions, is_built_in, scorer_names, suite_invariants
from .cross_checks import LargeFile, Names, can_decide, check_resolved, judge_gates, report_idle_gate
from .examples import expand_rows
from .formats import find_definitions
from .include import NOTHING, Included, check_included, read_included, report_second_end_state
from .keys import SCENARIO, SUITE
from .merge import Resolver
from .problems import KeyPath, Problems, closest, did_you_mean, path_text
from .python_files import collect_evaluators, installed_evaluators
from .value_readers import given

if TYPE_CHECKING:
    from .attacks import AttackChecks

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def fill_environment(spec: Any, environ: Mapping[str, str]) -> Any:
    """The agent settings with ${NAME} and ${NAME:-default} filled in. Raises UsageError if one is not set."""
    problems = Problems()
    filled = fill_by_path(spec, environ, (), problems)
    if problems.found:
        found = "\n".join(": ".join(filter(None, (path_text(one.where), one.message))) for one in problems.found)
        raise UsageError(f"agent settings: {found}")
    return filled


def fill_by_path(spec: Any, environ: Mapping[str, str], where: KeyPath, problems: Problems) -> Any:
    """The same, with problems by key path."""

    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        value = environ.get(name)
        # As in a shell, `:-` also replaces an empty variable.
        if value is None or (value == "" and default is not None):
            if default is None:
                hint = f"Set it, or write ${{{name}:-default}}"
                problems.add(where, f"the environment variable {name!r} is not set", hint)
            return default or ""
        return value

    if isinstance(spec, str):
        return _VARIABLE.sub(value_of, spec) if "${" in spec else spec
    if isinstance(spec, Mapping):
        return {key: fill_by_path(value, environ, (*where, key), problems) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [fill_by_path(item, environ, (*where, index), problems) for index, item in enumerate(spec)]
    return spec


class SuiteReader:
    """Reads the suite first, then each scenario. Problems go to the collector that each call gets."""

    def __init__(self, *, flags: SuiteConfig, names: Names, environ: Mapping[str, str] | None) -> None:
        """`environ` is None if the environment variables of agents are not checked."""
        self.suite: Suite | None = None
        self._kept: list[Scenario] = []
        self.scenarios: Iterable[Scenario] = self._kept
        """With all settings filled in: a list, or an object that reads a large file again."""
        self.count = 0
        self.included = NOTHING
        """What included files add."""
        self.resolver: Resolver | None = None
        """None until the suite is read without problems; scenarios cannot be merged before."""
        self.evaluators: dict[str, Any] = {}
        self.definitions: Mapping[str, Any] = {}
        """Metrics of the suite's metrics_file."""
        self.folder = Path()
        """The folder of the suite's file, in which it names other files."""
        self.own_models: list[ModelRoles] = []
        """Models that scenarios name themselves."""
        self._flags = flags
        self._names = names
        self._environ = environ
        self._large: LargeFile | None = None
        self._tags: set[str] = set()
        self._thresholds: set[str] = set()
        self._gates: dict[str, set[bool | None]] = {}
        """Gates of judges in the suite's config, and whether they can decide anything in its scenarios."""
        self._attacks: AttackChecks | None = None
        """Made with the first scenario that has attacks."""
        self._installed: dict[str, Any] | None = None

    def read_suite(self, raw: Any, where: KeyPath, problems: Problems, *, default_name: str, source: str) -> None:
        problems.folder = self.folder = Path(source).parent
        self._read_definitions(raw, where, problems, self.folder)
        made = SUITE.read_keys(raw, where, problems)
        if made is None:
            return
        before = len(problems)
        if self._environ is not None:
            for key in ("agent", "agents"):
                # Checked only: the settings stay as written, so that no secret reaches a fingerprint or a report.
                fill_by_path(made.get(key), self._environ, (*where, key), problems)
        self.evaluators = collect_evaluators(made.get("evaluators", ()), (*where, "evaluators"), problems)
        made.setdefault("name", default_name)
        self.suite = Suite(**made, source=source)
        if len(problems) == before:
            self.included = self._read_included(self.suite, where, problems)
            self.resolver = Resolver(
                self.suite.config,
                self._flags,
                definitions=self.definitions,
                invariants=suite_invariants(self.suite, self.included, where, problems),
                world=self.suite.world,
                attacks=self.suite.attacks,
                added=self.included.added,
            )
            self._gates = {gate: set() for gate in judge_gates(given(self.suite.config))}

    def _read_included(self, suite: Suite, where: KeyPath, problems: Problems) -> Included:
        if not suite.include:
            return NOTHING
        return read_included(suite.include, self.folder, (*where, "include"), problems)

    def _read_definitions(self, raw: Any, where: KeyPath, problems: Problems, folder: Path) -> None:
        """Read the suite's own metrics first: other keys may name them."""
        config = raw.get("config") if isinstance(raw, Mapping) else None
        try:
            self.definitions = find_definitions(config, folder)
        except UsageError as problem:
            problems.add((*where, "config", "metrics_file"), str(problem))
        problems.metrics = self.definitions

    def read_scenario(self, raw: Any, where: KeyPath, problems: Problems, *, source: str) -> None:
        """Read a scenario, or one for each row of its examples."""
        problems.metrics, problems.folder = self.definitions, self.folder
        made = SCENARIO.read_keys(raw, where, problems)
        if made is not None:
            self.add(made, where, problems, source=source)

    def add(self, made: dict[str, Any], where: KeyPath, problems: Problems, *, source: str) -> None:
        """The same, from keys that were read."""
        for scenario in scenarios_of(made, self.suite, source, where, problems):
            self.count += 1
            if scenario.models is not None:
                self.own_models.append(scenario.models)
            if self.suite is not None and self.resolver is not None:
                self._check(given(scenario), self.suite.name, self.resolver, where, problems)

    def stream(self, scenarios: Iterable[Scenario], names: Callable[[], Iterator[tuple[str, str]]]) -> None:
        """Hold no scenario any more: these are read from the file again, and so are their names with their places."""
        if self._large is None:
            self._large = LargeFile(names, taken=self.count)
            self._kept.clear()
            self.scenarios = scenarios

    def _check(self, made: dict[str, Any], suite: str, resolver: Resolver, where: KeyPath, problems: Problems) -> None:
        if made.get("invariants") or made.get("exempt") or made["name"] in self.included.scenarios:
            check_exemptions(self.included.added(made), resolver.invariants, where, problems)
        if made.get("end_state") is not None and "end_state" in self.included.scenarios.get(made["name"], ()):
            report_second_end_state(made["name"], (*where, "end_state"), problems)
        resolved = resolver.resolve_keys(made)
        before = self._names.take(suite, resolved.name, resolved.source or "", large=self._large)
        if before is not None:
            message = f"the name {resolved.name!r} is taken in the suite {suite!r} by {before}"
            problems.add((*where, "name"), message, "Results are stored by name: make it unique")
        self._tags.update(resolved.tags)
        self._thresholds.update(resolved.thresholds or ())
        if self._large is None:
            self._kept.append(resolved)
        if resolved.scorers != ("passfail",):
            self._find_installed(resolved)
        max_turns = resolver.given_max_turns(made) if resolved.turns else None
        check_resolved(resolved, self.evaluators, where, problems, max_turns=max_turns)
        if resolved.attacks is not None:
            self._check_attacks(resolved, made.get("attacks"), where, problems)
        for gate in judge_gates(made):
            if can_decide(gate, resolved) is False:
                report_idle_gate(gate, where, problems)
        for gate, seen in self._gates.items():
            seen.add(can_decide(gate, resolved))

    def _check_attacks(self, scenario: Scenario, own: Attacks | None, where: KeyPath, problems: Problems) -> None:
        from .attacks import AttackChecks

        if self._attacks is None:
            self._attacks = AttackChecks(self.suite)
        self._attacks.add(scenario, own, where, problems)

    def _find_installed(self, scenario: Scenario) -> None:
        """Search installed packages only for a name that is neither built in nor the suite's own."""
        names = scorer_names(scenario.scorers)
        if self._installed is None and not all(is_built_in(name) or name in self.evaluators for name in names):
            self._installed = installed_evaluators()
            self.evaluators = {**self._installed, **self.evaluators}

    def finish(self, where: KeyPath, problems: Problems) -> None:
        """Report settings of the suite that apply to none of its scenarios. Call it after the last scenario."""
        if self.suite is None or self.resolver is None:
            return
        for metric in self.suite.config.thresholds or ():
            if metric not in self._thresholds:
                message = f"a threshold for {metric!r}, which no scenario has among its metrics"
                problems.add((*where, "config", "thresholds", metric), message, "Add it to 'metrics'")
        for gate, seen in self._gates.items():
            if False in seen and True not in seen:
                report_idle_gate(gate, (*where, "config"), problems)
        if self._attacks is not None:
            self._attacks.finish(where, problems)
        self._check_groups(self.suite, where, problems)
        if self.included.scenarios:
            names = tuple(self._names.of(self.suite.name))
            check_included(self.included, names, (*where, "include"), problems)

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
                    problems.add((*place, "tags"), f"no scenario has the tag {tag!r}", hint)
            if not group.tags and not group.must_pass:
                problems.add(place, "a group needs 'tags' or 'must_pass', else it gates nothing")


def scenarios_of(
    made: dict[str, Any], suite: Suite | None, source: str, where: KeyPath, problems: Problems
) -> Iterator[Scenario]:
    """The scenarios of keys that were read, one for each row of examples, with source and the suite's tags."""
    if suite is not None and suite.tags:
        made["tags"] = tuple(dict.fromkeys((*suite.tags, *made.get("tags", ()))))
    return expand_rows(Scenario(**made, source=source), where, problems)
