"""The first divergence of a failed conversation from its gold calls: those that change the world as expected.

Calls that change nothing do not matter, nor does the order, unless a later call was refused because of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from seatrial.model.causes import Divergence, DivergenceKind
from seatrial.model.conversation import StopReason, ToolCall, Transcript
from seatrial.model.struct import Struct

from .alignment import Step, steps_of
from .reply_differences import leaves

AGAINST: Final = "the gold calls"
_SHOWN: Final = 80
_NOTHING: Final = object()


class _Made(Struct, frozen=True, kw_only=True):
    """Which gold calls the conversation made."""

    gold: Sequence[ToolCall]
    steps: Sequence[Step]
    places: Mapping[int, int]
    """Index of a step -> index of its gold call."""

    @property
    def missing(self) -> list[int]:
        done = set(self.places.values())
        return [at for at in range(len(self.gold)) if at not in done]


def diverge_from_gold(gold: Sequence[ToolCall], transcript: Transcript) -> Divergence | None:
    """The first call that changes something else than the gold calls, or the first of them that is missing."""
    steps = steps_of(transcript)
    made = _Made(gold=gold, steps=steps, places=_match(gold, steps))
    for at in range(len(steps)):
        found = _wrong_order(made, at) if at in made.places else _wrong_call(made, at)
        if found is not None:
            return found
    return _missing_call(made, transcript)


def _match(gold: Sequence[ToolCall], steps: Sequence[Step]) -> dict[int, int]:
    places: dict[int, int] = {}
    for at, (_, call) in enumerate(steps):
        left = (one for one, other in enumerate(gold) if one not in places.values() and _equal(call, other))
        found = next(left, None)
        if found is not None and call.changes:
            places[at] = found
    return places


def _equal(call: ToolCall, gold: ToolCall) -> bool:
    return call.name == gold.name and next(_differences(gold, call), None) is None


def _differences(gold: ToolCall, call: ToolCall) -> Iterator[tuple[str, Any, Any]]:
    """(path, gold value, value) of each argument that differs."""
    right, wrong = dict(leaves(gold.arguments)), dict(leaves(call.arguments))
    for path in dict.fromkeys((*right, *wrong)):
        values = right.get(path, _NOTHING), wrong.get(path, _NOTHING)
        if values[0] != values[1]:
            yield path, *values


def _wrong_order(made: _Made, at: int) -> Divergence | None:
    """A gold call that came too early: one that belongs before it was refused later."""
    place, call = made.places[at], made.steps[at][1]
    for earlier in (one for one in made.missing if one < place):
        wanted = made.gold[earlier]
        if any(_equal(later, wanted) for _, later in made.steps[at + 1 :]):
            text = f"{call.name} was called before {wanted.name}, which then had no effect; the order must be reversed"
            return _at(made, at, DivergenceKind.ORDER, call.name, text)
    return None


def _wrong_call(made: _Made, at: int) -> Divergence | None:
    """A call that changes something unexpected, or the useless try of a gold call that is never made."""
    call = made.steps[at][1]
    near = [made.gold[one] for one in made.missing if made.gold[one].name == call.name]
    if near:
        nearest = min(near, key=lambda one: len(list(_differences(one, call))))
        return _other_arguments(made, at, nearest)
    if not call.changes:
        return None
    if made.missing and call.name not in {one.name for one in made.gold}:
        wanted = made.gold[made.missing[0]].name
        text = f"{call.name} changed the world; the gold calls have {wanted} instead"
        return _at(made, at, DivergenceKind.WRONG_TOOL, call.name, text)
    return _at(
        made, at, DivergenceKind.EXTRA_CALL, call.name, f"{call.name} changed the world, which no gold call does"
    )


def _other_arguments(made: _Made, at: int, wanted: ToolCall) -> Divergence:
    call = made.steps[at][1]
    differences = list(_differences(wanted, call))
    if differences:
        shown = "; ".join(f"{path or 'arguments'} is {_show(b)}, not {_show(a)}" for path, a, b in differences[:3])
        path = differences[0][0]
        tool = f"{call.name}.{path}" if path else call.name
        return _at(made, at, DivergenceKind.ARGUMENTS, tool, f"{call.name}: {shown}")
    why = f" ({_cut(call.error)})" if call.error else ""
    return _at(made, at, DivergenceKind.TOOL_ERROR, call.name, f"{call.name} was refused{why}")


def _missing_call(made: _Made, transcript: Transcript) -> Divergence | None:
    if not made.missing:
        return None
    name = made.gold[made.missing[0]].name
    if transcript.stop_reason is StopReason.ENDED_BY_TOOL and made.steps:
        last = made.steps[-1][1].name
        text = f"{last} ended the conversation before {name} was called"
        return _at(made, len(made.steps) - 1, DivergenceKind.STOPPED, name, text)
    turn = max(len(transcript.turns) - 1, 0)
    text = f"the agent made no further call; the gold calls go on with {name}"
    kind = DivergenceKind.STOPPED if made.places else DivergenceKind.MISSING_CALL
    return Divergence(kind=kind, text=text, turn=turn, step=len(made.steps), tool=name, against=AGAINST)


def _at(made: _Made, at: int, kind: DivergenceKind, tool: str, text: str) -> Divergence:
    return Divergence(kind=kind, text=text, turn=made.steps[at][0], step=at, tool=tool, against=AGAINST)


def _show(value: Any) -> str:
    return "nothing" if value is _NOTHING else _cut(repr(value))


def _cut(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
