"""Tools of a trial whose answers a sweep alters: with an attack in a text, or with a fault."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from seatrial.model.conversation import WorldRecord
from seatrial.model.protocols import ToolAnswer, ToolBox

Call = Callable[[], Awaitable[ToolAnswer]]
"""Makes the call as the agent asked for it."""


class Alteration(Protocol):
    """Changes what tools answer in one trial. An answer that it changed names itself in `altered`."""

    async def answer(self, name: str, arguments: Any, turn: int, call: Call) -> ToolAnswer:
        """The answer that the agent gets. Without `call()`, the tool never runs and the world stays as it is."""
        ...


class AlteredTools:
    """The tools of a trial, with an alteration between them and the agent."""

    def __init__(self, tools: ToolBox, alteration: Alteration) -> None:
        self._tools = tools
        self._alteration = alteration

    @property
    def state(self) -> dict[str, Any]:
        return self._tools.state

    @property
    def has_ended(self) -> bool:
        return self._tools.has_ended

    def record_world(self) -> WorldRecord | None:
        return self._tools.record_world()

    def knows(self, name: str) -> bool:
        return self._tools.knows(name)

    def lets_run(self, name: str) -> bool:
        return self._tools.lets_run(name)

    def offered(self) -> Sequence[Mapping[str, Any]]:
        return self._tools.offered()

    async def call(self, name: str, arguments: Any, *, turn: int) -> ToolAnswer:
        return await self._alteration.answer(
            name, arguments, turn, lambda: self._tools.call(name, arguments, turn=turn)
        )
