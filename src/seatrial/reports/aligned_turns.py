"""Two conversations of one scenario, turn by turn: what is equal, and how the replies differ."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from seatrial.model.causes import Divergence
from seatrial.model.conversation import PlayedTurn, ToolCall
from seatrial.model.run import Trial
from seatrial.model.struct import Struct

ALIKE = 0.4
"""Replies that share less are shown without marks."""
LONGEST = 4_000
"""Characters of a reply that are compared word by word. Longer replies are shown whole."""


class Piece(Struct, frozen=True, kw_only=True):
    """A part of a reply: `same`, or only on this side (`other`)."""

    text: str
    same: bool


class CallPair(Struct, frozen=True, kw_only=True):
    left: ToolCall | None
    right: ToolCall | None

    @property
    def same(self) -> bool:
        return self.left is not None and self.left == self.right


class TurnPair(Struct, frozen=True, kw_only=True):
    """A turn in both conversations. A side is None where its conversation has ended."""

    index: int
    left: PlayedTurn | None
    right: PlayedTurn | None
    calls: tuple[CallPair, ...]
    left_reply: tuple[Piece, ...]
    right_reply: tuple[Piece, ...]

    @property
    def same_user(self) -> bool:
        return self.left is not None and self.right is not None and self.left.user == self.right.user

    @property
    def same_calls(self) -> bool:
        return all(pair.same for pair in self.calls)

    @property
    def same_reply(self) -> bool:
        return self.left is not None and self.right is not None and self.left.reply == self.right.reply

    @property
    def same(self) -> bool:
        return self.same_user and self.same_calls and self.same_reply


def align_turns(left: Trial | None, right: Trial | None) -> list[TurnPair]:
    """The turns of both conversations next to each other; None: there is no conversation on this side."""
    pairs = zip_longest(_turns(left), _turns(right))
    return [_pair(index, one, other) for index, (one, other) in enumerate(pairs)]


def find_marked(turns: Sequence[TurnPair], found: Divergence) -> tuple[int, int | None] | None:
    """The turn and the pair of calls of a divergence; None instead of the pair: its reply. The failed side is right."""
    if found.turn is None or found.turn >= len(turns):
        return None
    if found.step is None:
        return found.turn, None
    ours, theirs = (_nth_call(turns, found.step, side) for side in ("right", "left"))
    pairs = list(enumerate(turns[found.turn].calls))
    here = next((place for place, pair in pairs if ours is not None and pair.right is ours), None)
    there = next((place for place, pair in pairs if theirs is not None and pair.left is theirs), None)
    # A call that is missing stands only in the passed conversation, before the one that was made instead.
    return found.turn, min((place for place in (here, there) if place is not None), default=None)


def _nth_call(turns: Sequence[TurnPair], step: int, side: Literal["left", "right"]) -> ToolCall | None:
    calls = [call for pair in turns for call in _calls(pair.left if side == "left" else pair.right)]
    return calls[step] if step < len(calls) else None


def _turns(trial: Trial | None) -> tuple[PlayedTurn, ...]:
    # Not `if trial`: a trial that did not pass is false.
    return () if trial is None else trial.transcript.turns


def _pair(index: int, left: PlayedTurn | None, right: PlayedTurn | None) -> TurnPair:
    left_reply, right_reply = diff_words(_reply(left), _reply(right))
    calls = tuple(_pair_calls(_calls(left), _calls(right)))
    return TurnPair(index=index, left=left, right=right, calls=calls, left_reply=left_reply, right_reply=right_reply)


def _reply(turn: PlayedTurn | None) -> str:
    return "" if turn is None else turn.reply or ""


def _calls(turn: PlayedTurn | None) -> tuple[ToolCall, ...]:
    return () if turn is None else turn.tool_calls or ()


def _pair_calls(left: tuple[ToolCall, ...], right: tuple[ToolCall, ...]) -> Iterator[CallPair]:
    """Calls of the same tool next to each other, in order."""
    names = SequenceMatcher(None, [call.name for call in left], [call.name for call in right], autojunk=False)
    for tag, first, last, begin, end in names.get_opcodes():
        if tag == "equal":
            yield from (CallPair(left=a, right=b) for a, b in zip(left[first:last], right[begin:end], strict=True))
        else:
            yield from (CallPair(left=call, right=None) for call in left[first:last])
            yield from (CallPair(left=None, right=call) for call in right[begin:end])


def diff_words(left: str, right: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both texts as pieces: what they share, and what only one has."""
    if left == right or not left or not right or max(len(left), len(right)) > LONGEST:
        same = left == right
        return _whole(left, same), _whole(right, same)
    words, others = re.findall(r"\s+|\w+|[^\w\s]", left), re.findall(r"\s+|\w+|[^\w\s]", right)
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    if matcher.ratio() < ALIKE:
        return _whole(left, True), _whole(right, True)  # nothing in common: marking every word says nothing
    found = matcher.get_opcodes()
    ours = [Piece(text="".join(words[a:b]), same=tag == "equal") for tag, a, b, _, _ in found if b > a]
    theirs = [Piece(text="".join(others[c:d]), same=tag == "equal") for tag, _, _, c, d in found if d > c]
    return tuple(ours), tuple(theirs)


def _whole(text: str, same: bool) -> tuple[Piece, ...]:
    return (Piece(text=text, same=same),) if text else ()
