"""Who answers the calls of a client."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from seatrial.model.protocols import ToolAnswer


class Desk(Protocol):
    """The tools of one client, with a state of their own."""

    def offered(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of the tools: name, description, parameters, output_schema."""
        ...

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        """Answer a call; arguments that are no mapping came malformed. Raises TrialError where there is no answer: an
        unknown tool, a bug in a mock."""
        ...


class Desks(Protocol):
    """Which desk serves whom."""

    gives_sessions: bool
    """Whether plain `/mcp` is open, too, and gives each client a session with a desk of its own."""

    def at(self, place: str) -> Desk | None:
        """The desk at `/{place}/mcp`; None: there is nothing at that address."""
        ...

    def of_session(self, session: str) -> Desk | None:
        """The desk of the client that was given this session id; None: it has none any more."""
        ...
