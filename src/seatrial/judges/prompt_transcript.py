"""The conversation as the judge sees it: a line of JSON for everything that was said, called and returned.

A long conversation is cut by one rule: every text longer than a common length keeps its beginning and its end, and
says between them how much was left out. The common length is as large as the whole allows. No line is dropped, so a
judge never grades a turn that it was not shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.model.conversation import ToolCall
from seatrial.model.protocols import Context, TrialContext

from .prompt_escaping import as_json, fence

LONGEST = 100_000
"""Characters; about 25,000 tokens, which every current model can read."""
_SHORTEST = 400
"""No text is cut below this, even if the whole becomes longer than it should."""

Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the judge reads, and what was cut from it."""

    text: str
    """Fenced."""
    cut: tuple[str, ...] = ()


def record_of(ctx: Context, *, longest: int = LONGEST) -> Record:
    """The turn with what came before it, or the whole trial."""
    return make_record("transcript", list(_trial(ctx) if isinstance(ctx, TrialContext) else _turn(ctx)), longest)


def make_record(name: str, lines: Sequence[Line], longest: int = LONGEST) -> Record:
    """The lines as fenced JSON, cut to about the longest length."""
    texts = [{key: as_json(value) for key, value in line.items()} for line in lines]
    lengths = [len(text) for line in texts for text in line.values()]
    limit = _common_length(lengths, longest) if sum(lengths) > longest else None
    cut: list[str] = []
    written = []
    for line, texts_of_line in zip(lines, texts, strict=True):
        pairs = []
        for key, text in texts_of_line.items():
            # What was said, not its JSON, which is longer: head and tail of a text that is short enough would overlap.
            said = line[key] if isinstance(line[key], str) else text
            if limit is not None and len(said) > limit:
                cut.append(f"{_place(line)}{key}: {len(said) - limit} of {len(said)} characters")
                text = as_json(_shortened(said, limit))
            pairs.append(f"{as_json(key)}: {text}")
        written.append("{" + ", ".join(pairs) + "}")
    return Record(text=fence(name, "\n".join(written)), cut=tuple(cut))


def _trial(ctx: TrialContext) -> Iterator[Line]:
    yield from ({"before the first turn": message} for message in ctx.history)
    for turn in ctx.transcript.turns:
        yield from _played(turn.index, turn.user, turn.tool_calls, turn.reply or "", complete=turn.calls_complete)
    yield {"the conversation ended because": ctx.transcript.stop_reason.value}


def _turn(ctx: Context) -> Iterator[Line]:
    yield from ({"before this turn": message} for message in ctx.history)
    turn = getattr(ctx, "turn", 0)
    yield from _played(turn, ctx.user, ctx.tool_calls, ctx.reply or "", complete=ctx.calls_complete)


def _played(index: int, user: str, calls: Iterable[ToolCall] | None, reply: str, *, complete: bool) -> Iterator[Line]:
    turn = index + 1
    yield {"turn": turn, "user": user}
    if calls is None:
        yield {"turn": turn, "tools": "not recorded: nobody knows whether the agent called any"}
    for call in calls or ():
        answer = {"result": call.result} if call.error is None else {"error": call.error}
        yield {"turn": turn, "tool": call.name, "arguments": call.arguments, **answer}
    if calls is not None and not complete:
        yield {"turn": turn, "tools": "the agent may have called others, which were not recorded"}
    yield {"turn": turn, "agent": reply}


def _common_length(lengths: Sequence[int], longest: int) -> int:
    """The largest length at which all texts together fit, if those above it are cut to it."""
    left, rest = longest, len(lengths)
    for length in sorted(lengths):
        if length * rest > left:
            break
        left -= length
        rest -= 1
    return max(left // rest if rest else longest, _SHORTEST)


def _shortened(text: str, length: int) -> str:
    head = length // 2
    tail = length - head
    return f"{text[:head]} [… {len(text) - length} characters left out …] {text[-tail:]}"


def _place(line: Line) -> str:
    turn = f"turn {line['turn']}, " if "turn" in line else ""
    return f"{turn}{line['tool']}: " if "tool" in line else turn
