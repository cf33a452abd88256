"""The agents of a run, created once and closed at its end."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seatrial.agents.resolve import resolve_agent
from seatrial.errors import UsageError
from seatrial.model.protocols import Agent, AgentSession, TrialStart
from seatrial.scenarios.build import SuiteContext, read_hooks
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.scenarios.merge import merge_config
from seatrial.scenarios.models import RunModels
from seatrial.scenarios.suite_reader import fill_environment

from .request import RunRequest


class Agents:
    """The agents of a run, each created once."""

    def __init__(self, request: RunRequest, *, replacement: Agent | None = None) -> None:
        """`replacement` is used instead of every agent, so that none has to exist."""
        self._request = request
        self._replacement = replacement
        self._created: dict[tuple[Any, bool], tuple[Any, Agent]] = {}
        """By spec and isolation: the spec with its variables filled in, and the agent."""

    @property
    def count(self) -> int:
        """The number of agents created so far."""
        return len(self._created)

    def of(self, loaded: LoadedSuite) -> Iterator[tuple[str, Any, Agent]]:
        """(name, spec, agent) for each agent of the suite. The name of a single agent is empty."""
        for name, spec in self._specs(loaded):
            try:
                agent = self.get(spec, loaded, name=name)
            except UsageError as problem:
                if self._request.agent is not None or spec is self._request.default_agent:
                    raise
                raise UsageError(f"{loaded.path}: {problem}") from problem
            yield name, spec, agent

    def get(self, spec: Any, loaded: LoadedSuite, *, name: str = "") -> Agent:
        """The agent of a spec, or of a Python object, for a suite. `name`: one of several agents of the suite."""
        if self._replacement is not None:
            return self._replacement
        isolated = merge_config(loaded.config, loaded.overrides).isolation == "process"
        identity = (_identity(spec), isolated)
        known = self._created.get(identity)
        if known is None:
            filled = fill_environment(spec, self._request.environ) if isinstance(spec, Mapping) else spec
            agent = resolve_agent(filled, name=name or loaded.name, isolated=isolated)
            # The spec is kept too: otherwise Python could give its id to another object.
            known = self._created[identity] = (filled, agent)
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
        """Whether an agent is a recording, so that the trials are not independent."""
        return any(is_recording(spec) for loaded in suites for _, spec in self._specs(loaded))

    def settings(self) -> list[Any]:
        """All settings of the agents, including secrets."""
        own = [
            {name: getattr(agent, name, None) for name in ("headers", "api_key", "env")}
            for _, agent in self._created.values()
        ]
        return [*(spec for spec, _ in self._created.values()), *own]

    async def find_late_call(self) -> str | None:
        """A sentence about a call that an agent made after its trial ended, which no transcript contains."""
        for _, agent in self._created.values():
            late_calls = getattr(agent, "late_calls", None)
            calls = [] if late_calls is None else await late_calls()
            if calls:
                return str(calls[0])
        return None

    async def close(self) -> None:
        """Close all agents; then raise the first error."""
        problems = []
        for _, agent in self._created.values():
            try:
                await agent.close()
            except Exception as problem:
                problems.append(problem)
        if problems:
            raise problems[0]


class NoAgent:
    """The agent of recorded conversations: it is never called."""

    name = "none"
    answers_own_tools = True
    keeps_conversation = True
    replays = True

    def open(self, start: TrialStart) -> AgentSession:
        raise AssertionError("no agent is called for a recorded conversation")

    async def close(self) -> None:
        """There is nothing to close."""


def make_context(
    loaded: LoadedSuite, agent: Agent, *, name: str, spec: Any, models: RunModels, records: bool = False
) -> SuiteContext:
    """What the suite's scenarios share when this agent plays them. `name`: one of several agents of the suite."""
    return SuiteContext(
        suite=loaded.name,
        agent=agent,
        agent_name=name,
        agent_key=describe_agent(spec),
        evaluators=loaded.evaluators,
        setup=read_hooks(loaded, "setup"),
        teardown=read_hooks(loaded, "teardown"),
        models=models,
        records=records,
    )


def describe_agent(spec: Any) -> str:
    """A text that identifies the agent: the spec as written, or the import path of a Python object."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        return json.dumps({key: describe_agent(value) for key, value in spec.items()}, sort_keys=True)
    if isinstance(spec, bool | int | float | list) or spec is None:
        return json.dumps(spec, default=str)
    module = getattr(spec, "__module__", None) or type(spec).__module__
    name = getattr(spec, "__qualname__", None) or type(spec).__qualname__
    return f"{module}:{name}"


def is_recording(spec: Any) -> bool:
    """Whether the agent replays a recording."""
    return isinstance(spec, Mapping) and spec.get("type") == "replay"


def _identity(spec: Any) -> Any:
    """Equal settings are the same agent; two Python objects never are."""
    if isinstance(spec, Mapping) and not isinstance(spec.get("target", ""), str):
        return describe_agent(spec), id(spec["target"])
    return describe_agent(spec) if isinstance(spec, str | Mapping) else id(spec)
