"""How the calls that were made compare with a trajectory: one function for each mode."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from seatrial.model.conversation import ToolCall
from seatrial.model.results import TrajectoryMatch
from seatrial.model.scenario import TrajectorySpec

from .expected_calls import Alternative, Entry, entry_of
from .forbidden import arguments_as_json, broken_rules
from .match_ordered import align, find_subsequence, follows_in_order, furthest_position
from .match_unordered import Assignment, Candidates, assign
from .trajectory_diff import Row, draw

_MOST_ISSUES = 50


class Comparison(NamedTuple):
    """A match, with what was noticed about arguments on the way."""

    match: TrajectoryMatch
    arguments: tuple[str, ...] = ()
    """Where a call of the right name had the wrong arguments, and which."""


class _Findings(NamedTuple):
    """What a mode found."""

    missing: Sequence[str] = ()
    extra: Sequence[str] = ()
    ordering: Sequence[str] = ()
    other: Sequence[str] = ()
    entries: Sequence[Entry] = ()
    rows: Sequence[Row] = ()
    surplus: frozenset[int] = frozenset()
    """Calls that the mode does not allow."""

    @property
    def matched(self) -> bool:
        return not (self.missing or self.extra or self.ordering)


def match_trajectory(spec: TrajectorySpec, calls: Sequence[ToolCall]) -> TrajectoryMatch:
    """How the calls compare with the trajectory. The diff is drawn only where they do not match."""
    return compare_calls(spec, calls).match


def compare_calls(spec: TrajectorySpec, calls: Sequence[ToolCall]) -> Comparison:
    """The match, and the differences in arguments."""
    entries = [entry_of(expected) for expected in spec.expected]
    findings = _MODES[spec.mode](entries, calls)
    forbidden, hits = broken_rules(spec.forbidden, calls)
    match = TrajectoryMatch(
        mode=spec.mode,
        matched=findings.matched and not forbidden,
        missing_calls=tuple(findings.missing),
        extra_calls=tuple(findings.extra),
        ordering_issues=tuple(findings.ordering),
        forbidden_calls=forbidden,
        other_calls=tuple(findings.other),
        expected=tuple(entry.words for entry in entries),
        actual=tuple(call.name for call in calls),
    )
    if match.matched:
        return Comparison(match=match)
    rows = findings.rows or [(None, index) for index in range(len(calls))]
    lines, notes = draw(rows, findings.entries, calls, forbidden=hits, surplus=findings.surplus)
    return Comparison(match=replace(match, diff=lines), arguments=notes)


def _strict(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> _Findings:
    joined = _join_neighbours(entries)
    done, position = furthest_position(joined, calls)
    if done == len(joined) and position == len(calls):
        return _Findings()
    by_name = _merge(
        entry._replace(alternatives=tuple(Alternative(each.name, None, False) for each in entry.alternatives))
        for entry in entries
    )
    names = _assign(by_name, calls, required=[True] * len(calls))
    missing = _missing(by_name, names)
    extra = _grouped(calls, names.homeless)
    if all(entry.low == entry.high == 1 for entry in entries):
        ordering = [
            text
            for index, (entry, call) in enumerate(zip(entries, calls, strict=False))
            if (text := _position_issue(index, entry, call))
        ]
    else:
        ordering = _furthest_issue(joined, calls, done, position)
    if not (missing or extra or ordering):
        ordering = ["The calls are not in the expected order"]
    rows = align(entries, calls)
    surplus = frozenset(call for entry, call in rows if entry is None and call is not None)
    return _Findings(
        missing=missing, extra=extra, ordering=_shortened(ordering), entries=entries, rows=rows, surplus=surplus
    )


def _position_issue(index: int, entry: Entry, call: ToolCall) -> str | None:
    if entry.accepts(call):
        return None
    why = entry.differences(call)
    if why:
        return f"Position {index} ({call.name}): {'; '.join(why)}"
    return f'Position {index}: expected "{entry.label}", got "{call.name}"'


def _furthest_issue(entries: Sequence[Entry], calls: Sequence[ToolCall], done: int, position: int) -> list[str]:
    """The one place where entries that take a varying number of calls could not go on."""
    if position >= len(calls):
        return []
    if done == len(entries):
        return [f'Position {position}: expected no further call, got "{calls[position].name}"']
    issue = _position_issue(position, entries[done], calls[position])
    return [issue] if issue else []


def _unordered(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> _Findings:
    merged = _merge(entries)
    found = _assign(merged, calls, required=[True] * len(calls))
    return _Findings(
        missing=_missing(merged, found),
        extra=[calls[index].name for index in found.homeless],
        entries=merged,
        rows=_free_rows(found),
        surplus=frozenset(found.homeless),
    )


def _contains(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> _Findings:
    merged = _merge(entries)
    found = _assign(merged, calls, required=_must_be_taken(entries, calls))
    return _Findings(
        missing=_missing(merged, found),
        extra=[calls[index].name for index in found.homeless],
        other=_others(calls, found.owners, found.homeless),
        entries=merged,
        rows=_free_rows(found),
        surplus=frozenset(found.homeless),
    )


def _in_order(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> _Findings:
    must = _must_be_taken(entries, calls)
    if not any(entry.capped for entry in entries):
        owners = find_subsequence(entries, calls)
        if owners is not None:
            return _Findings(other=_others(calls, owners, ()))
    free = _contains(entries, calls)
    if free.matched and any(entry.capped for entry in entries) and follows_in_order(entries, calls, must):
        return _Findings(other=free.other)
    rows = align(entries, calls)
    ordering = _shortened(_order_issues(entries, rows, free.missing))
    if free.matched and not ordering:
        ordering = ["The calls are not in the expected order"]
    return free._replace(ordering=ordering, entries=entries, rows=rows)


def _order_issues(entries: Sequence[Entry], rows: Sequence[Row], missing: Sequence[str]) -> list[str]:
    """A text for each entry whose call was made, but not in its place."""
    absent = Counter(missing)
    kept = [entries[entry].label for entry, call in rows if entry is not None and call is not None]
    issues = []
    before = ""
    for entry, call in rows:
        if entry is None:
            continue
        label = entries[entry].label
        if call is not None:
            before = label
        elif absent[label]:
            absent[label] -= 1
        elif before:
            issues.append(f'"{label}" was not called after "{before}"')
        elif kept:
            issues.append(f'"{label}" was not called before "{kept[0]}"')
    return issues


def _within(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> _Findings:
    allowed = _merge(entry._replace(low=0, high=entry.high if entry.capped else None) for entry in entries)
    candidates = Candidates(allowed)
    found = assign(allowed, [candidates.of(call) for call in calls], required=[True] * len(calls))
    known = {each.name for entry in allowed for each in entry.alternatives}
    extra, ordering = [], []
    for index in found.homeless:
        call = calls[index]
        if call.name in known and not candidates.any_for(call):
            ordering.append(f'Tool "{call.name}": args {arguments_as_json(call)} did not match any expected args')
        else:
            extra.append(call.name)
    return _Findings(
        extra=extra,
        ordering=_shortened(ordering),
        entries=allowed,
        rows=_free_rows(found),
        surplus=frozenset(found.homeless),
    )


_MODES = {"strict": _strict, "unordered": _unordered, "contains": _contains, "in_order": _in_order, "within": _within}


def _must_be_taken(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> list[bool]:
    """By call, whether it counts against an entry that limits how many calls match it."""
    capped = [entry for entry in entries if entry.capped]
    if not capped:
        return [False] * len(calls)
    candidates = Candidates(capped)
    return [candidates.any_for(call) for call in calls]


def _join_neighbours(entries: Sequence[Entry]) -> list[Entry]:
    """The same sequence with fewer entries: neighbours that ask for the same tool, whatever its arguments, in one."""
    joined: list[Entry] = []
    for entry in entries:
        last = joined[-1] if joined else None
        alike = last is not None and last.label == entry.label
        if last is not None and alike and all(each.args is None for each in (*last.alternatives, *entry.alternatives)):
            high = None if last.high is None or entry.high is None else last.high + entry.high
            joined[-1] = last._replace(low=last.low + entry.low, high=high)
        else:
            joined.append(entry)
    return joined


def _merge(entries: Iterable[Entry]) -> list[Entry]:
    """The same demands with fewer entries: those alike that ask for no arguments become one.

    Five thousand calls against five thousand equal entries are then one entry with as many places.
    """
    merged: list[Entry] = []
    places: dict[tuple[str, bool, bool], int] = {}
    for entry in entries:
        if all(each.args is None for each in entry.alternatives):
            key = (entry.label, entry.capped, entry.high is None)
            if key in places:
                first = merged[places[key]]
                high = None if first.high is None or entry.high is None else first.high + entry.high
                merged[places[key]] = first._replace(low=first.low + entry.low, high=high)
                continue
            places[key] = len(merged)
        merged.append(entry)
    return merged


def _assign(entries: Sequence[Entry], calls: Sequence[ToolCall], *, required: Sequence[bool]) -> Assignment:
    candidates = Candidates(entries)
    return assign(entries, [candidates.of(call) for call in calls], required=required)


def _missing(entries: Sequence[Entry], found: Assignment) -> list[str]:
    return [entry.label for entry, lacking in zip(entries, found.missing, strict=True) for _ in range(lacking)]


def _others(calls: Sequence[ToolCall], owners: Sequence[int | None], not_allowed: Sequence[int]) -> list[str]:
    surplus = set(not_allowed)
    return [call.name for index, call in enumerate(calls) if owners[index] is None and index not in surplus]


def _free_rows(found: Assignment) -> list[Row]:
    lacking: list[Row] = [(entry, None) for entry, lacks in enumerate(found.missing) for _ in range(lacks)]
    return [*((owner, call) for call, owner in enumerate(found.owners)), *lacking]


def _grouped(calls: Sequence[ToolCall], chosen: Iterable[int]) -> list[str]:
    """The names of the chosen calls, those alike together, in the order in which names first appear among all calls."""
    counts = dict.fromkeys((call.name for call in calls), 0)
    for index in chosen:
        counts[calls[index].name] += 1
    return [name for name, count in counts.items() for _ in range(count)]


def _shortened(issues: list[str]) -> list[str]:
    if len(issues) <= _MOST_ISSUES:
        return issues
    return [*issues[:_MOST_ISSUES], f"and {len(issues) - _MOST_ISSUES} more"]
