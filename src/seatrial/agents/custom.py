"""Objects of users and of installed packages that implement the `Agent` protocol of model/protocols.py.

Their methods are user code, so they run in `foreign`, with a time limit, like those of any Python agent.
"""

import inspect
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.foreign.call import describe
from seatrial.model.conversation import Message
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import Agent, AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure

from .chat_messages import read_calls
from .python import call_agent, close_agent
from .return_values import plain_reply

_OPTIONAL = ("tool_names", "offered_tools", "headers", "api_key", "env")
"""Attributes that an agent may have: names of its tools, and settings that may hold secrets."""


class CustomAgent:
    """An agent around an object that implements the protocol. A class is made here, without arguments."""

    def __init__(self, given: Any) -> None:
        try:
            agent: Any = given() if inspect.isclass(given) else given
        except (Exception, SystemExit) as cause:
            raise UsageError(f"agent {given.__qualname__!r} cannot be made: {describe(cause)}") from None
        self.agent = agent
        self.name = agent.name
        self.answers_own_tools = agent.answers_own_tools
        self.keeps_conversation = agent.keeps_conversation
        for attribute in _OPTIONAL:
            if hasattr(agent, attribute):
                setattr(self, attribute, getattr(agent, attribute))

    def open(self, start: TrialStart) -> AgentSession:
        return _CustomSession(self.agent, start)

    async def close(self) -> None:
        await close_agent(self.agent.close)


class _CustomSession:
    def __init__(self, agent: Agent, start: TrialStart) -> None:
        self._agent = agent
        self._start = replace(start, record=lambda call: start.record(read_calls([call])[0]))
        self._session: AgentSession | None = None
        self.reachable_tools: tuple[str, ...] | None = ()

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        async def respond() -> AgentReply:
            self._session = session = self._session or self._agent.open(self._start)
            reply: Any = await session.respond([plain_value(message) for message in messages], timeout=timeout)
            if not isinstance(reply, AgentReply):
                found = type(reply).__name__
                raise AgentFailure(f"respond() of the agent must return a seatrial.AgentReply, got {found}", final=True)
            self.reachable_tools = getattr(session, "reachable_tools", ())
            return plain_reply(reply)

        reply: AgentReply = await call_agent(respond, timeout=timeout)
        return reply

    async def close(self) -> None:
        if self._session is not None:
            await close_agent(self._session.close)
