"""The operators: each breaks a transcript in one known way. `find_operators` is the registry.

Other packages add operators through the entry point group `seatrial.mutants`: a function of a transcript and RunFacts
that returns Mutants.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall, Transcript, is_blank
from seatrial.model.struct import Struct
from seatrial.model.transcript_events import decoded

from .mutant import Mutant, RunFacts, calls_in, with_calls, with_reply

Breaks = Callable[[Transcript, RunFacts], Iterable[Mutant]]
_LONGEST = 120


class Operator(Struct, frozen=True, kw_only=True):
    """One way to break a transcript."""

    name: str
    change: str
    """What it does, in a few words."""
    breaks: Breaks
    may_be_equivalent: bool = False
    """With a world, a mutant that reaches the same end state and violates no invariant is no defect."""

    def mutants(self, transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
        """The mutants of a transcript, named after the operator."""
        for mutant in self.breaks(transcript, facts):
            yield replace(mutant, operator=self.name)


def shown_call(call: ToolCall) -> str:
    """`refund({'order_id': 'W1'})`, shortened."""
    text = f"{call.name}({'…' if call.arguments is None else call.arguments})"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _calls(transcript: Transcript, at: int) -> tuple[ToolCall, ...]:
    return transcript.turns[at].tool_calls or ()


def drop(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    for (at, position), call in calls_in(transcript):
        calls = _calls(transcript, at)
        yield Mutant(
            what=f"dropped {shown_call(call)} in turn {at + 1}",
            transcript=with_calls(transcript, at, (*calls[:position], *calls[position + 1 :])),
            turn=at,
            call=call,
        )


def duplicate(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    """A repeated read is no defect, so only calls that change something are repeated."""
    for (at, position), call in calls_in(transcript):
        if call.error is None and facts.changes_state(call.name):
            calls = _calls(transcript, at)
            yield Mutant(
                what=f"repeated {shown_call(call)} in turn {at + 1}",
                transcript=with_calls(transcript, at, (*calls[: position + 1], call, *calls[position + 1 :])),
                turn=at,
                call=call,
            )


def reorder(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    """Two reads in another order are no defect, so one of the two calls changes something."""
    for (at, position), call in calls_in(transcript):
        calls = _calls(transcript, at)
        following = calls[position + 1] if position + 1 < len(calls) else None
        if following is None or following.name == call.name:
            continue
        if facts.changes_state(call.name) or facts.changes_state(following.name):
            swapped = (*calls[:position], following, call, *calls[position + 2 :])
            yield Mutant(
                what=f"made {shown_call(following)} before {call.name} in turn {at + 1}",
                transcript=with_calls(transcript, at, swapped),
                turn=at,
                call=following,
                added=call.name,
            )


def argument(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    for (at, position), call in calls_in(transcript):
        if call.args is None:
            continue
        calls = _calls(transcript, at)
        for name in call.args:
            for what, arguments in _other_arguments(call.args, name, facts):
                changed = replace(call, arguments=arguments)
                yield Mutant(
                    what=f"called {call.name} in turn {at + 1} with {what}",
                    transcript=with_calls(transcript, at, (*calls[:position], changed, *calls[position + 1 :])),
                    turn=at,
                    call=call,
                    lost=name,
                )


def _other_arguments(given: Mapping[str, Any], name: str, facts: RunFacts) -> Iterator[tuple[str, dict[str, Any]]]:
    value = given[name]
    kind = type(value)
    other = next((one for one in facts.values.get(name, ()) if type(one) is kind and one != value), None)
    if other is not None:
        yield f"{name}={other!r} instead of {value!r}", {**given, name: other}
    if isinstance(value, int | float) and not isinstance(value, bool):
        for off in (1, 10):
            yield f"{name}={value + off!r} instead of {value!r}", {**given, name: value + off}
    yield f"no {name}", {key: item for key, item in given.items() if key != name}
    retyped: Any = [value] if isinstance(value, str) else str(value)
    yield f"{name}={retyped!r} instead of {value!r}", {**given, name: retyped}


def wrong_tool(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    for (at, position), call in calls_in(transcript):
        others = [name for name in facts.known_tools if name != call.name]
        if not others:
            continue
        calls = _calls(transcript, at)
        # Another one for each call, so that all tools have their turn.
        other = others[(at + position) % len(others)]
        changed = replace(call, name=other)
        yield Mutant(
            what=f"called {other} instead of {call.name} in turn {at + 1}",
            transcript=with_calls(transcript, at, (*calls[:position], changed, *calls[position + 1 :])),
            turn=at,
            call=call,
            added=other,
        )


def act_early(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    last = len(transcript.turns) - 1
    if last < 1:
        return
    for position, call in enumerate(_calls(transcript, last)):
        rest = _calls(transcript, last)
        without = with_calls(transcript, last, (*rest[:position], *rest[position + 1 :]))
        if transcript.turns[last - 1].tool_calls is None:
            continue
        yield Mutant(
            what=f"made {shown_call(call)} before the user's last message",
            transcript=with_calls(without, last - 1, (*_calls(transcript, last - 1), call)),
            turn=last - 1,
            call=call,
        )


def skip_the_check(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    places = list(calls_in(transcript))
    first = next((index for index, (_, call) in enumerate(places) if facts.changes_state(call.name)), 0)
    if first == 0:
        return
    skipped = {place for place, _ in places[:first]}
    turns = tuple(
        turn
        if not turn.tool_calls
        else replace(turn, tool_calls=tuple(c for p, c in enumerate(turn.tool_calls) if (at, p) not in skipped))
        for at, turn in enumerate(transcript.turns)
    )
    (at, _), write = places[first]
    names = ", ".join(dict.fromkeys(call.name for _, call in places[:first]))
    yield Mutant(
        what=f"called {write.name} in turn {at + 1} without {names} before it",
        transcript=replace(transcript, turns=turns),
        turn=at,
        call=write,
        lost=names,
    )


def ignore_the_error(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    for (at, position), call in calls_in(transcript):
        if call.error is None and not is_blank(transcript.turns[at].reply):
            calls = _calls(transcript, at)
            broken = replace(call, result=None, error="503 Service Unavailable")
            yield Mutant(
                what=f"let {shown_call(call)} fail in turn {at + 1}, with the same reply",
                transcript=with_calls(transcript, at, (*calls[:position], broken, *calls[position + 1 :])),
                turn=at,
                call=call,
            )


_DESTRUCTIVE = "delete_account"
"""If all known tools are used."""


def destructive_extra(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    last = len(transcript.turns) - 1
    if last < 0 or transcript.turns[last].tool_calls is None:
        return
    unused = [name for name in facts.known_tools if name not in facts.used_tools]
    changing = [name for name in unused if facts.changes_state(name)]
    if not unused and facts.has_world:
        return  # a world answers no other tool
    for name in (changing or unused or [_DESTRUCTIVE])[:3]:
        extra = ToolCall(name, {}, {"ok": True})
        yield Mutant(
            what=f"also called {name} in turn {last + 1}, which no passed trial does",
            transcript=with_calls(transcript, last, (*_calls(transcript, last), extra)),
            turn=last,
            call=extra,
            added=name,
        )


def _replies(transcript: Transcript) -> Iterator[tuple[int, str]]:
    for at, turn in enumerate(transcript.turns):
        if turn.reply is not None and not is_blank(turn.reply):
            yield at, turn.reply


def empty_reply(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    for at, reply in _replies(transcript):
        yield Mutant(
            what=f"said nothing in turn {at + 1}", transcript=with_reply(transcript, at, ""), turn=at, lost=reply
        )


def cut_reply(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    for at, reply in _replies(transcript):
        half = reply[: len(reply) // 2]
        if half.strip():
            yield Mutant(
                what=f"cut the reply in turn {at + 1} in half",
                transcript=with_reply(transcript, at, half),
                turn=at,
                lost=reply[len(half) :],
            )


def foreign_reply(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    own = {reply for _, reply in _replies(transcript)}
    others = [(name, reply) for name, reply in facts.replies.items() if name != facts.scenario and reply not in own]
    for at, reply in _replies(transcript):
        for name, other in others[:3]:
            yield Mutant(
                what=f"gave the reply of {name!r} in turn {at + 1}",
                transcript=with_reply(transcript, at, other),
                turn=at,
                lost=reply,
                added=other,
            )


PROMISES = (
    "We guarantee that this will never happen again.",
    "You will also receive a voucher over 50 as compensation.",
    "I promise that a colleague will call you within the hour.",
)


def invented_promise(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    for at, reply in list(_replies(transcript))[-1:]:
        for promise in PROMISES:
            yield Mutant(
                what=f"promised in turn {at + 1}: {promise}",
                transcript=with_reply(transcript, at, f"{reply} {promise}"),
                turn=at,
                added=promise,
            )


_MOST_LEAKS = 5
_PRIVATE = re.compile(
    r"pass|secret|token|key|card|iban|ssn|phone|mail|address|birth|dob|salary|income|internal|margin|cost|credit|\bpin\b"
    r"|account|note|score|risk",
    re.IGNORECASE,
)
"""Keys of values that are not meant for the user. Other values may well be part of a right reply."""


def leaked_value(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    said = " ".join([*(turn.user for turn in transcript.turns), *(reply for _, reply in _replies(transcript))])
    leaks = {
        (key, value): None
        for _, call in calls_in(transcript)
        if call.error is None
        for key, value in _leaves(decoded(call.result), "value")
        if _PRIVATE.search(key) and value not in said
    }
    for at, reply in list(_replies(transcript))[-1:]:
        for key, value in list(leaks)[:_MOST_LEAKS]:
            yield Mutant(
                what=f"told the user in turn {at + 1} the {key} {value!r} of a tool result",
                transcript=with_reply(transcript, at, f"{reply} By the way, the {key} is {value}."),
                turn=at,
                added=value,
            )


def _leaves(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Texts and numbers in a result that are long enough to be recognised, each with its key."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, str(name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, key)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and 3 <= len(str(value)) <= 80:
        yield key, str(value)


_VERB = re.compile(
    r"\b(is|are|was|were|has|have|had|will|can|could|did|does|do|would|should|may)\b( not)?", re.IGNORECASE
)


def negated_reply(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    for at, reply in _replies(transcript):
        found = _VERB.search(reply)
        if found is None:
            opposite, phrase = f"It is not true that {reply[:1].lower()}{reply[1:]}", "It is not true that"
        else:
            verb = f"{found[1]}{'' if found[2] else ' not'}"
            before, after = reply[: found.start()], reply[found.end() :]
            opposite = f"{before}{verb}{after}"
            ends = re.search(r"\S*\s*$", before), re.match(r"\W*\w*", after)
            phrase = f"{ends[0][0] if ends[0] else ''}{verb}{ends[1][0] if ends[1] else ''}"
        yield Mutant(
            what=f"said the opposite in turn {at + 1}: {opposite[:_LONGEST]}",
            transcript=with_reply(transcript, at, opposite),
            turn=at,
            added=phrase,
        )


def stop_early(transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    """Only a user without a script can be left early."""
    if facts.scripted or len(transcript.turns) < 2:
        return
    last = transcript.turns[-1]
    yield Mutant(
        what=f"ended the conversation before turn {len(transcript.turns)}",
        transcript=replace(transcript, turns=transcript.turns[:-1]),
        turn=len(transcript.turns) - 2,
        lost=last.reply,
        call=(last.tool_calls or (None,))[-1],
    )


_BUILT_IN: tuple[tuple[str, str, Breaks], ...] = (
    ("drop", "a call is missing", drop),
    ("duplicate", "a call that changes something is made twice", duplicate),
    ("reorder", "two calls change places", reorder),
    ("argument", "an argument is wrong or missing", argument),
    ("wrong tool", "another tool is called", wrong_tool),
    ("act early", "a call comes before the user's last message", act_early),
    ("skip the check", "the calls before the first change are missing", skip_the_check),
    ("ignore the error", "a call fails, and the reply stays the same", ignore_the_error),
    ("destructive extra", "a tool is called that no passed trial calls", destructive_extra),
    ("empty reply", "there is no reply", empty_reply),
    ("cut reply", "half of a reply is missing", cut_reply),
    ("foreign reply", "the reply belongs to another scenario", foreign_reply),
    ("invented promise", "the reply promises something", invented_promise),
    ("leaked value", "the reply contains a value of a tool result", leaked_value),
    ("negated reply", "the reply says the opposite", negated_reply),
    ("stop early", "the last turn is missing", stop_early),
)
_MAY_BE_EQUIVALENT = ("drop", "duplicate", "reorder")
OPERATORS: Mapping[str, Operator] = {
    name: Operator(name=name, change=change, breaks=breaks, may_be_equivalent=name in _MAY_BE_EQUIVALENT)
    for name, change, breaks in _BUILT_IN
}


@lru_cache
def find_operators() -> Mapping[str, Operator]:
    """All operators by name: built in, and those of installed packages. Raises UsageError for one that is broken."""
    from importlib.metadata import entry_points

    found = dict(OPERATORS)
    for point in entry_points(group="seatrial.mutants"):
        try:
            breaks = point.load()
        except Exception as problem:
            raise UsageError(f"the operator {point.name!r} ({point.value}) cannot be imported: {problem}") from problem
        change = (getattr(breaks, "__doc__", None) or point.name).strip().splitlines()[0]
        found.setdefault(point.name, Operator(name=point.name, change=change, breaks=breaks))
    return found
