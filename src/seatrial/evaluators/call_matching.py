"""Entries of a trajectory, and algorithms that match them with calls: in order, in any order, and for a diff."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall
from seatrial.model.scenario import ExpectedCall

from .built_in import arguments, choice, did_you_mean, flag, text
from .matchers import argument_differences, shown, subset
from .redacted_evidence import includes_surely

_KEYS = ExpectedCall.__struct_fields__
_BOUNDS = ("count", "min", "max")


class Alternative(NamedTuple):
    """One call that an entry accepts."""

    name: str
    args: Mapping[str, Any] | None
    """None: any arguments."""
    exact: bool

    def accepts(self, call: ToolCall) -> bool:
        if call.name != self.name:
            return False
        if self.args is None:
            return True
        made = call.args
        return made is not None and subset(self.args, made, exact=self.exact)

    def accepts_surely(self, call: ToolCall) -> bool | None:
        """Like `accepts`; None if the answer depends on a secret that was redacted from the arguments."""
        made = call.args
        if call.name != self.name or self.args is None or made is None or (self.exact and len(made) != len(self.args)):
            return self.accepts(call)
        return includes_surely(self.args, made)


class Entry(NamedTuple):
    """An entry with all defaults filled in."""

    alternatives: tuple[Alternative, ...]
    low: int
    """How many calls it needs."""
    high: int | None
    """How many it can take; None: any number."""
    capped: bool
    """The user limits the number of its calls, by count, max or optional."""

    @property
    def label(self) -> str:
        """Its names: `book`, `update|delete`."""
        return "|".join(each.name for each in self.alternatives)

    @property
    def words(self) -> str:
        """The whole entry: `create_booking(service='haircut') x2`."""
        return self.call_words + self._times()

    @property
    def call_words(self) -> str:
        """One call of the entry: `create_booking(service='haircut')`."""
        return "|".join(_alternative_in_words(each) for each in self.alternatives)

    def accepts(self, call: ToolCall) -> bool:
        return any(each.accepts(call) for each in self.alternatives)

    def differences(self, call: ToolCall) -> list[str]:
        """The wrong arguments of a call with one of its names; empty for other calls."""
        for each in self.alternatives:
            if each.name == call.name and each.args is not None:
                if call.args is None:
                    return [f"{call.name}: arguments are not a mapping, got {shown(call.arguments)}"]
                found = argument_differences(each.args, call.args, exact=each.exact)
                return [f"{call.name}.{difference}" for difference in found]
        return []

    def _times(self) -> str:
        if not self.capped and self.high == 1:
            return ""
        if self.low == self.high:
            return f" x{self.low}"
        if self.high is None:
            return f" x{self.low} or more"
        return " (optional)" if (self.low, self.high) == (0, 1) else f" x{self.low}-{self.high}"


def _alternative_in_words(each: Alternative) -> str:
    if each.args is None:
        return each.name
    inside = ", ".join(f"{key}={shown(value)}" for key, value in each.args.items())
    return f"{each.name}({inside})" + (" exactly" if each.exact else "")


def call_in_words(call: ToolCall) -> str:
    """A call that was made: `create_booking(service='haircut')`."""
    if call.arguments is None:
        return call.name
    if call.args is None:
        return f"{call.name}({shown(call.arguments)})"
    return f"{call.name}({', '.join(f'{key}={shown(value)}' for key, value in call.args.items())})"


def entry_of(expected: Any) -> Entry:
    """The entry for an ExpectedCall."""
    alternatives = tuple(_alternative(each) for each in expected.any_of or (expected,))
    if expected.count is not None:
        return Entry(alternatives, expected.count, expected.count, True)
    if expected.optional:
        return Entry(alternatives, 0, 1, True)
    if expected.max is not None:
        return Entry(alternatives, expected.min or 0, expected.max, True)
    if expected.min is not None:
        return Entry(alternatives, expected.min, None, False)
    return Entry(alternatives, 1, 1, False)


def _alternative(expected: ExpectedCall) -> Alternative:
    args = None if expected.arg_match == "ignore" else expected.args
    return Alternative(expected.name or "", args, expected.arg_match == "exact")


def expected_call(where: str, value: Any, *, counted: bool = True) -> ExpectedCall:
    """The checked ExpectedCall for an ExpectedCall, a mapping as in files, or a tool name."""
    if isinstance(value, str):
        call = ExpectedCall(name=value)
    elif isinstance(value, ExpectedCall):
        call = replace(value, any_of=_alternatives(where, value.any_of))
    elif isinstance(value, Mapping):
        call = _from_mapping(where, value)
    else:
        raise UsageError(f"{where}: expected a tool's name or a mapping with one, got {shown(value)}.")
    _check(where, call, counted=counted)
    return call


def _from_mapping(where: str, value: Mapping[str, Any]) -> ExpectedCall:
    for key in value:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}.{did_you_mean(key, _KEYS)}")
    if value.get("any_of", True) in ([], ()):
        raise UsageError(f"{where}.any_of: expected a list of alternatives, got an empty one.")
    return ExpectedCall(**{**value, "any_of": _alternatives(where, value.get("any_of", ()))})


def _alternatives(where: str, options: Any) -> tuple[ExpectedCall, ...]:
    if not isinstance(options, (list, tuple)):
        raise UsageError(f"{where}.any_of: expected a list of alternatives, got {shown(options)}.")
    return tuple(
        expected_call(f"{where}.any_of[{index}]", option, counted=False) for index, option in enumerate(options)
    )


def _check(where: str, call: ExpectedCall, *, counted: bool) -> None:
    if (call.name is None) != bool(call.any_of):
        raise UsageError(f"{where}: give exactly one of name and any_of.")
    if call.any_of and (call.args is not None or call.arg_match is not None):
        raise UsageError(f"{where}: args belong to each alternative of any_of, not beside it.")
    for index, option in enumerate(call.any_of):
        if option.any_of:
            raise UsageError(f"{where}.any_of[{index}]: an alternative cannot have alternatives; list them all here.")
    if call.name is not None and not text(f"{where}.name", call.name).strip():
        raise UsageError(f"{where}.name: expected a tool's name, got {call.name!r}.")
    if call.args is not None:
        arguments(f"{where}.args", call.args)
    if call.arg_match is not None:
        choice(f"{where}.arg_match", call.arg_match, ("partial", "exact", "ignore"))
    _check_times(where, call, counted=counted)


def _check_times(where: str, call: ExpectedCall, *, counted: bool) -> None:
    given = [key for key in _BOUNDS if getattr(call, key) is not None]
    for key in given:
        bound = getattr(call, key)
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
            raise UsageError(f"{where}.{key}: expected a whole number that is not negative, got {shown(bound)}.")
    if flag(f"{where}.optional", call.optional):
        given.append("optional")
    if given and not counted:
        raise UsageError(f"{where}: {given[0]} has no meaning here; only entries under expected are counted.")
    if len(given) > 1 and given != ["min", "max"]:
        raise UsageError(f"{where}: {' and '.join(given)} cannot be combined; use min and max.")
    if call.min is not None and call.max is not None and call.min > call.max:
        raise UsageError(f"{where}: min {call.min} is greater than max {call.max}.")


_MOST_CELLS = 400_000
"""Larger tables would take seconds; then the diff shows missing calls and extra calls without aligning them."""
_NEEDED_WEIGHT = 100_000

Row = tuple[int | None, int | None]
"""(entry, call): both if a call fits an entry; one of them is None if it has no counterpart."""


def furthest_position(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> tuple[int, int]:
    """How far the entries can follow the calls without a gap: (entries done, calls done).

    They match strictly if the result is (len(entries), len(calls)).
    """
    reached = {0}
    for done, entry in enumerate(entries):
        ends: set[int] = set()
        furthest = 0
        for start in reached:
            high = len(calls) if entry.high is None else min(len(calls), start + entry.high)
            end = start
            while end < high and entry.accepts(calls[end]):
                end += 1
            ends.update(range(start + entry.low, end + 1))
            furthest = max(furthest, end)
        if not ends:
            return done, furthest
        reached = ends
    return len(entries), max(reached)


def follows_in_order(entries: Sequence[Entry], calls: Sequence[ToolCall], must: Sequence[bool]) -> bool:
    """Whether the entries can take calls in order. Calls between them are skipped, unless they must be taken."""
    due = list(accumulate(must, initial=0))
    """By position: how many calls before it must be taken."""
    reached = [0]
    for entry in entries:
        ends: list[int] = []
        for start in reached:
            for end in _ends(start, entry, calls, due):
                # Of two positions without a call between them that must be taken, the first is enough.
                if not ends or due[end] > due[ends[-1]]:
                    ends.append(end)
        if not ends:
            return False
        reached = ends
    return due[reached[-1]] == due[-1]


def _ends(start: int, entry: Entry, calls: Sequence[ToolCall], due: Sequence[int]) -> Iterator[int]:
    """The positions at which the entry can be done if it starts at `start`."""
    taken = forced = 0
    for end in range(start, len(calls) + 1):
        if taken >= entry.low:
            yield end
        if end == len(calls) or (taken >= entry.low and due[end] == due[-1]):
            return
        accepted = entry.accepts(calls[end])
        must = due[end + 1] > due[end]
        if must and (not accepted or (entry.high is not None and forced == entry.high)):
            return
        taken += accepted
        forced += must


def align(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> list[Row]:
    """Rows for a diff, in order. An entry appears once for each call that it needs or gets.

    The alignment keeps as many needed calls as possible.
    """
    slots = _slots(entries, calls)
    fits = [needed and entries[entry].accepts(call) for (entry, needed), call in zip(slots, calls, strict=False)]
    head = fits.index(False) if False in fits else len(fits)
    tail = 0
    while tail < min(len(slots), len(calls)) - head:
        entry, needed = slots[-1 - tail]
        if not needed or not entries[entry].accepts(calls[-1 - tail]):
            break
        tail += 1
    pairs = [(index, index) for index in range(head)]
    middle = _longest_subsequence(entries, slots[head : len(slots) - tail], calls[head : len(calls) - tail])
    pairs += [(head + slot, head + call) for slot, call in middle]
    pairs += [(len(slots) - back, len(calls) - back) for back in range(tail, 0, -1)]
    return _rows(slots, len(calls), pairs)


def _slots(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> list[tuple[int, bool]]:
    """(entry, whether it is needed) for each call that an entry could take."""
    slots: list[tuple[int, bool]] = []
    for index, entry in enumerate(entries):
        optional = 0
        if entry.high is None or entry.high > entry.low:
            fitting = sum(entry.accepts(call) for call in calls)
            optional = max(0, (fitting if entry.high is None else min(fitting, entry.high)) - entry.low)
        slots += [(index, True)] * entry.low + [(index, False)] * optional
    return slots


def _longest_subsequence(
    entries: Sequence[Entry], slots: Sequence[tuple[int, bool]], calls: Sequence[ToolCall]
) -> list[tuple[int, int]]:
    """(slot, call) pairs in order. A needed slot weighs more than all others together."""
    width = len(calls)
    if len(slots) * width > _MOST_CELLS:
        return []
    table = [[0] * (width + 1)]
    for entry, needed in reversed(slots):
        below, row = table[-1], [0] * (width + 1)
        weight = _NEEDED_WEIGHT if needed else 1
        for call in range(width - 1, -1, -1):
            best = max(below[call], row[call + 1])
            if below[call + 1] + weight > best and entries[entry].accepts(calls[call]):
                best = below[call + 1] + weight
            row[call] = best
        table.append(row)
    table.reverse()
    pairs: list[tuple[int, int]] = []
    slot = call = 0
    while slot < len(slots) and call < width:
        here = table[slot][call]
        if here == table[slot + 1][call]:
            slot += 1
        elif here == table[slot][call + 1]:
            call += 1
        else:
            pairs.append((slot, call))
            slot, call = slot + 1, call + 1
    return pairs


def _rows(slots: Sequence[tuple[int, bool]], calls: int, pairs: Sequence[tuple[int, int]]) -> list[Row]:
    rows: list[Row] = []
    slot = call = 0
    for next_slot, next_call in [*pairs, (len(slots), calls)]:
        rows += [(entry, None) for entry, needed in slots[slot:next_slot] if needed]
        rows += [(None, index) for index in range(call, next_call)]
        if next_slot < len(slots):
            rows.append((slots[next_slot][0], next_call))
        slot, call = next_slot + 1, next_call + 1
    return rows


class Assignment:
    """Which call goes to which entry, in any order, so that entries lack the fewest calls; and among those
    assignments one that leaves the fewest required calls without an entry.

    Calls are placed one by one. A call whose entries are full moves calls between entries (augmenting paths).
    """

    def __init__(self, entries: Sequence[Entry], calls: Sequence[ToolCall], *, required: Sequence[bool]) -> None:
        by_name: dict[str, list[int]] = {}
        for index, entry in enumerate(entries):
            for name in {each.name for each in entry.alternatives}:
                by_name.setdefault(name, []).append(index)
        self._accepting = [[at for at in by_name.get(call.name, ()) if entries[at].accepts(call)] for call in calls]
        self._required = required
        self._taken: list[dict[int, None]] = [{} for _ in entries]
        """By entry: its calls, in the order in which it got them."""
        self.owners: list[int | None] = [None] * len(calls)
        """By call: the index of its entry; None if no entry took it."""
        lows, full = [entry.low for entry in entries], set[int]()
        for call in range(len(calls)):
            self._place(call, lows, full, evict=False)
        self.missing = [entry.low - len(taken) for entry, taken in zip(entries, self._taken, strict=True)]
        """By entry: how many calls it still needs."""
        full.clear()
        highs = [len(calls) if entry.high is None else entry.high for entry in entries]
        self.unplaced = [
            call
            for call, owner in enumerate(self.owners)
            if required[call] and owner is None and not self._place(call, highs, full, evict=True)
        ]
        """Required calls that no entry took."""

    def _place(self, start: int, capacity: Sequence[int], full: set[int], *, evict: bool) -> bool:
        """Find an entry for the call. `full` are entries that an earlier search could not make room in."""
        came_by: dict[int, int] = {}
        """entry -> the call that would move there"""
        queue = [start]
        for call in queue:
            for entry in self._accepting[call]:
                if entry in came_by or entry in full:
                    continue
                came_by[entry] = call
                others = self._taken[entry]
                free = len(others) < capacity[entry]
                evicted = next((other for other in others if not self._required[other]), None) if evict else None
                if free or evicted is not None:
                    if not free and evicted is not None:
                        self._move(evicted, None)
                    self._shift(entry, start, came_by)
                    return True
                queue += others
        full.update(came_by)
        return False

    def _shift(self, entry: int, start: int, came_by: dict[int, int]) -> None:
        """Move each call of the path to the entry that was found for it."""
        while True:
            call = came_by[entry]
            before = self.owners[call]
            self._move(call, entry)
            if call == start or before is None:
                return
            entry = before

    def _move(self, call: int, entry: int | None) -> None:
        before = self.owners[call]
        if before is not None:
            del self._taken[before][call]
        self.owners[call] = entry
        if entry is not None:
            self._taken[entry][call] = None
