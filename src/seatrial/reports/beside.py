"""A failed conversation beside a passed one in the terminal, with the first difference marked."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from textwrap import wrap

from msgspec.structs import replace

from seatrial.model.causes import Divergence
from seatrial.model.conversation import PlayedTurn, ToolCall
from seatrial.model.run import Trial

from .aligned_turns import TurnPair, align_turns, find_marked
from .conversation import describe_call
from .terminal import TerminalWriter, one_line, shorten

LONGEST = 600
"""Characters of a message or call that are shown. `show` without --beside prints all."""
_MARK = "▶"


def print_beside(passed: Trial, failed: Trial, found: Divergence, writer: TerminalWriter, *, width: int) -> None:
    """Both conversations in two columns. What is the same stands once."""
    half = max((width - 7) // 2, 20)
    writer.line(_row("passed: " + passed.id, "failed: " + failed.id, half), indent=2, style="bold")
    turns = align_turns(passed, failed)
    marked = find_marked(turns, found)
    for pair in turns:
        if pair.same and (marked is None or marked[0] != pair.index):
            writer.line(f"turn {pair.index + 1}, the same on both sides: {_cut(pair.left.user if pair.left else '')}")
            continue
        writer.line(f"turn {pair.index + 1}", style="bold")
        for place, left, right in _rows(pair):
            if marked == (pair.index, place):
                writer.line(f"{_MARK} first difference: {one_line(found.text)}", style="bold")
            same = left == right
            for line in wrap(_cut(left), width - 2) if same else _columns(left, right, half):
                writer.line(line, indent=2)


def _rows(pair: TurnPair) -> Iterator[tuple[int | None, str, str]]:
    """(index of the call, left, right); -1: the user's message, None: the reply."""
    yield -1, _user(pair.left), _user(pair.right)
    for place, step in enumerate(pair.calls):
        yield place, _call(step.left), _call(step.right)
    yield None, _reply(pair.left), _reply(pair.right)


def _user(turn: PlayedTurn | None) -> str:
    return "" if turn is None else f"user: {turn.user}"


def _call(call: ToolCall | None) -> str:
    return "" if call is None else f"tool: {describe_call(replace(call, duration_ms=None))}"


def _reply(turn: PlayedTurn | None) -> str:
    if turn is None:
        return "(the conversation has ended)"
    if turn.error is not None:
        return f"ERROR {turn.error.kind}: {turn.error.message}"
    return "agent: (no reply)" if turn.reply is None else f"agent: {turn.reply}"


def _cut(text: str) -> str:
    return shorten(one_line(text), LONGEST)


def _columns(left: str, right: str, half: int) -> Iterator[str]:
    sides: Iterable[tuple[str, str]] = zip_longest(wrap(_cut(left), half), wrap(_cut(right), half), fillvalue="")
    yield from (_row(one, other, half) for one, other in sides)


def _row(left: str, right: str, half: int) -> str:
    return f"{left:<{half}} │ {right}".rstrip()
