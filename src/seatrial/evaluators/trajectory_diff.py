"""The aligned diff of a trajectory, for people."""

from collections.abc import Sequence
from typing import TypeAlias

from seatrial.model.conversation import ToolCall

from .expected_calls import Entry, call_in_words

Row: TypeAlias = tuple[int | None, int | None]
"""(entry, call): both where a call fits an entry, one of them where it has no counterpart."""

_UNCHANGED_KEPT = 3
_MOST_LINES = 200
_MOST_COMPARED = 20


def draw(
    rows: Sequence[Row],
    entries: Sequence[Entry],
    calls: Sequence[ToolCall],
    *,
    forbidden: frozenset[int],
    surplus: frozenset[int],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of the diff, and the differences in arguments that it shows."""
    unmatched: dict[str, list[ToolCall]] = {}
    for entry, call in rows:
        if entry is None and call is not None:
            unmatched.setdefault(calls[call].name, []).append(calls[call])
    lines: list[str] = []
    notes: list[str] = []
    for entry, call in rows:
        if call is not None:
            lines.append(_call_line(calls[call], call, taken=entry is not None, forbidden=forbidden, surplus=surplus))
        elif entry is not None:
            lines.append(f"- {entries[entry].call_words}")
            differences = _closest(entries[entry], unmatched)
            notes += differences
            lines += [f"    {difference}" for difference in differences]
    return _shortened(lines), tuple(dict.fromkeys(notes))


def _call_line(call: ToolCall, index: int, *, taken: bool, forbidden: frozenset[int], surplus: frozenset[int]) -> str:
    words = call_in_words(call)
    if index in forbidden:
        return f"! {words}"
    if taken:
        return f"  {words}"
    return f"+ {words}" if index in surplus else f"  {words} (not asked for, allowed)"


def _closest(entry: Entry, unmatched: dict[str, list[ToolCall]]) -> list[str]:
    """Why the first call of the right name that has no counterpart is not the one that was expected."""
    for each in entry.alternatives:
        calls = unmatched.get(each.name, ()) if each.args is not None else ()
        for place, call in enumerate(calls[:_MOST_COMPARED]):
            differences = entry.differences(call)
            if differences:
                del unmatched[each.name][place]
                return differences
    return []


def _shortened(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines with long stretches of unchanged ones left out, and at most so many of them."""
    short: list[str] = []
    stretch: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("  "):
            stretch.append(line)
            continue
        if len(stretch) > 2 * _UNCHANGED_KEPT + 1:
            left_out = len(stretch) - 2 * _UNCHANGED_KEPT
            stretch = [*stretch[:_UNCHANGED_KEPT], f"  … {left_out} more calls", *stretch[-_UNCHANGED_KEPT:]]
        short += stretch
        stretch = []
        if line:
            short.append(line)
    if len(short) > _MOST_LINES:
        return (*short[:_MOST_LINES], f"  … {len(short) - _MOST_LINES} more lines")
    return tuple(short)
