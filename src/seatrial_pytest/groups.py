"""Groups of `[tool.seatrial.groups]`: gates over the tests of a session, by tag or marker.

A group can fail a session that pytest would pass, and pass one that pytest would fail. It absorbs only failures: never
an error, a failed setup, a file that could not be read, or an early stop.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pytest

from .session_plugin import ItemResult

_KEYS = ("tags", "threshold", "must_pass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    name: str
    tags: tuple[str, ...] = ()
    threshold: float = 1.0
    must_pass: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """The verdict of a group."""

    group: Group
    passed: int
    total: int
    problems: tuple[str, ...] = ()
    """The reasons of a failed group."""
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    """Tests of the group that failed."""

    @property
    def holds(self) -> bool:
        return not self.problems

    def lines(self) -> Iterator[str]:
        share = f"{self.passed}/{self.total} passed, {self.group.threshold:g} of them must"
        yield f"group {self.group.name}: {share}: {'PASSED' if self.holds else 'FAILED'}"
        yield from (f"  {problem}" for problem in self.problems)
        yield from (f"  note: {note}" for note in self.notes)
        yield from (f"  failed: {nodeid}" for nodeid in self.failures)


def read_groups(raw: Mapping[str, Any]) -> tuple[Group, ...]:
    """The groups of the settings. Raises pytest.UsageError with all problems."""
    problems = [
        f"[tool.seatrial.groups.{name}] {problem}" for name, table in raw.items() for problem in _check_table(table)
    ]
    if problems:
        raise pytest.UsageError("\n".join(problems))
    return tuple(
        Group(
            name=name,
            tags=tuple(table.get("tags", ())),
            threshold=float(table.get("threshold", 1.0)),
            must_pass=tuple(table.get("must_pass", ())),
        )
        for name, table in raw.items()
    )


def _check_table(table: Any) -> Iterator[str]:
    if not isinstance(table, Mapping):
        yield f"must be a table with {', '.join(_KEYS)}, got {table!r}"
        return
    for key in table:
        if key not in _KEYS:
            close = get_close_matches(key, _KEYS, n=1)
            yield f"unknown key {key!r}. " + (f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(_KEYS)}.")
    threshold = table.get("threshold", 1.0)
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 < threshold <= 1:
        yield f"threshold: expected a number above 0 and of at most 1, got {threshold!r}"
    for key in ("tags", "must_pass"):
        texts = table.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            yield f"{key}: expected a list of texts, got {texts!r}"
    if not table.get("tags") and not table.get("must_pass"):
        yield "needs 'tags' or 'must_pass', else it gates nothing"


def decide_group(group: Group, items: Sequence[ItemResult], *, partial: bool) -> GroupVerdict:
    """The verdict. `partial`: only some tests were selected, so a missing member is not a problem."""
    from seatrial.verdicts.rates import reaches

    members = [item for item in items if not item.marks.isdisjoint(group.tags)]
    ran = [item for item in members if item.ending not in ("skipped", "xfailed")]
    passed = sum(item.ending == "passed" for item in ran)
    problems: list[str] = []
    notes: list[str] = []
    if ran and not reaches(passed, len(ran), group.threshold):
        problems.append(f"{passed} of {len(ran)} passed (threshold: {group.threshold:g})")
    if group.tags and not members:
        (notes if partial else problems).append(f"no test carries {' or '.join(map(repr, group.tags))}")
    elif group.tags and not ran:
        notes.append("all of its tests were skipped")
    for name in group.must_pass:
        for text, is_problem in _missed(name, items, partial=partial):
            (problems if is_problem else notes).append(text)
    return GroupVerdict(
        group=group,
        passed=passed,
        total=len(ran),
        problems=tuple(problems),
        notes=tuple(notes),
        failures=tuple(item.nodeid for item in ran if item.ending != "passed"),
    )


def _missed(name: str, items: Sequence[ItemResult], *, partial: bool) -> Iterator[tuple[str, bool]]:
    """(text, whether it fails the group) for a name of `must_pass`."""
    named = [item for item in items if name in item.names]
    if not named:
        yield f"must pass, but no such test ran: {name}", not partial
    for item in named:
        if item.ending in ("skipped", "xfailed"):
            yield f"must pass, was {item.ending}: {item.nodeid}", False
        elif item.ending != "passed":
            yield f"must pass, did not: {item.nodeid}", True
