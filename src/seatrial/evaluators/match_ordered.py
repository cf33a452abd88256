"""Trajectories in which order counts: whether the calls follow the entries, and the best alignment if they do not."""

from collections.abc import Sequence

from seatrial.model.conversation import ToolCall

from .expected_calls import Entry

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
