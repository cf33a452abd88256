"""How the replies of two conversations with the same calls differ: misread, invented or forgotten values."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from seatrial.model.causes import Divergence, DivergenceKind
from seatrial.model.conversation import Transcript
from seatrial.model.run import Trial
from seatrial.model.struct import Struct

_TOKEN: Final = re.compile(r"[A-Za-z0-9](?:[\w.,:@/+-]*\w)?")
_SHOWN: Final = 80
_SHORTEST: Final = 3
"""Shorter texts of tool results occur in replies by chance."""


class Origin(Struct, frozen=True, kw_only=True):
    """Where a value was seen first."""

    text: str
    said_in: int | None = None
    """The turn of the user's message; None: a tool result or the history."""


def find_origin(value: Any, transcript: Transcript, *, before_turn: int, before_step: int) -> Origin | None:
    """The latest place before a step that contains the value: a user's message, a tool result, the history."""
    wanted = str(value)
    if len(wanted) < 2 or isinstance(value, bool):
        return None
    for turn in reversed(transcript.turns[: before_turn + 1]):
        if _holds(turn.user, wanted):
            which = (
                "the user's message" if turn.index == before_turn else f"the user's message in turn {turn.index + 1}"
            )
            return Origin(text=which, said_in=turn.index)
    calls = [call for turn in transcript.turns for call in turn.tool_calls or ()][:before_step]
    for call in reversed(calls):
        for path, leaf in leaves(call.result):
            if str(leaf) == wanted:
                return Origin(text=f"the result of {call.name}{f' ({path})' if path else ''}")
    if any(_holds(str(message.get("content") or ""), wanted) for message in transcript.history):
        return Origin(text="the messages before the first turn")
    return None


def compare_replies(failed: Trial, passed: Trial, *, symptom: str) -> Divergence:
    """The first reply of the failed trial that differs in a value. All calls of both are the same."""
    bad, good = failed.transcript.turns, passed.transcript.turns
    checked = [result.turn for result in failed.results if not result.passed and result.turn is not None]
    order = [*checked, *range(len(bad))]
    for turn in order:
        if turn >= len(bad) or turn >= len(good) or bad[turn].reply == good[turn].reply:
            continue
        found = _compare_reply(failed.transcript, bad[turn].reply or "", good[turn].reply or "", turn, symptom)
        if found is not None:
            return found
    return _plain_difference(failed, passed, order)


def _plain_difference(failed: Trial, passed: Trial, order: list[int]) -> Divergence:
    bad, good = failed.transcript.turns, passed.transcript.turns
    for turn in order:
        if turn < min(len(bad), len(good)) and (bad[turn].reply or "") != (good[turn].reply or ""):
            text = f"the reply is {_quote(bad[turn].reply)}; the passed one is {_quote(good[turn].reply)}"
            return Divergence(kind=DivergenceKind.REPLY, text=text, turn=turn)
    if len(bad) != len(good):
        last = max(min(len(bad), len(good)) - 1, 0)
        text = f"the conversation has {len(bad)} turns; the passed one has {len(good)}"
        kind = DivergenceKind.STOPPED if len(bad) < len(good) else DivergenceKind.REPLY
        return Divergence(kind=kind, text=text, turn=last)
    if failed.transcript.earlier:
        text = "repeated, it is the same as a passed trial; the error before that counts"
        return Divergence(kind=DivergenceKind.ERROR, text=text, turn=max(len(bad) - 1, 0))
    text = "the calls and replies are the same as in a passed trial; they were judged differently"
    return Divergence(kind=DivergenceKind.JUDGED, text=text, turn=max(len(bad) - 1, 0))


def _quote(reply: str | None) -> str:
    text = " ".join((reply or "").split())
    return f'"{text if len(text) <= _SHOWN else text[:_SHOWN] + "…"}"'


def _compare_reply(transcript: Transcript, bad: str, good: str, turn: int, symptom: str) -> Divergence | None:
    """A value that only one of the replies has, explained by where it comes from."""
    return (
        _misread(transcript, bad, good, turn, symptom)
        or _forgotten(transcript, bad, good, turn, symptom)
        or _invented(transcript, bad, good, turn, symptom)
    )


def _misread(transcript: Transcript, bad: str, good: str, turn: int, symptom: str) -> Divergence | None:
    results = dict(_result_values(transcript, turn, symptom))
    lost = [text for text in results if _holds(good, text) and not _holds(bad, text)]
    if not lost:
        return None
    instead = [text for text in results if _holds(bad, text) and not _holds(good, text)]
    tool, path = results[lost[0]]
    source = f"{tool}.{path}" if path else tool
    said = f"; it says {instead[0]!r} ({_name(results[instead[0]])})" if instead else ""
    invented = next(_unfounded(transcript, bad, good, turn, symptom), None) if not instead else None
    if invented is not None:
        said = f"; it says {invented!r}, which is in no message and no tool result"
    kind = DivergenceKind.INVENTED if invented is not None else DivergenceKind.MISREAD
    text = f"the reply does not say {lost[0]!r} from the result of {source}{said}"
    return Divergence(kind=kind, text=text, turn=turn, tool=source)


def _name(place: tuple[str, str]) -> str:
    return f"{place[0]}.{place[1]}" if place[1] else place[0]


def _forgotten(transcript: Transcript, bad: str, good: str, turn: int, symptom: str) -> Divergence | None:
    """A word of an earlier user message that only the passed reply uses."""
    for earlier in transcript.turns[:turn]:
        for word in _TOKEN.findall(earlier.user):
            told = any(letter.isdigit() or letter.isupper() for letter in word) or _holds(symptom, word)
            if len(word) < _SHORTEST or not told or not _holds(good, word) or _holds(bad, word):
                continue
            if not _holds(transcript.turns[turn].user, word):
                text = f"the reply does not use {word!r}, which the user said in turn {earlier.index + 1}"
                return Divergence(kind=DivergenceKind.FORGOTTEN, text=text, turn=turn)
    return None


def _invented(transcript: Transcript, bad: str, good: str, turn: int, symptom: str) -> Divergence | None:
    for word in _unfounded(transcript, bad, good, turn, symptom):
        text = f"the reply says {word!r}, which is in no message and no tool result"
        return Divergence(kind=DivergenceKind.INVENTED, text=text, turn=turn)
    return None


def _unfounded(transcript: Transcript, bad: str, good: str, turn: int, symptom: str) -> Iterator[str]:
    """Words with digits in the reply that nothing before it contains."""
    known = [good, *(one.user for one in transcript.turns[: turn + 1])]
    known += [str(message.get("content") or "") for message in transcript.history]
    known += [one.reply or "" for one in transcript.turns[:turn]]
    known += [text for text, _ in _result_values(transcript, turn, symptom)]
    for word in _TOKEN.findall(bad):
        if any(letter.isdigit() for letter in word) and not any(_holds(text, word) for text in known):
            yield word


def _result_values(transcript: Transcript, turn: int, symptom: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each text or number in a tool result up to the turn, with its tool and path."""
    for one in transcript.turns[: turn + 1]:
        for call in one.tool_calls or ():
            for path, leaf in leaves(call.result):
                for text in _words(leaf, symptom):
                    yield text, (call.name, path)


def _words(leaf: Any, symptom: str) -> Iterator[str]:
    """The value as a text. Of a sentence: words with digits, and words that the failing check names."""
    if isinstance(leaf, bool) or leaf is None:
        return
    text = str(leaf)
    if isinstance(leaf, str) and " " in text:
        for word in _TOKEN.findall(text):
            if any(letter.isdigit() for letter in word) or (len(word) >= _SHORTEST and _holds(symptom, word)):
                yield word
    if len(text) >= (1 if _is_number(leaf) else _SHORTEST):
        yield text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaves(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Each value inside a JSON value, with its path: `items[0].price`. A text that is JSON is read."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = _read_json(value)
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{at}.{name}" if at else str(name))
    elif isinstance(value, list | tuple) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{at}[{index}]")
    else:
        yield at, value


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _holds(text: str, word: str) -> bool:
    """Whether the text contains the word, not as a part of another word, in any case."""
    at = text.lower().find(word.lower())
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(word) : at + len(word) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        at = text.lower().find(word.lower(), at + 1)
    return False
