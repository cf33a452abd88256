"""The plan of a run: the selected scenarios, prepared, and the settings of the run as a whole."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import CorrectedGate, RunGates
from seatrial.model.scenario import Group, Scenario
from seatrial.model.struct import Struct
from seatrial.scenarios.build import prepare
from seatrial.scenarios.load import load
from seatrial.scenarios.loaded_suite import LoadedSuite, select
from seatrial.scenarios.merge import CONFIDENCE, CONFIG_DEFAULTS, merge_config
from seatrial.scenarios.models import RunModels
from seatrial.scenarios.tool_names import can_know_tools, find_unknown_tools
from seatrial.scenarios.worlds import world_of

from .agents import Agents, make_context
from .gold_calls import check_gold_calls
from .request import RunRequest
from .session import RunSession

if TYPE_CHECKING:
    from .against_history import HistoryPlan

METRICS_PASS_THRESHOLD: float = CONFIG_DEFAULTS["metrics_pass_threshold"]
KEPT_IN_MEMORY = 2_000
"""Up to this many scenarios are prepared before the first trial; larger suites are prepared as they are played."""
_PROBLEMS_SHOWN = 20
_NAMES_SHOWN = 10


class RunConfig(Struct, frozen=True, kw_only=True):
    """The settings of `suite.config` that concern the run as a whole."""

    concurrency: int = CONFIG_DEFAULTS["concurrency"]
    rpm: float | None = None
    budget: float | None = None
    fail_fast: bool = False
    seed: int | None = None
    cases_pass_threshold: float | None = None
    metrics_pass_threshold: float = METRICS_PASS_THRESHOLD
    judge_corrected: CorrectedGate | None = None


class RunPlan:
    """The scenarios of a run, ready to be played, and the settings of the run as a whole."""

    def __init__(self, request: RunRequest, *, agents: Agents | None = None) -> None:
        """`agents` replace those that the request and the suites name; their settings are not checked then."""
        self.request = request
        self.suites = load(
            request.sources, overrides=request.overrides, environ=request.environ, check_agents=agents is None
        )
        self.agents = agents or Agents(request)
        self.config = merge_run_configs(self.suites)
        self.models = RunModels(
            defaults=request.models,
            cache=Path(request.cache).absolute() if request.cache else None,
            environ=request.environ,
            budgeted=self.config.budget is not None,
        )
        self._check_tool_names()
        self._history: HistoryPlan | None = None
        self._prepared: list[PreparedScenario] | None = None
        if request.sweep is not None:
            self._prepared = list(self._sweep(request.sweep))
        elif sum(suite.count for suite in self.suites) <= KEPT_IN_MEMORY:
            self._prepared = list(self._prepare())
        self._check_gold_calls()

    @property
    def name(self) -> str:
        names = ", ".join(dict.fromkeys(suite.name for suite in self.suites))
        sweep = self.request.sweep
        return self.request.name or (names if sweep is None else f"{names} ({sweep.get('kind')}s)")

    @property
    def gates(self) -> RunGates:
        if self.request.sweep is not None:
            return RunGates()  # a sweep has a gate of its own
        gates = make_gates(self.suites, [(suite, group) for suite in self.suites for group in suite.suite.groups])
        return gates if self._history is None else replace(gates, history=self._history.history)

    def use_history(self, history: "HistoryPlan") -> None:
        """Test scenarios against their history (`run --against`)."""
        self._history = history
        if self._prepared is not None:
            self._prepared = [replace(each, entry=history.apply(each.entry)) for each in self._prepared]

    def use_scenarios(self, scenarios: Sequence[PreparedScenario]) -> None:
        """Play these instead of the selected ones (`seatrial fork`)."""
        self._prepared = list(scenarios)

    def open_session(self) -> RunSession:
        """A session with the plan's agents and models."""
        session = RunSession(self.request, agents=self.agents, models=self.models)
        for suite in self.suites:
            session.add_model_settings(suite)
        return session

    def _check_tool_names(self) -> None:
        """Raise UsageError for tool names that no agent of the suite has, if the agents' tools are known."""
        problems: list[str] = []
        for suite in self.suites:
            agents = [agent for _, _, agent in self.agents.of(suite)]
            if can_know_tools(agents):
                for scenario in self._selected(suite):
                    problems += find_unknown_tools(scenario, agents)
        if problems:
            more = [f"… {len(problems) - _PROBLEMS_SHOWN:,} more"] if len(problems) > _PROBLEMS_SHOWN else []
            raise UsageError("\n".join([*problems[:_PROBLEMS_SHOWN], *more]))

    def _check_gold_calls(self) -> None:
        """Raise UsageError for gold calls that the world refuses."""
        if self._prepared is not None:
            check_gold_calls((each.scenario, each.world) for each in self._prepared)
            return
        for suite in self.suites:
            gold = (one for one in self._selected(suite) if one.end_state is not None)
            check_gold_calls((scenario, world_of(scenario)) for scenario in gold)

    def scenarios(self) -> Iterator[PreparedScenario]:
        return self._prepare() if self._prepared is None else iter(self._prepared)

    def _sweep(self, sweep: Mapping[str, Any]) -> Iterator[PreparedScenario]:
        """The variants of all scenarios. A shard is a part of the variants, not of the scenarios."""
        from .sweeps import expand, refuse

        refuse(self.request)
        for position, variant in enumerate(expand(self._prepare(whole=True), sweep, models=self.models)):
            if self._in_shard(position):
                yield replace(variant, entry=replace(variant.entry, position=position))

    def _prepare(self, *, whole: bool = False) -> Iterator[PreparedScenario]:
        """The selected scenarios. `whole`: those of all shards."""
        position = 0
        for suite in self.suites:
            contexts = [
                make_context(
                    suite, agent, name=name, spec=spec, models=self.models, records=self.request.record is not None
                )
                for name, spec, agent in self.agents.of(suite)
            ]
            for scenario in self._selected(suite):
                for context in contexts:
                    if whole or self._in_shard(position):
                        prepared = prepare(scenario, context, position=position)
                        if self._history is not None:
                            prepared = replace(prepared, entry=self._history.apply(prepared.entry))
                        yield prepared
                    position += 1

    def _selected(self, suite: LoadedSuite) -> Iterator[Scenario]:
        request = self.request
        for scenario in select(suite.scenarios, scenario_text=request.scenario_text, tags=request.tags):
            if request.only is None or (suite.name, scenario.name) in request.only:
                yield scenario

    def _in_shard(self, position: int) -> bool:
        if self.request.shard is None:
            return True
        number, of = self.request.shard
        return position % of == number - 1

    def count(self) -> tuple[int, int]:
        """(scenarios, trials) to play. Of suites that are not kept in memory, all scenarios of the files count."""
        if self._prepared is None:
            total = sum(suite.count for suite in self.suites)
            if self.request.shard is not None:
                number, of = self.request.shard
                total = len(range(number - 1, total, of))
            return total, total
        playable = [each.entry for each in self._prepared if each.entry.skip is None]
        return len(self._prepared), sum(entry.trials for entry in playable)

    def require_scenarios(self) -> None:
        """Raise NothingSelected if no scenario is selected, or if one of the flags matches none: never a green."""
        if self._prepared is not None and not self._prepared:
            raise NothingSelected(_explain_empty(self.request, self.suites))
        unmatched = _unmatched_flags(self.request, self.suites)
        if unmatched:
            raise NothingSelected(
                f"{' and '.join(unmatched)}: no scenario fits, so nothing was run. Correct it, or leave it out"
            )

    def find_missing(self) -> list[str]:
        """The names of requested scenarios that the files no longer contain."""
        if self.request.only is None:
            return []
        known = {(suite.name, scenario.name) for suite in self.suites for scenario in suite.scenarios}
        return sorted(name for suite, name in self.request.only if (suite, name) not in known)


class NothingSelected(UsageError):
    """No scenario fits the selection."""


def _explain_empty(request: RunRequest, suites: list[LoadedSuite]) -> str:
    if request.sweep is not None and request.sweep.get("kind") == "attack" and not _unmatched_flags(request, suites):
        return (
            "no selected scenario has `attacks` and a tool with an untrusted field, so nothing was run. Add `attacks:` "
            "to the suite: untrusted and goals"
        )
    if request.only is not None and not request.only:
        return "--failed: in the last run no scenario failed, so nothing was run. Leave the flag out to run them all."
    flags = [f"--scenario {text!r}" for text in request.scenario_text] + [f"--tag {tag!r}" for tag in request.tags]
    if request.only is not None:
        flags.append("--failed")
    if request.shard is not None:
        flags.append(f"--shard {request.shard[0]}/{request.shard[1]}")
    nothing = f"no scenario fits {' and '.join(flags)}; nothing was run."
    if request.tags and not request.scenario_text:
        tags = sorted({tag for suite in suites for scenario in suite.scenarios for tag in scenario.tags})
        return f"{nothing} The tags are: {', '.join(tags)}" if tags else f"{nothing} No scenario has a tag"
    total = sum(suite.count for suite in suites)
    if request.shard is not None and not (request.scenario_text or request.tags or request.only):
        return f"{nothing} There are {total:,} scenarios, so at most {total:,} shards are possible"
    first = islice((scenario.name for suite in suites for scenario in suite.scenarios), _NAMES_SHOWN)
    more = f" and {total - _NAMES_SHOWN:,} more" if total > _NAMES_SHOWN else ""
    return f"{nothing} There are: {', '.join(first)}{more}"


def _unmatched_flags(request: RunRequest, suites: list[LoadedSuite]) -> list[str]:
    """The flags of a selection that match no scenario."""
    texts = {text.lower(): f"--scenario {text!r}" for text in request.scenario_text}
    tags = {tag: f"--tag {tag!r}" for tag in request.tags}
    for suite in suites:
        for scenario in suite.scenarios if texts or tags else ():
            name = scenario.name.lower()
            texts = {text: flag for text, flag in texts.items() if text not in name}
            tags = {tag: flag for tag, flag in tags.items() if tag not in scenario.tags}
            if not texts and not tags:
                return []
    return [*texts.values(), *tags.values()]


def merge_run_configs(suites: Sequence[LoadedSuite]) -> RunConfig:
    """One config for several suites. Where they differ, the strictest value holds."""
    configs = [merge_config(suite.config, suite.overrides) for suite in suites]

    def given(name: str) -> list[Any]:
        return [value for config in configs if (value := getattr(config, name)) is not None]

    strictest = {
        "concurrency": min,
        "rpm": min,
        "budget": min,
        "fail_fast": any,
        "seed": lambda values: values[0],
        "cases_pass_threshold": max,
    }
    merged = {name: choose(given(name)) for name, choose in strictest.items() if given(name)}  # type: ignore[operator]
    if len(given("cases_pass_threshold")) < len(configs):
        merged["cases_pass_threshold"] = None  # a suite without a threshold requires all of its scenarios to pass
    scores = [config.metrics_pass_threshold for config in configs]
    filled = [METRICS_PASS_THRESHOLD if score is None else score for score in scores]
    merged["metrics_pass_threshold"] = max(filled, default=METRICS_PASS_THRESHOLD)
    if corrected := given("judge_corrected"):
        merged["judge_corrected"] = CorrectedGate(
            pass_rate=max(each.pass_rate for each in corrected),
            confidence=max(each.confidence or CONFIDENCE for each in corrected),
        )
    return RunConfig(**merged)


def make_gates(suites: Sequence[LoadedSuite], groups: Sequence[tuple[LoadedSuite, Group]]) -> RunGates:
    """The gates of a run of these suites, and these groups of theirs."""
    config = merge_run_configs(suites)
    return RunGates(
        cases_pass_threshold=config.cases_pass_threshold,
        metrics_pass_threshold=config.metrics_pass_threshold,
        judge_corrected=config.judge_corrected,
        groups=tuple({"suite": suite.name, **_group_fields(group)} for suite, group in groups),
    )


def _group_fields(group: Group) -> Mapping[str, Any]:
    values = {name: getattr(group, name) for name in group.__struct_fields__}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
