"""The worker process of a Python agent with `isolation: process`: one trial after the other, as the parent says.

Every tool call goes to the parent, which has the mocks. The agent cannot reach a trial or a verdict of the parent.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from msgspec import convert, to_builtins

from seatrial.errors import UsageError
from seatrial.foreign.worker_process import ParentConnection, run_worker
from seatrial.model.protocols import ToolAnswer, TrialStart
from seatrial.model.results import TrialError

from .process_isolation import read_error, write_error
from .python import CallableAgent, CallableSession
from .resolve import resolve_agent

_NO_LIMIT = 1e7
"""Seconds. The parent has the time limit, and kills this process when it is exceeded."""


class ParentTools:
    """The tools of a trial. The parent answers all calls."""

    def __init__(self, parent: ParentConnection) -> None:
        self._parent = parent

    @property
    def state(self) -> dict[str, Any]:
        return {}

    has_ended = False

    def record_world(self) -> None:
        """The parent records the world."""

    def knows(self, name: str) -> bool:
        return bool(self._parent.ask("about_tool", name=name).result()["is_mocked"])

    def lets_run(self, name: str) -> bool:
        return bool(self._parent.ask("about_tool", name=name).result()["may_run"])

    def offered(self) -> Sequence[Mapping[str, Any]]:
        """Nothing: only an MCP server asks for the definitions, and it runs in the parent."""
        return ()

    async def call(self, name: str, arguments: Any, *, turn: int) -> ToolAnswer:
        answer = await asyncio.wrap_future(self._parent.ask("tool_call", name=name, arguments=arguments))
        if "trial_error" in answer:
            raise read_error(answer["trial_error"])
        return convert(answer["answer"], ToolAnswer)


class Worker:
    """Runs the agent, one trial at a time."""

    def __init__(self, agent: CallableAgent, parent: ParentConnection) -> None:
        self._agent = agent
        self._parent = parent
        self._session: CallableSession | None = None
        self._turn = 0

    async def serve(self) -> None:
        async for message in self._parent.messages():
            try:
                self._parent.send(await self._do(message))
            except TrialError as failure:
                self._parent.send({"type": "error", **write_error(failure)})
        await self._agent.close()

    async def _do(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if message["type"] == "late_calls":
            return {"type": "late_calls", "calls": await self._agent.late_calls()}
        if message["type"] == "trial":
            self._session = self._agent.open(self._start(message))
            return {"type": "ready"}
        assert self._session is not None
        if message["type"] == "turn":
            self._turn = message["turn"]
            reply = await self._session.respond(message["messages"], timeout=_NO_LIMIT)
            return {"type": "reply", "reply": to_builtins(reply), "reachable_tools": self._session.reachable_tools}
        session, self._session = self._session, None
        await session.close()
        return {"type": "ended"}

    def _start(self, trial: Mapping[str, Any]) -> TrialStart:
        began = perf_counter() * 1000 - trial["elapsed_ms"]
        trial_id = trial["trial_id"]
        return TrialStart(
            trial_id=trial_id,
            scenario=trial["scenario"],
            index=trial["index"],
            seed=trial["seed"],
            tools=ParentTools(self._parent),
            record=lambda call: self._parent.send({"type": "called", "trial_id": trial_id, "call": to_builtins(call)}),
            turn=lambda: self._turn,
            elapsed_ms=lambda: perf_counter() * 1000 - began,
            tool_schemas=tuple(trial["tools"]),
            mcp_url=trial["mcp_url"],
            decides=trial["decides"],
        )


def main(parent: ParentConnection, arguments: list[str]) -> None:
    spec, *describe = arguments
    try:
        agent = resolve_agent(json.loads(spec))
        if not isinstance(agent, CallableAgent):
            raise UsageError(f"agent {agent.name!r}: isolation: process runs functions, classes and frameworks' agents")
    except UsageError as problem:
        parent.send({"type": "refused", "message": str(problem)})
        return
    if describe:
        names = agent.tool_names
        about = {
            "keeps_conversation": agent.keeps_conversation,
            "takes_decisions": agent.takes_decisions,
            "takes_attachments": getattr(agent, "takes_attachments", False),
            "continues": getattr(agent, "continues", False),
            "tool_names": None if names is None else sorted(names),
        }
        parent.send({"type": "agent", **about})
        return
    asyncio.run(Worker(agent, parent).serve())


if __name__ == "__main__":
    run_worker(main)
