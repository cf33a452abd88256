"""Who plays in a run: the agents, and the models behind users and judges."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec.structs import fields

from seatrial.agents.resolve import resolve_agent
from seatrial.engine.redact import Secret
from seatrial.errors import UsageError
from seatrial.model.protocols import Agent, AgentSession, PreparedScenario, TrialStart
from seatrial.model.run import RunGates
from seatrial.model.scenario import Group, Scenario
from seatrial.model.struct import Struct
from seatrial.scenarios.build import SuiteContext, prepare, read_hooks
from seatrial.scenarios.environment import fill_environment
from seatrial.scenarios.load import load
from seatrial.scenarios.loaded_suite import LoadedSuite, select
from seatrial.scenarios.merge import merge_config
from seatrial.scenarios.models import RunModels
from seatrial.scenarios.tool_names import can_know_tools, find_unknown_tools

from .request import RunRequest
from .secrets import find_secrets, model_settings


class Agents:
    """The agents of a run, each made once."""

    def __init__(self, request: RunRequest, *, stand_in: Agent | None = None) -> None:
        """`stand_in` takes the place of every agent, so that none has to be there."""
        self._request = request
        self._stand_in = stand_in
        self._made: dict[tuple[Any, bool], tuple[Any, Agent]] = {}
        """By spec and isolation: the spec with its variables filled in, and the agent."""

    @property
    def count(self) -> int:
        """How many agents were made so far."""
        return len(self._made)

    def of(self, loaded: LoadedSuite) -> Iterator[tuple[str, str, Agent]]:
        """(name, key for fingerprints, agent) for each of the suite's agents. The name of a single one is empty."""
        for name, spec in self._specs(loaded):
            isolated = merge_config(loaded.config, loaded.overrides).isolation == "process"
            try:
                agent = self.get(spec, name=name or loaded.name, isolated=isolated)
            except UsageError as problem:
                if self._request.agent is not None or spec is self._request.default_agent:
                    raise
                raise UsageError(f"{loaded.path}: {problem}") from problem
            yield name, describe_agent(spec), agent

    def get(self, spec: Any, *, name: str, isolated: bool) -> Agent:
        """The agent of a spec, or of a Python object. `isolated`: in processes of its own."""
        if self._stand_in is not None:
            return self._stand_in
        identity = (_identity(spec), isolated)
        known = self._made.get(identity)
        if known is None:
            filled = fill_environment(spec, self._request.environ) if isinstance(spec, Mapping) else spec
            # The spec is kept as well: another object must not be given its id.
            known = self._made[identity] = (filled, resolve_agent(filled, name=name, isolated=isolated))
        return known[1]

    def _specs(self, loaded: LoadedSuite) -> list[tuple[str, Any]]:
        if self._request.agent is not None:
            return [("", self._request.agent)]
        if loaded.suite.agents:
            return list(loaded.suite.agents.items())
        spec = loaded.suite.agent if loaded.suite.agent is not None else self._request.default_agent
        if spec is None:
            raise UsageError(
                f"{loaded.path}: no agent to run. Add `agent: package.module:function` to the suite, "
                "or give --agent package.module:function"
            )
        return [("", spec)]

    def replay(self, suites: Sequence[LoadedSuite]) -> bool:
        """Whether some agent is a recording, so that the trials are not independent."""
        specs = (spec for loaded in suites for _, spec in self._specs(loaded))
        return any(isinstance(spec, Mapping) and spec.get("type") == "replay" for spec in specs)

    def settings(self) -> list[Any]:
        """Everything the agents were set up with, secrets included."""
        own = [
            {name: getattr(agent, name, None) for name in ("headers", "api_key", "env")}
            for _, agent in self._made.values()
        ]
        return [*(spec for spec, _ in self._made.values()), *own]

    async def find_late_call(self) -> str | None:
        return await find_late_call(agent for _, agent in self._made.values())

    async def close(self) -> None:
        """Close them all, and only then raise what one of them raised."""
        problems = []
        for _, agent in self._made.values():
            try:
                await agent.close()
            except Exception as problem:
                problems.append(problem)
        if problems:
            raise problems[0]


async def find_late_call(agents: Iterable[Agent]) -> str | None:
    """A call that some agent made when its trial had ended, in a sentence; it is in no transcript."""
    for agent in agents:
        ask = getattr(agent, "late_calls", None)
        calls = [] if ask is None else await ask()
        if calls:
            return str(calls[0])
    return None


def _identity(spec: Any) -> Any:
    """What tells agents apart: settings by what they say, and a Python object by being that very object."""
    if isinstance(spec, Mapping) and not isinstance(spec.get("target", ""), str):
        return describe_agent(spec), id(spec["target"])
    return describe_agent(spec) if isinstance(spec, str | Mapping) else id(spec)


class NoAgent:
    """Stands in for every agent where conversations exist already and none is called."""

    name = "none"
    answers_own_tools = True
    keeps_conversation = True

    def open(self, start: TrialStart) -> AgentSession:
        raise AssertionError("no agent is called for a recorded conversation")

    async def close(self) -> None:
        """Nothing was opened."""


def describe_agent(spec: Any) -> str:
    """A text that stands for the agent: the spec as written, or where a Python object comes from."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        return json.dumps({key: describe_agent(value) for key, value in spec.items()}, sort_keys=True)
    if isinstance(spec, bool | int | float | list) or spec is None:
        return json.dumps(spec, default=str)
    module = getattr(spec, "__module__", None) or type(spec).__module__
    name = getattr(spec, "__qualname__", None) or type(spec).__qualname__
    return f"{module}:{name}"


def suite_contexts(loaded: LoadedSuite, agents: Agents, models: Any) -> list[SuiteContext]:
    """One context for each agent that the suite runs with."""
    return [
        SuiteContext(
            suite=loaded.name,
            agent=agent,
            agent_name=name,
            agent_key=key,
            evaluators=loaded.evaluators,
            setup=read_hooks(loaded, "setup"),
            teardown=read_hooks(loaded, "teardown"),
            models=models,
        )
        for name, key, agent in agents.of(loaded)
    ]


METRICS_PASS_THRESHOLD = 80.0
_PROBLEMS_SHOWN = 20
KEPT_IN_MEMORY = 2_000
"""Up to so many scenarios are prepared before the first trial; larger suites are prepared as they are played."""


class RunConfig(Struct, frozen=True, kw_only=True):
    """The settings of `suite.config` that concern the run as a whole."""

    concurrency: int = 20
    rpm: float | None = None
    budget: float | None = None
    fail_fast: bool = False
    seed: int | None = None
    cases_pass_threshold: float | None = None
    metrics_pass_threshold: float = METRICS_PASS_THRESHOLD


class RunPlan:
    """The scenarios of a run, ready to be played, and the settings of the run as a whole."""

    def __init__(self, request: RunRequest, *, agents: Agents | None = None) -> None:
        """`agents` take the place of those that the request and the suites name; then nobody checks their settings."""
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
        self._prepared: list[PreparedScenario] | None = None
        if sum(suite.count for suite in self.suites) <= KEPT_IN_MEMORY:
            self._prepared = list(self._prepare())

    @property
    def name(self) -> str:
        return self.request.name or ", ".join(dict.fromkeys(suite.name for suite in self.suites))

    def secrets(self) -> Iterator[Secret]:
        """What must be in no file, report or log."""
        request = self.request
        asked = (settings for suite in self.suites for settings in model_settings(suite))
        settings = (*self.agents.settings(), request.models, request.overrides, {"store": request.store}, *asked)
        return find_secrets(request.environ, settings, exempt=request.not_redacted)

    @property
    def gates(self) -> RunGates:
        groups = [{"suite": suite.name, **_as_mapping(group)} for suite in self.suites for group in suite.suite.groups]
        return RunGates(
            cases_pass_threshold=self.config.cases_pass_threshold,
            metrics_pass_threshold=self.config.metrics_pass_threshold,
            groups=tuple(groups),
        )

    def _check_tool_names(self) -> None:
        """Refuse names of tools that no agent of the suite has, where it is known which tools they have."""
        problems: list[str] = []
        for suite in self.suites:
            agents = [agent for _, _, agent in self.agents.of(suite)]
            if can_know_tools(agents):
                for scenario in self._selected(suite):
                    problems += find_unknown_tools(scenario, agents)
        if problems:
            more = [f"… {len(problems) - _PROBLEMS_SHOWN:,} more"] if len(problems) > _PROBLEMS_SHOWN else []
            raise UsageError("\n".join([*problems[:_PROBLEMS_SHOWN], *more]))

    def scenarios(self) -> Iterator[PreparedScenario]:
        return self._prepare() if self._prepared is None else iter(self._prepared)

    def _prepare(self) -> Iterator[PreparedScenario]:
        position = 0
        for suite in self.suites:
            contexts = suite_contexts(suite, self.agents, self.models)
            for scenario in self._selected(suite):
                for context in contexts:
                    if self._in_shard(position):
                        yield prepare(scenario, context, position=position)
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
        """(scenarios, trials) that will be played; for streamed suites, as many as their files have."""
        if self._prepared is None:
            total = sum(suite.count for suite in self.suites)
            if self.request.shard is not None:
                number, of = self.request.shard
                total = len(range(number - 1, total, of))
            return total, total
        playable = [each.entry for each in self._prepared if each.entry.skip is None]
        return len(self._prepared), sum(entry.trials for entry in playable)

    def require_something(self) -> None:
        """Nothing selected is an error, never a green; and so is a part of the selection that fits nothing."""
        if self._prepared is not None and not self._prepared:
            raise NothingSelected(_nothing_selected(self.request, self.suites))
        idle = _fits_nothing(self.request, self.suites)
        if idle:
            raise NothingSelected(
                f"{' and '.join(idle)}: no scenario fits, so nothing was run. Correct it, or leave it out"
            )

    def gone(self) -> list[str]:
        """The names of scenarios that were asked for and are not there any more."""
        if self.request.only is None:
            return []
        there = {(suite.name, scenario.name) for suite in self.suites for scenario in suite.scenarios}
        return sorted(name for suite, name in self.request.only if (suite, name) not in there)


class NothingSelected(UsageError):
    """No scenario fits the selection."""


def _nothing_selected(request: RunRequest, suites: list[LoadedSuite]) -> str:
    if request.only is not None and not request.only:
        return "--failed: in the last run no scenario failed, so nothing was run. Leave the flag out to run them all."
    asked = [f"--scenario {text!r}" for text in request.scenario_text] + [f"--tag {tag!r}" for tag in request.tags]
    if request.only is not None:
        asked.append("--failed")
    if request.shard is not None:
        asked.append(f"--shard {request.shard[0]}/{request.shard[1]}")
    nothing = f"no scenario fits {' and '.join(asked)}; nothing was run."
    if request.tags and not request.scenario_text:
        tags = sorted({tag for suite in suites for scenario in suite.scenarios for tag in scenario.tags})
        return f"{nothing} The tags are: {', '.join(tags)}" if tags else f"{nothing} No scenario has a tag"
    total = sum(suite.count for suite in suites)
    if request.shard is not None and not (request.scenario_text or request.tags or request.only):
        return f"{nothing} The scenarios are {total:,} in all, so there can be no more shards than that"
    names = [scenario.name for suite in suites for scenario in islice(suite.scenarios, 10)][:10]
    more = f" and {total - len(names):,} more" if total > len(names) else ""
    return f"{nothing} There are: {', '.join(names)}{more}"


def _fits_nothing(request: RunRequest, suites: list[LoadedSuite]) -> list[str]:
    """The flags of a selection of several that no scenario answers to."""
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


def merge_run_configs(suites: list[LoadedSuite]) -> RunConfig:
    """One config for several suites: where they differ, the stricter holds."""
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
        merged["cases_pass_threshold"] = None  # a suite that sets none wants all of its scenarios to pass
    scores = [config.metrics_pass_threshold for config in configs]
    filled = [METRICS_PASS_THRESHOLD if score is None else score for score in scores]
    merged["metrics_pass_threshold"] = max(filled, default=METRICS_PASS_THRESHOLD)
    return RunConfig(**merged)


def _as_mapping(given: Group) -> Mapping[str, Any]:
    return {field.name: _plain(getattr(given, field.name)) for field in fields(given)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
