"""The first divergence of a failed conversation: from a passed one, from its trajectory, or found in itself.

The divergence from gold calls is in `gold_divergence`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from seatrial.model.causes import Divergence, DivergenceKind
from seatrial.model.conversation import ErrorInfo, ErrorKind, ToolCall, Transcript
from seatrial.model.results import TrajectoryMatch
from seatrial.model.run import Trial

from .alignment import Step, steps_of
from .gold_divergence import diverge_from_gold
from .reply_differences import compare_replies, find_origin, leaves

LOOP_LENGTH: Final = 3
"""A call with equal arguments that is made so often, and more often than in the passed trial, is a loop."""
_SHOWN: Final = 80
_MISSING: Final = "nothing"

FreeArguments = frozenset[tuple[str, int, str]]
"""Arguments that differ between passed trials: (tool, its how-manieth call, path). They do not cause a failure."""


def find_free_arguments(passed: Sequence[Trial]) -> FreeArguments:
    """The arguments that passed trials fill differently, such as the text of a search."""
    seen: dict[tuple[str, int, str], set[str]] = {}
    for trial in passed:
        for place, call in _numbered(steps_of(trial.transcript)):
            for path, value in leaves(call.arguments):
                seen.setdefault((*place, path), set()).add(repr(value))
    return frozenset(place for place, values in seen.items() if len(values) > 1)


def _numbered(steps: Sequence[Step]) -> Iterator[tuple[tuple[str, int], ToolCall]]:
    """Each call with its tool and the number of earlier calls of that tool."""
    counts: Counter[str] = Counter()
    for _, call in steps:
        yield (call.name, counts[call.name]), call
        counts[call.name] += 1


class _Pair:
    """A failed and a passed conversation, with the number of equal calls at their beginning."""

    def __init__(self, failed: Transcript, passed: Transcript, free: FreeArguments) -> None:
        self.failed, self.passed, self._free = failed, passed, free
        self.bad, self.good = steps_of(failed), steps_of(passed)
        self._bad_places = [place for place, _ in _numbered(self.bad)]
        self.agreed = self._count_equal()

    def _count_equal(self) -> int:
        agreed = 0
        for (good_turn, good), (bad_turn, bad) in zip(self.good, self.bad, strict=False):
            if good_turn != bad_turn and self._same_user(min(good_turn, bad_turn)):
                break
            if (good.error is None) != (bad.error is None) or not self.equal(good, bad, agreed):
                break
            agreed += 1
        return agreed

    def _same_user(self, turn: int) -> bool:
        sides = (self.failed.turns, self.passed.turns)
        if any(turn >= len(turns) for turns in sides):
            return False
        return sides[0][turn].user == sides[1][turn].user

    def equal(self, good: ToolCall, bad: ToolCall, at: int) -> bool:
        return good.name == bad.name and not any(self.differences(good, bad, at))

    def differences(self, good: ToolCall, bad: ToolCall, at: int) -> Iterator[tuple[str, Any, Any]]:
        """(path, passed value, failed value) of each argument that differs and is not free."""
        one, other = dict(leaves(good.arguments)), dict(leaves(bad.arguments))
        for path in dict.fromkeys((*one, *other)):
            if (*self._bad_places[at], path) in self._free:
                continue
            values = one.get(path, _MISSING), other.get(path, _MISSING)
            if values[0] != values[1] or isinstance(values[0], bool) != isinstance(values[1], bool):
                yield path, *values

    @property
    def closeness(self) -> tuple[int, int, int]:
        """How alike they are: equal calls at the beginning, tools in common, similar length."""
        names = Counter(call.name for _, call in self.good) & Counter(call.name for _, call in self.bad)
        return self.agreed, names.total(), -abs(len(self.good) - len(self.bad))

    def next_good(self) -> ToolCall | None:
        return self.good[self.agreed][1] if self.agreed < len(self.good) else None

    def next_bad(self) -> ToolCall | None:
        return self.bad[self.agreed][1] if self.agreed < len(self.bad) else None

    def stopped_in(self) -> int | None:
        """The turn that the failed agent ended without the passed trial's next call, which it never makes."""
        if self.agreed >= min(len(self.good), len(self.bad)):
            return None
        (turn, good), (later, _) = self.good[self.agreed], self.bad[self.agreed]
        made_later = any(call.name == good.name for _, call in self.bad[self.agreed :])
        return turn if turn < later and self._same_user(turn) and not made_later else None

    def turn(self) -> int:
        """The turn of the first different step in the failed conversation."""
        if self.agreed < len(self.bad):
            return self.bad[self.agreed][0]
        last = len(self.failed.turns) - 1
        if self.agreed < len(self.good):
            return min(self.good[self.agreed][0], max(last, 0))
        return max(last, 0)


def diverge(failed: Trial, passed: Sequence[tuple[str, Trial]], *, run: str, symptom: str = "") -> Divergence:
    """Where the failed trial of the run first differs from the nearest passed one. Each passed trial has its run."""
    free = find_free_arguments([trial for _, trial in passed])
    pairs = [(run, trial, _Pair(failed.transcript, trial.transcript, free)) for run, trial in passed]
    passed_run, nearest, pair = max(pairs, key=lambda found: found[2].closeness)
    found = _compare_calls(pair, failed) or compare_replies(failed, nearest, symptom=symptom)
    against = nearest.id if passed_run == run else f"{nearest.id} of run {passed_run}"
    return replace(found, against=against, passed_run=passed_run, passed_trial=nearest.index)


def _compare_calls(pair: _Pair, failed: Trial) -> Divergence | None:
    """The first different call; None if all calls are the same and the trial has no error."""
    good, bad = pair.next_good(), pair.next_bad()
    if bad is None:
        return _ended(pair, failed, good)
    looped = _find_loop(pair)
    if looped is not None:
        return looped
    if good is None:
        return _at(pair, DivergenceKind.EXTRA_CALL, bad.name, f"{bad.name} was called, which the passed trial did not")
    if good.name == bad.name:
        return _same_tool(pair, good, bad)
    stopped = pair.stopped_in()
    if stopped is not None:
        return replace(_stopped(pair, good, " in this turn"), turn=stopped)
    return _other_tool(pair, good, bad)


def _at(pair: _Pair, kind: DivergenceKind, tool: str | None, text: str) -> Divergence:
    return Divergence(kind=kind, text=text, turn=pair.turn(), step=pair.agreed, tool=tool)


def _ended(pair: _Pair, failed: Trial, good: ToolCall | None) -> Divergence | None:
    """The failed conversation has no further call."""
    error = failed.transcript.error
    if error is not None:
        return describe_error(error, turn=pair.turn(), steps=pair.bad)
    if good is None:
        return None
    before = pair.bad[pair.agreed - 1][1] if pair.agreed else None
    if before is not None and before.error is not None:
        return _ignored(pair, before, f"the passed trial called {good.name} next")
    return _stopped(pair, good)


def _stopped(pair: _Pair, good: ToolCall, until: str = "") -> Divergence:
    text = f"the agent made no further call{until}; the passed trial went on with {good.name}"
    return _at(pair, DivergenceKind.STOPPED, good.name, text)


def _ignored(pair: _Pair, call: ToolCall, then: str) -> Divergence:
    text = f"{call.name} failed ({_cut(call.error)}), and the agent went on; {then}"
    return _at(pair, DivergenceKind.IGNORED_ERROR, call.name, text)


def _find_loop(pair: _Pair) -> Divergence | None:
    """The call at the divergence, if the agent repeats it again and again."""
    _, call = pair.bad[pair.agreed]
    equal = [at for at, (_, other) in enumerate(pair.bad) if other.name == call.name and _same_arguments(other, call)]
    in_passed = sum(other.name == call.name and _same_arguments(other, call) for _, other in pair.good)
    if len(equal) < LOOP_LENGTH or len(equal) <= in_passed + 1 or equal[0] == pair.agreed:
        return None
    text = f"{call.name} was called {len(equal)} times with the same arguments, {in_passed} in the passed trial"
    return _at(pair, DivergenceKind.LOOP, call.name, text)


def _same_arguments(one: ToolCall, other: ToolCall) -> bool:
    return bool(one.arguments == other.arguments)


def _same_tool(pair: _Pair, good: ToolCall, bad: ToolCall) -> Divergence:
    differences = list(pair.differences(good, bad, pair.agreed))
    if differences:
        return _other_arguments(pair, bad, differences)
    if bad.error is not None and good.error is None:
        later = [call for _, call in pair.bad[pair.agreed + 1 :]]
        if not any(call.name == bad.name for call in later):
            return _ignored(pair, bad, "it went well in the passed trial")
        text = f"{bad.name} failed ({_cut(bad.error)}); it went well in the passed trial"
        return _at(pair, DivergenceKind.TOOL_ERROR, bad.name, text)
    if good.error is not None and bad.error is None:
        text = f"{bad.name} went well; it failed in the passed trial ({_cut(good.error)})"
        return _at(pair, DivergenceKind.TOOL_ERROR, bad.name, text)
    turns = pair.bad[pair.agreed][0] + 1, pair.good[pair.agreed][0] + 1
    text = f"{bad.name} was called in turn {turns[0]}; the passed trial called it in turn {turns[1]}"
    return _at(pair, DivergenceKind.ORDER, bad.name, text)


def _other_arguments(pair: _Pair, bad: ToolCall, differences: Sequence[tuple[str, Any, Any]]) -> Divergence:
    turn = pair.turn()
    shown = "; ".join(f"{path or 'arguments'} is {_show(b)}, not {_show(a)}" for path, a, b in differences[:3])
    path, right, _ = differences[0]
    origin = find_origin(right, pair.failed, before_turn=turn, before_step=pair.agreed)
    said_earlier = origin is not None and origin.said_in is not None and origin.said_in < turn
    kind = DivergenceKind.FORGOTTEN if said_earlier else DivergenceKind.ARGUMENTS
    source = f" ({_show(right)} is from {origin.text})" if origin is not None else ""
    return _at(pair, kind, f"{bad.name}.{path}" if path else bad.name, f"{bad.name}: {shown}{source}")


def _other_tool(pair: _Pair, good: ToolCall, bad: ToolCall) -> Divergence:
    before = pair.bad[pair.agreed - 1][1] if pair.agreed else None
    if before is not None and before.error is not None and before.name == good.name:
        return _ignored(pair, before, f"the passed trial called {good.name} again")
    rest_good = Counter(call.name for _, call in pair.good[pair.agreed :])
    rest_bad = Counter(call.name for _, call in pair.bad[pair.agreed :])
    comes_later, was_expected = rest_bad[good.name] > 0, rest_good[bad.name] > 0
    if comes_later and was_expected:
        text = f"{bad.name} was called before {good.name}; the passed trial called {good.name} first"
        return _at(pair, DivergenceKind.ORDER, bad.name, text)
    if was_expected:
        text = f"{good.name} was not called before {bad.name}; the passed trial called it"
        return _at(pair, DivergenceKind.MISSING_CALL, good.name, text)
    if comes_later:
        text = f"{bad.name} was called, which the passed trial did not"
        return _at(pair, DivergenceKind.EXTRA_CALL, bad.name, text)
    return _at(pair, DivergenceKind.WRONG_TOOL, bad.name, f"{bad.name} was called instead of {good.name}")


def describe_error(error: ErrorInfo, *, turn: int | None, steps: Sequence[Step]) -> Divergence:
    """The error that ended a trial, and the call before it."""
    if error.kind not in _ERROR_WORDS:
        return Divergence(kind=DivergenceKind.ERROR, text="", turn=error.turn)
    kind, what = _ERROR_WORDS[error.kind]
    if kind is DivergenceKind.EXCEPTION and (error.hint or "").startswith(RAISED_AT):
        what = "the agent raised an exception"
    before = f" after {steps[-1][1].name}" if steps else " before any call"
    at = error.turn if error.turn is not None else turn
    tool = steps[-1][1].name if steps else None
    return Divergence(kind=kind, text=what + before, turn=at, step=len(steps), tool=tool)


RAISED_AT: Final = "raised at "
"""How the hint of an exception begins that the user's own code raised."""
_ERROR_WORDS = {
    ErrorKind.LIMIT: (DivergenceKind.TIMEOUT, "a limit was reached"),
    ErrorKind.AGENT: (DivergenceKind.EXCEPTION, "the agent ended with an error"),
    ErrorKind.TOOL: (DivergenceKind.ERROR, "a call could not be answered"),
}


def diverge_alone(failed: Trial) -> Divergence:
    """What the failed trial itself shows, if no trial passed.

    Its error, its gold calls, its trajectory, a loop, an ignored error.
    """
    transcript = failed.transcript
    steps = steps_of(transcript)
    error = transcript.error or failed.error
    if error is not None:
        return describe_error(error, turn=max(len(transcript.turns) - 1, 0), steps=steps)
    gold = next((result.gold_calls for result in failed.results if result.gold_calls is not None), None)
    found = diverge_from_gold(gold, transcript) if gold is not None else None
    if found is not None:
        return found
    match = next((r.trajectory for r in failed.results if r.trajectory is not None and not r.trajectory.matched), None)
    if match is not None:
        return _from_trajectory(match, steps)
    return _alone_loop(steps) or _alone_error(steps) or _failing_turn(failed)


def _from_trajectory(match: TrajectoryMatch, steps: Sequence[Step]) -> Divergence:
    """The first line of the diff that is not equal."""
    at = 0
    for place, line in enumerate(match.diff):
        mark, what = line[:2], line[2:]
        if mark == "  ":
            at += 1
            continue
        tool = what.split("(")[0].strip()
        kind, text = _TRAJECTORY_WORDS.get(mark, _TRAJECTORY_WORDS["+ "])
        made = next((step for step in range(at, len(steps)) if steps[step][1].name == tool), None)
        if mark == "- " and made is not None and (made == at or tool in match.missing_calls):
            below = match.diff[place + 1] if place + 1 < len(match.diff) else ""
            why = below.strip() if below.startswith("    ") else f"it should be {what}"
            kind, at, text = DivergenceKind.ARGUMENTS, made, f"{tool} was called with other arguments: {why}"
        elif mark == "- " and made is not None:
            kind, text = DivergenceKind.ORDER, "{} was called later than expected"
        turn = steps[min(at, len(steps) - 1)][0] if steps else 0
        text = text.replace("{}", what)
        return Divergence(kind=kind, text=text, turn=turn, step=at, tool=tool, against="the trajectory")
    reasons = (*match.ordering_issues, *match.missing_calls, *match.extra_calls, *match.forbidden_calls)
    text = f"the calls do not match: {'; '.join(reasons)}"
    return Divergence(kind=DivergenceKind.ORDER, text=text, turn=0, step=0, against="the trajectory")


_TRAJECTORY_WORDS = {
    "- ": (DivergenceKind.MISSING_CALL, "{} was not called here"),
    "+ ": (DivergenceKind.EXTRA_CALL, "{} was called, which is not expected"),
    "! ": (DivergenceKind.EXTRA_CALL, "{} was called, which is forbidden"),
}


def _alone_loop(steps: Sequence[Step]) -> Divergence | None:
    for at, (turn, call) in enumerate(steps):
        equal = [
            one for one, (_, other) in enumerate(steps) if other.name == call.name and _same_arguments(other, call)
        ]
        if len(equal) >= LOOP_LENGTH and equal[1] == at:
            text = f"{call.name} was called {len(equal)} times with the same arguments"
            return Divergence(kind=DivergenceKind.LOOP, text=text, turn=turn, step=at, tool=call.name)
    return None


def _alone_error(steps: Sequence[Step]) -> Divergence | None:
    for at, (turn, call) in enumerate(steps):
        retried = any(later.name == call.name for _, later in steps[at + 1 :])
        if call.error is not None and not retried:
            text = f"{call.name} failed ({_cut(call.error)}), and the agent went on"
            return Divergence(kind=DivergenceKind.IGNORED_ERROR, text=text, turn=turn, step=at, tool=call.name)
    return None


def _failing_turn(failed: Trial) -> Divergence:
    turns = [result.turn for result in failed.results if not result.passed and result.turn is not None]
    last = len(failed.transcript.turns) - 1
    turn = turns[0] if turns else last if last >= 0 else None
    text = "no trial of this scenario passed, so there is nothing to compare with"
    return Divergence(kind=DivergenceKind.UNKNOWN, text=text, turn=turn)


def _show(value: Any) -> str:
    return _MISSING if value is _MISSING else _cut(repr(value))


def _cut(text: str | None, most: int = _SHOWN) -> str:
    text = text or ""
    return text if len(text) <= most else f"{text[:most]}…"
