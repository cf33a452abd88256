"""The world at the end of a trial, as evaluators see it."""

from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

import msgspec

from .conversation import Change, ToolCall
from .json_patch import apply_changes
from .scenario import GoldCall

PlayGold = Callable[[Sequence[GoldCall]], Awaitable[tuple[tuple[Change, ...], tuple[ToolCall, ...]]]]
"""From gold calls to the changes that they make together, and to the calls with what each of them changes."""

SEED_BASE, SEED_MERGE = "$seed", "$merge"
"""Keys of a stored seed that is another one, named by its hash, with a merge patch over it."""


class WorldView:
    """The world of one trial: before it, after it, and as it should be."""

    def __init__(
        self,
        *,
        seed: dict[str, Any],
        changes: tuple[Change, ...],
        gold_changes: tuple[Change, ...] | None,
        play_gold: PlayGold,
    ) -> None:
        self.seed = seed
        """The initial state itself, which all trials share: it must not be changed."""
        self.diff = changes
        """From the initial to the final state, as JSON Patch."""
        self._gold_changes = gold_changes
        self._play_gold = play_gold

    @cached_property
    def end(self) -> Any:
        """The final state. It shares unchanged parts with the seed: it must not be changed."""
        return apply_changes(self.seed, self.diff)

    async def end_after(self, calls: Sequence[GoldCall]) -> Any:
        """The state that these calls produce from the seed. It must not be changed."""
        return apply_changes(self.seed, (await self._play_gold(calls))[0])

    async def changing(self, calls: Sequence[GoldCall]) -> tuple[ToolCall, ...]:
        """Those of the calls that change the state, without their results."""
        played = (await self._play_gold(calls))[1]
        return tuple(ToolCall(call.name, call.arguments) for call in played if call.changes)

    @cached_property
    def initial(self) -> Any:
        """A copy of the state before the trial."""
        return _copy(self.seed)

    @cached_property
    def final(self) -> Any:
        """A copy of the state after the trial."""
        return _copy(self.end)

    @cached_property
    def gold(self) -> Any:
        """A copy of the state after the scenario's `end_state.as_after`; None if it has none."""
        return None if self._gold_changes is None else _copy(apply_changes(self.seed, self._gold_changes))

    def own_copy(self) -> "WorldView":
        """A view whose copies belong to one evaluator alone."""
        return WorldView(seed=self.seed, changes=self.diff, gold_changes=self._gold_changes, play_gold=self._play_gold)


def _copy(state: Any) -> Any:
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(state))
    except OverflowError:  # a number of more than 64 bits
        return deepcopy(state)
