"""An entry of a trajectory: which calls it accepts, how often, how it reads, and what is refused in it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall
from seatrial.model.scenario import ExpectedCall

from .matchers import argument_differences, shown, subset
from .redacted import includes_surely
from .validation import arguments, choice, did_you_mean, flag, text

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
        """The same; None where it depends on a secret that was taken out of the arguments."""
        made = call.args
        if call.name != self.name or self.args is None or made is None or (self.exact and len(made) != len(self.args)):
            return self.accepts(call)
        return includes_surely(self.args, made)


class Entry(NamedTuple):
    """An entry with its defaults worked out."""

    alternatives: tuple[Alternative, ...]
    low: int
    """How many calls it needs."""
    high: int | None
    """How many it can take; None: any number."""
    capped: bool
    """The number of calls that match it is limited on purpose, by count, max or optional."""

    @property
    def label(self) -> str:
        """Its names: `book`, `update|delete`."""
        return "|".join(each.name for each in self.alternatives)

    @property
    def words(self) -> str:
        """The whole entry for people: `create_booking(service='haircut') x2`."""
        return self.call_words + self._times()

    @property
    def call_words(self) -> str:
        """One call that it asks for: `create_booking(service='haircut')`."""
        return "|".join(_alternative_in_words(each) for each in self.alternatives)

    def accepts(self, call: ToolCall) -> bool:
        return any(each.accepts(call) for each in self.alternatives)

    def differences(self, call: ToolCall) -> list[str]:
        """Why a call of one of its names is not accepted, argument by argument; empty for other calls."""
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
    """The expected call that was meant: an ExpectedCall, a mapping as in files, or a plain name; checked."""
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
        raise UsageError(f"{where}: {' and '.join(given)} cannot stand together; use min and max.")
    if call.min is not None and call.max is not None and call.min > call.max:
        raise UsageError(f"{where}: min {call.min} is greater than max {call.max}.")


_MOST_CELLS = 400_000
"""Beyond this the alignment, which is only for people, is taken greedily: the table would need seconds."""
_REQUIRED_WEIGHT = 100_000


def furthest_position(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> tuple[int, int]:
    """How far the entries, each taking the next calls in a row, can follow: (entries done, calls done).

    They match strictly when every entry is done and (len(entries), len(calls)) is returned.
    """
    reached = [0]
    for done, entry in enumerate(entries):
        following = _after_run(entry, calls, reached)
        if not following:
            return done, _end_of_run(entry, calls, reached)
        reached = following
    return len(entries), reached[-1]


def _after_run(entry: Entry, calls: Sequence[ToolCall], starts: Sequence[int]) -> list[int]:
    """Where the entry can stop when it starts at any of the given positions, ascending."""
    stops: list[int] = []
    end = 0
    for start in starts:
        limit = len(calls) if entry.high is None else min(len(calls), start + entry.high)
        end = max(end, start)
        while end < limit and entry.accepts(calls[end]):
            end += 1
        first = start + entry.low if not stops else max(start + entry.low, stops[-1] + 1)
        stops.extend(range(first, min(end, limit) + 1))
    return stops


def _end_of_run(entry: Entry, calls: Sequence[ToolCall], starts: Sequence[int]) -> int:
    end = starts[-1]
    while end < len(calls) and entry.accepts(calls[end]):
        end += 1
    return end


def find_subsequence(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> list[int | None] | None:
    """By call, the entry that takes it when every entry takes the earliest calls it can; None when some entry cannot.

    Right only where no entry is capped, because calls that stand between are passed over.
    """
    owners: list[int | None] = [None] * len(calls)
    position = 0
    for index, entry in enumerate(entries):
        need = entry.low
        while need:
            if position == len(calls):
                return None
            if entry.accepts(calls[position]):
                owners[position] = index
                need -= 1
            position += 1
    return owners


def follows_in_order(entries: Sequence[Entry], calls: Sequence[ToolCall], must: Sequence[bool]) -> bool:
    """Whether the entries can take calls in order, passing over only calls that need not be taken."""
    reached = [0]
    for entry in entries:
        reached = _after_group(entry, calls, must, reached)
        if not reached:
            return False
    last_must = max((index for index, needed in enumerate(must) if needed), default=-1)
    return reached[-1] > last_must


def _after_group(entry: Entry, calls: Sequence[ToolCall], must: Sequence[bool], starts: Sequence[int]) -> list[int]:
    """Where the entry's group of calls can end when it begins at any of the given positions, ascending.

    From one start the possible ends are an interval, and both its bounds only grow with the start: the first end is
    where enough calls are accepted, the last is before a call that must be taken and cannot be.
    """
    accepts: dict[int, bool] = {}
    """By call, filled as far as the two ends have come: most entries look at few calls."""
    ends: list[int] = []
    first, enough = starts[0], 0
    last, forced = starts[0], 0
    for place, start in enumerate(starts):
        for left in range(starts[place - 1] if place else start, start):
            enough -= left < first and accepts[left]
            forced -= left < last and must[left] and accepts[left]
        first, last = max(first, start), max(last, start)
        while first < len(calls) and enough < entry.low:
            accepts[first] = entry.accepts(calls[first])
            enough += accepts[first]
            first += 1
        if enough < entry.low:
            break
        while last < len(calls):
            accepts[last] = entry.accepts(calls[last])
            if not _may_pass(entry, must[last], accepts[last], forced):
                break
            forced += must[last] and accepts[last]
            last += 1
        ends.extend(range(max(first, ends[-1] + 1 if ends else first), last + 1))
    return ends


def _may_pass(entry: Entry, must: bool, accepted: bool, forced: int) -> bool:
    return not must or (accepted and (entry.high is None or forced < entry.high))


def align(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> list[tuple[int | None, int | None]]:
    """Rows of (entry, call), in order: both where a call fits, one of them where it has no counterpart.

    An entry appears once for each call it needs or gets. The alignment keeps as many needed calls as possible.
    """
    slots = _slots(entries, calls)
    head = 0
    while head < min(len(slots), len(calls)) and slots[head][1] and entries[slots[head][0]].accepts(calls[head]):
        head += 1
    pairs = [(index, index) for index in range(head)]
    rest, after = slots[head:], calls[head:]
    tail = _align_greedily if len(rest) * len(after) > _MOST_CELLS else _align_best
    pairs += [(head + slot, head + call) for slot, call in tail(entries, rest, after)]
    return _rows(slots, len(calls), pairs)


def _slots(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> list[tuple[int, bool]]:
    """(entry, whether it is needed) for each call that an entry could take."""
    slots: list[tuple[int, bool]] = []
    countable = len(entries) * len(calls) <= _MOST_CELLS
    for index, entry in enumerate(entries):
        most = entry.low
        if countable and (entry.high is None or entry.high > entry.low):
            fitting = sum(entry.accepts(call) for call in calls)
            most = max(entry.low, fitting if entry.high is None else min(fitting, entry.high))
        slots += [(index, True)] * entry.low + [(index, False)] * (most - entry.low)
    return slots


def _align_greedily(
    entries: Sequence[Entry], slots: Sequence[tuple[int, bool]], calls: Sequence[ToolCall]
) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    position, looks = 0, 0
    for slot, (entry, _) in enumerate(slots):
        for call in range(position, len(calls)):
            looks += 1
            if entries[entry].accepts(calls[call]):
                pairs.append((slot, call))
                position = call + 1
                break
        if looks > _MOST_CELLS:
            break
    return pairs


def _align_best(
    entries: Sequence[Entry], slots: Sequence[tuple[int, bool]], calls: Sequence[ToolCall]
) -> list[tuple[int, int]]:
    """A longest common subsequence, in which needed slots weigh more than all others together."""
    width = len(calls)
    table = [[0] * (width + 1)]
    for entry, needed in reversed(slots):
        below, row = table[-1], [0] * (width + 1)
        weight = _REQUIRED_WEIGHT if needed else 1
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


def _rows(
    slots: Sequence[tuple[int, bool]], calls: int, pairs: Sequence[tuple[int, int]]
) -> list[tuple[int | None, int | None]]:
    rows: list[tuple[int | None, int | None]] = []
    slot = call = 0
    for next_slot, next_call in [*pairs, (len(slots), calls)]:
        rows += [(entry, None) for entry, needed in slots[slot:next_slot] if needed]
        rows += [(None, index) for index in range(call, next_call)]
        if next_slot < len(slots):
            rows.append((slots[next_slot][0], next_call))
        slot, call = next_slot + 1, next_call + 1
    return rows


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
