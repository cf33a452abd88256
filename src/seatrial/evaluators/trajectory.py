"""The evaluator of a trajectory: which tools were called, with what, how often and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult, TrajectoryMatch
from seatrial.model.scenario import ExpectedCall, TrajectoryMode, TrajectorySpec

from .expected_calls import entry_of, expected_call
from .matchers import shown
from .missing_evidence import arguments_not_recorded, calls_not_known, is_surely_absent, malformed_call
from .redacted import holds_redaction, secret_in_arguments
from .trajectory_match import Comparison, compare_calls
from .validation import choice

_MODES = ("strict", "unordered", "contains", "in_order", "within")
_WITHOUT_OTHERS = ("strict", "unordered", "within")
"""Modes that allow no other calls."""
_MOST_NAMES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Passes when the calls follow the trajectory in its mode and break none of its rules.

    strict: the same calls in the same order; unordered: the same calls; contains: at least these; in_order: at least
    these, in this order; within: no others. Entries are ExpectedCalls, mappings as in files, or plain names.
    """

    mode: TrajectoryMode = "in_order"
    expected: Sequence[ExpectedCall | Any] = ()
    forbidden: Sequence[ExpectedCall | Any] = ()

    name: ClassVar[str] = "trajectory"

    def __post_init__(self) -> None:
        choice("trajectory.mode", self.mode, _MODES)
        for part, counted in (("expected", True), ("forbidden", False)):
            entries = _checked_entries(f"trajectory.{part}", getattr(self, part), counted=counted)
            object.__setattr__(self, part, entries)

    async def evaluate(self, ctx: Context) -> EvalResult:
        if not self.expected and not self.forbidden and self.mode in ("contains", "in_order"):
            return EvalResult(passed=True, reasoning=f"Trajectory matched ({self.mode}): nothing was expected")
        calls = ctx.seen_calls
        unreadable = self._unreadable_call(calls)
        if unreadable is not None and unreadable.arguments is None:
            return arguments_not_recorded("trajectory", tool=unreadable.name)
        if unreadable is not None:
            return malformed_call(unreadable)
        spec = TrajectorySpec(mode=self.mode, expected=self.expected, forbidden=self.forbidden)
        comparison = compare_calls(spec, calls)
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
        """Whether calls that nobody saw could decide otherwise: a forbidden one, one too many, or one that is lacking.

        What was seen and is not allowed fails in any case.
        """
        entries = [entry_of(each) for each in self.expected]
        if match.matched:
            return self.mode in _WITHOUT_OTHERS or bool(self.forbidden) or any(entry.capped for entry in entries)
        if match.forbidden_calls or match.extra_calls:
            return False
        sure = [all(is_surely_absent(each.name, ctx) for each in entry.alternatives) for entry in entries]
        if match.missing_calls:
            return not any(sure[place] for place, entry in enumerate(entries) if entry.label in match.missing_calls)
        # Out of order: the calls that are due might have been made later. Other modes say so of calls that were seen.
        return self.mode == "in_order" and not all(sure)

    def _unreadable_call(self, calls: Sequence[ToolCall]) -> ToolCall | None:
        """A call whose arguments an entry asks for, but which were not recorded or are malformed.

        No entry accepts a malformed call, so it matters only where accepting it would count against the agent.
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
        """The name of a call for which it depends on a secret whether an entry accepts it.

        That an entry does not accept a call tells only where accepting it would count against the agent.
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


def _reasons(comparison: Comparison) -> str:
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
