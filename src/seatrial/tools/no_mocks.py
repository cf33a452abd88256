"""The tools of a trial whose scenario mocks nothing: a light stand-in, since most trials never call it."""

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.model.protocols import ToolAnswer


class NoMocks:
    """A ToolBox without mocks. The first call loads the real one, which says what is missing."""

    __slots__ = ("_seed", "_trial_id", "state")

    def __init__(self, trial_id: str, seed: int) -> None:
        self._trial_id = trial_id
        self._seed = seed
        self.state: dict[str, Any] = {}

    def knows(self, name: str) -> bool:
        return False

    def lets_run(self, name: str) -> bool:
        return True

    def offered(self) -> Sequence[Mapping[str, Any]]:
        return ()

    async def call(self, name: str, arguments: Any, *, turn: int) -> ToolAnswer:
        from .mock_set import MockSet

        tools = MockSet.parse(None, matches=_never).open(self._trial_id, self._seed)
        return await tools.call(name, arguments, turn=turn)


def _never(expected: Any, actual: Any) -> bool:
    return False
