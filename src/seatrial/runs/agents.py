"""Who plays in a run: the agents, and the models behind users and judges."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from seatrial.agents.resolve import resolve_agent
from seatrial.errors import UsageError
from seatrial.model.protocols import Agent, AgentSession, TrialStart
from seatrial.scenarios.build import Cast, read_hooks
from seatrial.scenarios.environment import fill_environment
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.scenarios.merge import merge_config

from .request import RunRequest


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


def casts_of(loaded: LoadedSuite, agents: Agents, models: Any) -> list[Cast]:
    """One cast for each agent that the suite runs with."""
    return [
        Cast(
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
