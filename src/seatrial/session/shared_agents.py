"""The agents of a run that stays open."""

from collections.abc import Mapping
from typing import Any

from seatrial.agents import resolve_agent
from seatrial.scenarios import fill_environment
from seatrial.vocabulary.roles import Agent

from .casting import describe_agent, find_late_call


class SharedAgents:
    """Every agent made once, however many scenarios it plays; Python agents share one event loop."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._made: dict[Any, tuple[Any, str, Agent]] = {}
        self._boundary: Any = None

    def __len__(self) -> int:
        return len(self._made)

    def of(self, spec: Any, *, name: str, isolated: bool) -> tuple[str, Agent]:
        """(key for fingerprints, agent). `isolated`: in processes of its own."""
        identity = (_identity(spec), isolated)
        known = self._made.get(identity)
        if known is None:
            filled = fill_environment(spec, self._environ) if isinstance(spec, Mapping) else spec
            agent = resolve_agent(filled, name=name, isolated=isolated)
            self._share_loop(agent)
            # The spec is kept as well: another object must not be given its id.
            known = self._made[identity] = (filled, describe_agent(spec), agent)
        return known[1], known[2]

    def _share_loop(self, agent: Agent) -> None:
        from seatrial.agents.boundary import Boundary
        from seatrial.agents.callables import CallableAgent

        if isinstance(agent, CallableAgent):
            if self._boundary is None:
                self._boundary = Boundary(one_at_a_time=True)
            agent.share(self._boundary)

    def settings(self) -> list[Any]:
        """What the agents were set up with, secrets included."""
        specs = [spec for spec, _, _ in self._made.values() if isinstance(spec, Mapping)]
        own = [
            {name: value}
            for _, _, agent in self._made.values()
            for name in ("headers", "api_key", "env")
            if (value := getattr(agent, name, None))
        ]
        return [*specs, *own]

    async def find_late_call(self) -> str | None:
        return await find_late_call(agent for _, _, agent in self._made.values())

    async def close(self) -> None:
        for _, _, agent in self._made.values():
            await agent.close()
        if self._boundary is not None:
            self._boundary.close()


def _identity(spec: Any) -> Any:
    """What tells agents apart: settings by what they say, and a Python object by being that very object."""
    if isinstance(spec, Mapping) and not isinstance(spec.get("target", ""), str):
        return describe_agent(spec), id(spec["target"])
    return describe_agent(spec) if isinstance(spec, str | Mapping) else id(spec)
