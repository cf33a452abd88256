"""The best assignment of calls to entries where order does not count.

Two rounds of augmenting paths. First the entries take the calls that they need; then the calls that must find a place
look for one. A later round never takes away what an earlier one gave, only trades it, so the result has the fewest
calls missing and, among those, the fewest left over; first-fit would fail trajectories that can be matched.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from seatrial.model.conversation import ToolCall

from .expected_calls import Entry


class Assignment(NamedTuple):
    """Which entry each call went to, and what is left."""

    owners: tuple[int | None, ...]
    """By call: the index of its entry; None for a call that no entry took."""
    missing: tuple[int, ...]
    """By entry: how many calls it still needs."""
    homeless: tuple[int, ...]
    """Calls that had to find a place and did not."""


def assign(entries: Sequence[Entry], accepted: Sequence[Sequence[int]], *, required: Sequence[bool]) -> Assignment:
    """The best assignment. `accepted` lists, by call, the entries that accept it; `required` says which calls must
    find a place."""
    board = _Board(entries, accepted)
    missing = board.serve_entries()
    homeless = board.place_calls(required)
    return Assignment(tuple(board.owners), tuple(missing), tuple(homeless))


class _Board:
    """The state of the search: who owns what."""

    def __init__(self, entries: Sequence[Entry], accepted: Sequence[Sequence[int]]) -> None:
        self.entries = entries
        self.accepted = accepted
        self.owners: list[int | None] = [None] * len(accepted)
        self.taken: list[dict[int, None]] = [{} for _ in entries]
        """By entry: its calls, in the order they came."""
        self.accepting: list[list[int]] = [[] for _ in entries]
        for call, options in enumerate(accepted):
            for entry in options:
                self.accepting[entry].append(call)
        self.next_free = [0] * len(entries)
        """By entry: before this place in its list of calls, none is free. Calls never become free in this round."""

    def give(self, call: int, entry: int | None) -> None:
        before = self.owners[call]
        if before is not None:
            del self.taken[before][call]
        self.owners[call] = entry
        if entry is not None:
            self.taken[entry][call] = None

    def serve_entries(self) -> list[int]:
        """Let every entry take what it needs; returns how much each still lacks."""
        dead: set[int] = set()
        lacking = [0] * len(self.entries)
        for entry in range(len(self.entries)):
            need = self.entries[entry].low - len(self.taken[entry])
            while need and self._serve(entry, dead):
                need -= 1
            lacking[entry] = need
        return lacking

    def _free_call(self, entry: int) -> int | None:
        calls = self.accepting[entry]
        place = self.next_free[entry]
        while place < len(calls) and self.owners[calls[place]] is not None:
            place += 1
        self.next_free[entry] = place
        return calls[place] if place < len(calls) else None

    def _serve(self, start: int, dead: set[int]) -> bool:
        """Find a free call for the entry, moving calls between entries where that helps."""
        came_by: dict[int, tuple[int, int]] = {}
        """entry -> (the call it would give up, the entry that would get it)"""
        queue = [start]
        seen = {start}
        for entry in queue:
            free = self._free_call(entry) if entry not in dead else None
            if free is not None:
                self._shift_to_entries(free, entry, start, came_by)
                return True
            for call in self.accepting[entry]:
                owner = self.owners[call]
                if owner is not None and owner not in seen and owner not in dead:
                    seen.add(owner)
                    came_by[owner] = (call, entry)
                    queue.append(owner)
        # What a search that failed has seen can help no later search either.
        dead.update(seen)
        return False

    def _shift_to_entries(self, free: int, entry: int, start: int, came_by: dict[int, tuple[int, int]]) -> None:
        self.give(free, entry)
        while entry != start:
            call, receiver = came_by[entry]
            self.give(call, receiver)
            entry = receiver

    def place_calls(self, required: Sequence[bool]) -> list[int]:
        """Find a place for every required call; returns those that have none."""
        dead: set[int] = set()
        return [
            call
            for call in range(len(self.owners))
            if required[call] and self.owners[call] is None and not self._place(call, required, dead)
        ]

    def _place(self, start: int, required: Sequence[bool], dead: set[int]) -> bool:
        came_by: dict[int, int] = {}
        """entry -> the call that would move there"""
        queue = [start]
        for call in queue:
            for entry in self.accepted[call]:
                if entry in came_by or entry in dead:
                    continue
                came_by[entry] = call
                high = self.entries[entry].high
                if high is None or len(self.taken[entry]) < high:
                    self._shift_to_calls(entry, start, came_by)
                    return True
                for other in self.taken[entry]:
                    if not required[other]:
                        self.give(other, None)
                        self._shift_to_calls(entry, start, came_by)
                        return True
                    queue.append(other)
        dead.update(came_by)
        return False

    def _shift_to_calls(self, entry: int, start: int, came_by: dict[int, int]) -> None:
        while True:
            call = came_by[entry]
            before = self.owners[call]
            self.give(call, entry)
            if call == start or before is None:
                return
            entry = before


class Candidates:
    """Finds the entries that accept a call without asking every entry: by name, then by one plain argument."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.by_name: dict[str, list[int]] = {}
        self.by_argument: dict[str, dict[str, dict[Any, list[int]]]] = {}
        """name -> argument -> its expected value (with its type) -> entries"""
        for index, entry in enumerate(entries):
            self._add(index, entry)

    def _add(self, index: int, entry: Entry) -> None:
        if len(entry.alternatives) == 1:
            only = entry.alternatives[0]
            for key, value in (only.args or {}).items():
                if isinstance(value, (str, int, float)):
                    keys = self.by_argument.setdefault(only.name, {})
                    keys.setdefault(key, {}).setdefault((isinstance(value, bool), value), []).append(index)
                    return
        for name in {each.name for each in entry.alternatives}:
            self.by_name.setdefault(name, []).append(index)

    def of(self, call: ToolCall) -> list[int]:
        """The indices of the entries that accept the call, in order."""
        return sorted(index for index in self._possible(call) if self.entries[index].accepts(call))

    def any_for(self, call: ToolCall) -> bool:
        """Whether any entry accepts the call."""
        return any(self.entries[index].accepts(call) for index in self._possible(call))

    def _possible(self, call: ToolCall) -> Iterator[int]:
        yield from self.by_name.get(call.name, ())
        made = call.args
        if made is not None:
            for key, values in self.by_argument.get(call.name, {}).items():
                value = made.get(key)
                if isinstance(value, (str, int, float)):
                    yield from values.get((isinstance(value, bool), value), ())
