"""A passing and a failing conversation, aligned, and their first difference."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from seatrial.model.comparison import AlignedStep, Alignment, DifferenceKind
from seatrial.model.conversation import ToolCall, Transcript
from seatrial.model.run import Trial

Step = tuple[int, ToolCall]
"""A tool call with the index of its turn."""

MOST_STEPS: Final = 400
"""The alignment of longer conversations is cut; their first difference is still found."""
_MOST_SHOWN: Final = 200
_NOTHING: Final = object()


def align_closest(passing: Sequence[tuple[str, Trial]], failing: Sequence[tuple[str, Trial]]) -> Alignment | None:
    """The alignment of the pair with the longest common beginning; None without recorded calls.

    Each trial comes with its label.
    """
    pairs = [
        (_agreement(steps_of(good.transcript), steps_of(bad.transcript)), (good_name, good), (bad_name, bad))
        for good_name, good in passing
        for bad_name, bad in failing
        if good.transcript.tool_calls is not None and bad.transcript.tool_calls is not None
    ]
    if not pairs:
        return None
    _, good, bad = max(pairs, key=lambda pair: pair[0])
    return align(good, bad)


def align(passing: tuple[str, Trial], failing: tuple[str, Trial]) -> Alignment:
    """The alignment of two conversations."""
    good, bad = steps_of(passing[1].transcript), steps_of(failing[1].transcript)
    agreed = _agreement(good, bad)
    parting, text = _describe(good, bad, agreed, passing[1].transcript, failing[1].transcript)
    return Alignment(
        key=failing[1].key,
        passing=passing[0],
        failing=failing[0],
        steps=tuple(_align_steps(good, bad)),
        parting=parting,
        step=None if parting is DifferenceKind.REPLY else agreed,
        text=text,
    )


def steps_of(transcript: Transcript) -> list[Step]:
    """The tool calls of a conversation, in order."""
    return [(turn.index, call) for turn in transcript.turns for call in turn.tool_calls or ()]


def argument_differences(passing: Any, failing: Any, *, at: str = "") -> Iterator[str]:
    """Each place where the arguments differ, with both values: `time: '10am' → '10pm'`."""
    if isinstance(passing, Mapping) and isinstance(failing, Mapping):
        for name in dict.fromkeys((*passing, *failing)):
            place = f"{at}.{name}" if at else str(name)
            yield from argument_differences(passing.get(name, _NOTHING), failing.get(name, _NOTHING), at=place)
    elif isinstance(passing, list | tuple) and isinstance(failing, list | tuple):
        for index in range(max(len(passing), len(failing))):
            sides = (side[index] if index < len(side) else _NOTHING for side in (passing, failing))
            yield from argument_differences(*sides, at=f"{at}[{index}]")
    elif not _same(passing, failing):
        yield f"{at or 'arguments'}: {_shown(passing)} → {_shown(failing)}"


def _same(one: Any, other: Any) -> bool:
    """Equality as in expectations: numbers numerically, but a bool is never a number."""
    if one is _NOTHING or other is _NOTHING or isinstance(one, bool) != isinstance(other, bool):
        return one is other
    return bool(one == other)


def _agreement(good: Sequence[Step], bad: Sequence[Step]) -> int:
    """The number of equal steps at the beginning."""
    agreed = 0
    for (_, one), (_, other) in zip(good, bad, strict=False):
        if not _equal(one, other):
            break
        agreed += 1
    return agreed


def _equal(one: ToolCall, other: ToolCall) -> bool:
    if one.name != other.name or (one.error is None) != (other.error is None):
        return False
    return next(argument_differences(one.arguments, other.arguments), None) is None


def _describe(
    good: Sequence[Step], bad: Sequence[Step], agreed: int, passing: Transcript, failing: Transcript
) -> tuple[DifferenceKind, str]:
    turn, one = good[agreed] if agreed < len(good) else (None, None)
    other_turn, other = bad[agreed] if agreed < len(bad) else (None, None)
    if one is None and other is None:
        return DifferenceKind.REPLY, _reply_text(agreed, passing, failing)
    where = f"step {agreed + 1} (turn {1 + (other_turn if other_turn is not None else turn or 0)})"
    if one is None or other is None or one.name != other.name:
        return DifferenceKind.CALL, f"{where}: passing {_called(one)}, failing {_called(other)}"
    differences = list(islice(argument_differences(one.arguments, other.arguments), 4))
    if differences:
        return DifferenceKind.ARGUMENTS, f"{where}: {one.name} was called with {'; '.join(differences)}"
    ended = f"failed ({_cut(other.error)})" if other.error is not None else "went well"
    before = f"failed ({_cut(one.error)})" if one.error is not None else "went well"
    return DifferenceKind.ERROR, f"{where}: {one.name} {before} in the passing trial and {ended} in the failing one"


def _reply_text(agreed: int, passing: Transcript, failing: Transcript) -> str:
    calls = (
        f"the same {agreed} tool calls" if agreed > 1 else "the same tool call" if agreed else "no tool call in either"
    )
    if failing.error is not None:
        return f"{calls}; then the failing trial ended with: {_cut(failing.error.message)}"
    for one, other in zip(passing.turns, failing.turns, strict=False):
        if (one.reply or "") != (other.reply or ""):
            return f"{calls}; the replies differ from turn {other.index + 1} on"
    if len(passing.turns) != len(failing.turns):
        return f"{calls}; the passing trial has {len(passing.turns)} turns, the failing one {len(failing.turns)}"
    return f"{calls} and the same replies; they were judged differently"


def _called(call: ToolCall | None) -> str:
    return "called nothing more" if call is None else f"called {call.name}"


def _align_steps(good: Sequence[Step], bad: Sequence[Step]) -> Iterator[AlignedStep]:
    """The steps with equal names next to each other (longest common subsequence)."""
    good, bad = good[:MOST_STEPS], bad[:MOST_STEPS]
    lengths = _common_lengths([call.name for _, call in good], [call.name for _, call in bad])
    at, beside = 0, 0
    while at < len(good) or beside < len(bad):
        if at < len(good) and beside < len(bad) and good[at][1].name == bad[beside][1].name:
            one, other = good[at][1], bad[beside][1]
            differences = tuple(argument_differences(one.arguments, other.arguments))
            yield AlignedStep(turn=bad[beside][0], passing=one, failing=other, differences=differences)
            at, beside = at + 1, beside + 1
        elif beside == len(bad) or (at < len(good) and lengths[at + 1][beside] >= lengths[at][beside + 1]):
            yield AlignedStep(turn=good[at][0], passing=good[at][1], failing=None)
            at += 1
        else:
            yield AlignedStep(turn=bad[beside][0], passing=None, failing=bad[beside][1])
            beside += 1


def _common_lengths(left: Sequence[str], right: Sequence[str]) -> list[list[int]]:
    """The length of the longest common subsequence from each pair of positions on."""
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            same = left[i] == right[j]
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same else max(lengths[i + 1][j], lengths[i][j + 1])
    return lengths


def _shown(value: Any) -> str:
    return "nothing" if value is _NOTHING else _cut(repr(value))


def _cut(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
