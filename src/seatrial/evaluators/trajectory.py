"""The evaluator of a trajectory: expected and forbidden tool calls, compared in one of five modes."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall
from seatrial.model.keys import Key
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult, TrajectoryMatch
from seatrial.model.scenario import ExpectedCall, TrajectoryMode
from seatrial.model.struct import set_field

from .built_in import BuiltInEvaluator, arguments_not_recorded, calls_not_known, choice, failed, is_surely_absent
from .call_matching import (
    Alternative,
    Assignment,
    Entry,
    Row,
    align,
    call_in_words,
    entry_of,
    expected_call,
    follows_in_order,
    furthest_position,
)
from .matchers import shown
from .redacted_evidence import holds_redaction, secret_in_arguments

_MODE_NAMES = ("strict", "unordered", "contains", "in_order", "within")
_WITHOUT_OTHERS = ("strict", "unordered", "within")
"""Modes that allow no other calls."""
_MOST_NAMES = 50


class Trajectory(BuiltInEvaluator, frozen=True):
    """Passes when the calls follow the trajectory in its mode and break none of its rules.

    strict: the same calls in the same order; unordered: the same calls; contains: at least these; in_order: at least
    these, in this order; within: no others. Entries are ExpectedCalls, mappings as in files, or plain names.
    """

    expected: Annotated[Sequence[ExpectedCall | Mapping[str, Any] | str], Key("the calls that are expected")] = ()
    mode: Annotated[TrajectoryMode, Key("how the calls that were made are compared with those expected")] = "in_order"
    forbidden: Annotated[Sequence[ExpectedCall | Mapping[str, Any] | str], Key("calls that must not be made")] = ()

    name: ClassVar[str] = "trajectory"
    needs_one_of: ClassVar[tuple[str, ...]] = ("expected", "forbidden")

    def __post_init__(self) -> None:
        choice("trajectory.mode", self.mode, _MODE_NAMES)
        for part, counted in (("expected", True), ("forbidden", False)):
            entries = _checked_entries(f"trajectory.{part}", getattr(self, part), counted=counted)
            set_field(self, part, entries)

    @property
    def asserts_nothing(self) -> bool:
        return not self.expected and not self.forbidden and self.mode not in _WITHOUT_OTHERS

    async def evaluate(self, ctx: Context) -> EvalResult:
        if self.asserts_nothing:
            return EvalResult(passed=True, reasoning=f"Trajectory matched ({self.mode}): nothing was expected")
        calls = ctx.seen_calls
        unreadable = self._unreadable_call(calls)
        if unreadable is not None and unreadable.arguments is None:
            return arguments_not_recorded("trajectory", tool=unreadable.name)
        if unreadable is not None:
            made = f"Tool {unreadable.name!r} was called with malformed arguments"
            return failed("malformed_call", f"{made}: expected a mapping, got {shown(unreadable.arguments)}")
        comparison = compare_calls(self, calls)
        match = comparison.match
        if not ctx.knows_all_calls and self._others_decide(match, ctx):
            return calls_not_known("trajectory", ctx)
        if match.matched:
            doubtful = self._call_in_doubt(calls)
            if doubtful is not None:
                return secret_in_arguments("trajectory", ctx, tool=doubtful)
            return EvalResult(passed=True, reasoning=f"Trajectory matched ({self.mode})", trajectory=match)
        checks = tuple(
            Check(name=field, passed=False, detail=", ".join(getattr(match, field)))
            for field in ("missing_calls", "extra_calls", "ordering_issues", "forbidden_calls")
            if getattr(match, field)
        )
        return EvalResult(passed=False, reasoning=_reasons(comparison), checks=checks, trajectory=match)

    def _others_decide(self, match: TrajectoryMatch, ctx: Context) -> bool:
        """Whether unrecorded calls could change the result. Recorded calls that are not allowed fail anyway."""
        entries = [entry_of(each) for each in self.expected]
        if match.matched:
            return self.mode in _WITHOUT_OTHERS or bool(self.forbidden) or any(entry.capped for entry in entries)
        if match.forbidden_calls or match.extra_calls:
            return False
        sure = [all(is_surely_absent(each.name, ctx) for each in entry.alternatives) for entry in entries]
        if match.missing_calls:
            return not any(sure[place] for place, entry in enumerate(entries) if entry.label in match.missing_calls)
        # The missing calls may have been made later. Other modes report only the order of recorded calls.
        return self.mode == "in_order" and not all(sure)

    def _unreadable_call(self, calls: Sequence[ToolCall]) -> ToolCall | None:
        """The first call with arguments that an entry needs and that were not recorded or are malformed.

        No entry accepts malformed arguments. They matter only for entries that forbid or limit calls.
        """
        asked: set[str] = set()
        limited: set[str] = set()
        for part, entries in ((asked, self.expected), (limited, self.forbidden)):
            for entry in map(entry_of, entries):
                names = {each.name for each in entry.alternatives if each.args is not None}
                part |= names
                if entry.capped:
                    limited |= names
        for call in calls if asked or limited else ():
            if call.args is None and (call.name in limited or (call.arguments is None and call.name in asked)):
                return call
        return None

    def _call_in_doubt(self, calls: Sequence[ToolCall]) -> str | None:
        """The name of a call whose match with an entry depends on a redacted secret.

        A call that does not match counts only for entries that forbid or limit calls.
        """
        redacted = [call for call in calls if holds_redaction(call.args)]
        for entries, forbidden in ((self.expected, False), (self.forbidden, True)):
            for entry in map(entry_of, entries if redacted else ()):
                counts = forbidden or entry.capped
                for call in redacted:
                    if any(
                        (counts or each.accepts(call)) and each.accepts_surely(call) is None
                        for each in entry.alternatives
                    ):
                        return call.name
        return None


def _checked_entries(where: str, entries: Any, *, counted: bool) -> tuple[ExpectedCall, ...]:
    if not isinstance(entries, (list, tuple)):
        raise UsageError(f"{where}: expected a list of calls, got {shown(entries)}.")
    return tuple(expected_call(f"{where}[{index}]", entry, counted=counted) for index, entry in enumerate(entries))


def _reasons(comparison: "Comparison") -> str:
    match = comparison.match
    lines = []
    if match.missing_calls:
        lines.append(f"Missing tool calls: {_names(match.missing_calls)}")
    if match.extra_calls:
        lines.append(f"Extra tool calls: {_names(match.extra_calls)}")
    if match.forbidden_calls:
        lines.append(f"Forbidden tool calls: {_names(match.forbidden_calls)}")
    if match.ordering_issues:
        lines.append(f"Ordering: {'; '.join(match.ordering_issues)}")
    if comparison.arguments:
        lines.append(f"Arguments differ: {'; '.join(comparison.arguments[:_MOST_NAMES])}")
    lines.append(f"Agent called: [{_names(match.actual)}]")
    lines.append(f"Expected ({match.mode}): [{_names(match.expected)}]")
    return "\n".join(lines)


def _names(names: Sequence[str]) -> str:
    more = f", … {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


_MOST_ISSUES = 50


class Comparison(NamedTuple):
    """A match, and the differences in arguments."""

    match: TrajectoryMatch
    arguments: tuple[str, ...] = ()
    """One text for each wrong argument of a call with the right name."""


class _Findings(NamedTuple):
    """The result of one mode."""

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


def compare_calls(trajectory: "Trajectory", calls: Sequence[ToolCall]) -> Comparison:
    """The match, with a diff if the calls do not match, and the differences in arguments."""
    entries = [entry_of(expected) for expected in trajectory.expected]
    findings = _MODES[trajectory.mode](entries, calls)
    forbidden, hits = broken_rules(trajectory.forbidden, calls)
    match = TrajectoryMatch(
        mode=trajectory.mode,
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
    done, position = furthest_position(entries, calls)
    if done == len(entries) and position == len(calls):
        return _Findings()
    by_name = [
        entry._replace(alternatives=tuple(Alternative(each.name, None, False) for each in entry.alternatives))
        for entry in entries
    ]
    names = Assignment(by_name, calls, required=[True] * len(calls))
    labels = [entry.label for entry in entries]
    missing = sorted(_missing(by_name, names), key=labels.index)
    extra = _grouped(calls, names.unplaced)
    if all(entry.low == entry.high == 1 for entry in entries):
        ordering = [
            text
            for index, (entry, call) in enumerate(zip(entries, calls, strict=False))
            if (text := _position_issue(index, entry, call))
        ]
    else:
        ordering = _furthest_issue(entries, calls, done, position)
    if not (missing or extra or ordering):
        ordering = ["The calls are not in the expected order"]
    rows = align(entries, calls)
    surplus = frozenset(call for entry, call in rows if entry is None and call is not None)
    ordering = _shorten_issues(ordering)
    return _Findings(missing=missing, extra=extra, ordering=ordering, entries=entries, rows=rows, surplus=surplus)


def _position_issue(index: int, entry: Entry, call: ToolCall) -> str | None:
    if entry.accepts(call):
        return None
    why = entry.differences(call)
    if why:
        return f"Position {index} ({call.name}): {'; '.join(why)}"
    return f'Position {index}: expected "{entry.label}", got "{call.name}"'


def _furthest_issue(entries: Sequence[Entry], calls: Sequence[ToolCall], done: int, position: int) -> list[str]:
    """The first position at which no entry accepts the call."""
    if position >= len(calls):
        return []
    if done == len(entries):
        return [f'Position {position}: expected no further call, got "{calls[position].name}"']
    issue = _position_issue(position, entries[done], calls[position])
    return [issue] if issue else []


def _unordered(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> _Findings:
    return _assigned(entries, calls, required=[True] * len(calls))


def _contains(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> _Findings:
    return _assigned(entries, calls, required=_counted(entries, calls))


def _assigned(entries: Sequence[Entry], calls: Sequence[ToolCall], *, required: Sequence[bool]) -> _Findings:
    """The findings if the order does not count."""
    found = Assignment(entries, calls, required=required)
    return _Findings(
        missing=_missing(entries, found),
        extra=[calls[index].name for index in found.unplaced],
        other=[call.name for index, call in enumerate(calls) if found.owners[index] is None and not required[index]],
        entries=entries,
        rows=_free_rows(found),
        surplus=frozenset(found.unplaced),
    )


def _in_order(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> _Findings:
    free = _contains(entries, calls)
    if free.matched and follows_in_order(entries, calls, _counted(entries, calls)):
        return _Findings(other=free.other)
    rows = align(entries, calls)
    ordering = _shorten_issues(_order_issues(entries, rows, free.missing))
    if free.matched and not ordering:
        ordering = ["The calls are not in the expected order"]
    return free._replace(ordering=ordering, entries=entries, rows=rows)


def _order_issues(entries: Sequence[Entry], rows: Sequence[Row], missing: Sequence[str]) -> list[str]:
    """One text for each entry whose call was made in the wrong order."""
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
    allowed = [entry._replace(low=0, high=entry.high if entry.capped else None) for entry in entries]
    found = _unordered(allowed, calls)
    names = {each.name for entry in allowed for each in entry.alternatives}
    extra, ordering = [], []
    for call in (calls[index] for index in sorted(found.surplus)):
        if call.name in names and not any(entry.accepts(call) for entry in allowed):
            ordering.append(f'Tool "{call.name}": args {arguments_as_json(call)} did not match any expected args')
        else:
            extra.append(call.name)
    return found._replace(extra=extra, ordering=_shorten_issues(ordering))


_MODES = {"strict": _strict, "unordered": _unordered, "contains": _contains, "in_order": _in_order, "within": _within}


def _counted(entries: Sequence[Entry], calls: Sequence[ToolCall]) -> list[bool]:
    """By call, whether it counts for an entry that limits the number of its calls."""
    capped = [entry for entry in entries if entry.capped]
    return [any(entry.accepts(call) for entry in capped) for call in calls]


def _missing(entries: Sequence[Entry], found: Assignment) -> list[str]:
    return [entry.label for entry, lacking in zip(entries, found.missing, strict=True) for _ in range(lacking)]


def _free_rows(found: Assignment) -> list[Row]:
    lacking: list[Row] = [(entry, None) for entry, lacks in enumerate(found.missing) for _ in range(lacks)]
    return [*((owner, call) for call, owner in enumerate(found.owners)), *lacking]


def _grouped(calls: Sequence[ToolCall], chosen: Iterable[int]) -> list[str]:
    """The names of the chosen calls, equal names together, in order of first appearance among all calls."""
    counts = dict.fromkeys((call.name for call in calls), 0)
    for index in chosen:
        counts[calls[index].name] += 1
    return [name for name, count in counts.items() for _ in range(count)]


def _shorten_issues(issues: list[str]) -> list[str]:
    if len(issues) <= _MOST_ISSUES:
        return issues
    return [*issues[:_MOST_ISSUES], f"and {len(issues) - _MOST_ISSUES} more"]


def broken_rules(rules: Sequence[Any], calls: Sequence[ToolCall]) -> tuple[tuple[str, ...], frozenset[int]]:
    """One text for each broken rule, and the indices of the calls that broke a rule."""
    texts: list[str] = []
    hits: set[int] = set()
    for rule in rules:
        alternatives = entry_of(rule).alternatives
        broken = [index for index, call in enumerate(calls) if _breaks(alternatives, call)]
        if broken:
            hits.update(broken)
            texts.append(_broken_in_words(rule, calls[broken[0]]))
    return tuple(texts), frozenset(hits)


def _breaks(rule: Sequence[Alternative], call: ToolCall) -> bool:
    """Whether the rule forbids the call. A call with unknown arguments breaks a rule about arguments."""
    return any(
        each.name == call.name and (each.args is None or call.args is None or each.accepts(call)) for each in rule
    )


def _broken_in_words(rule: ExpectedCall, call: ToolCall) -> str:
    named = next((each for each in rule.any_of if each.name == call.name), rule)
    about_arguments = named.arg_match != "ignore" and (named.arg_match or named.args is not None)
    return f"{call.name}({arguments_as_json(call)})" if about_arguments else call.name


def arguments_as_json(call: ToolCall) -> str:
    """The arguments of a call as compact JSON."""
    return json.dumps(call.arguments, separators=(",", ":"), ensure_ascii=False, default=repr)


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
    return _shorten_diff(lines), tuple(dict.fromkeys(notes))


def _call_line(call: ToolCall, index: int, *, taken: bool, forbidden: frozenset[int], surplus: frozenset[int]) -> str:
    words = call_in_words(call)
    if index in forbidden:
        return f"! {words}"
    if taken:
        return f"  {words}"
    return f"+ {words}" if index in surplus else f"  {words} (not asked for, allowed)"


def _closest(entry: Entry, unmatched: dict[str, list[ToolCall]]) -> list[str]:
    """How the first unmatched call with the right name differs from the entry."""
    for each in entry.alternatives:
        calls = unmatched.get(each.name, ()) if each.args is not None else ()
        for place, call in enumerate(calls[:_MOST_COMPARED]):
            differences = entry.differences(call)
            if differences:
                del unmatched[each.name][place]
                return differences
    return []


def _shorten_diff(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines without long unchanged parts, cut to `_MOST_LINES`."""
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
