"""Patterns of events in a transcript: tool calls by name, glob, arguments and success; texts of the agent and the user.

A pattern is a tuple of alternatives. Its answer to an event is None if the evidence does not decide it: the arguments
were not recorded, or a secret was redacted from them.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import REDACTED
from seatrial.model.struct import InputStruct
from seatrial.model.transcript_events import AgentSaid, CallMade, TranscriptEvent, UserSaid

from .built_in import check_arguments, check_expected, did_you_mean, flag
from .matchers import Answer, matches, operator_of, shown, some, subset
from .redacted_evidence import holds_redaction, includes_surely, matches_surely

_KINDS = ("call", "says", "user")
_MAY_BE = "Expected a tool's name, a list, {call: …, args: …, ok: …}, {says: matcher} or {user: matcher}."


class EventPattern(InputStruct, frozen=True, kw_only=True):
    """Calls of one of the tools, replies of the agent, or messages of the user."""

    kind: Literal["call", "says", "user"]
    tools: Sequence[str] = ()
    """Names and globs; one of them must fit."""
    args: Mapping[str, Any] | None = None
    ok: bool | None = None
    """Whether the call succeeded; None: either."""
    text: Any = None
    """The matcher of a reply or a message."""

    def __str__(self) -> str:
        if self.kind != "call":
            return f"{'a reply' if self.kind == 'says' else 'a user message'} ({_in_words(self.text)})"
        result = "" if self.ok is None else " that succeeds" if self.ok else " that fails"
        arguments = "" if self.args is None else f" with {_in_words(self.args)}"
        return f"{' or '.join(self.tools)}{arguments}{result}"


Pattern = tuple[EventPattern, ...]


def in_words(pattern: Pattern) -> str:
    """The pattern for people: `refund or change_address`."""
    return " or ".join(map(str, pattern))


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_in_words(item)}" for key, item in value.items())
    return repr(value)


def read_pattern(where: str, given: Any) -> Pattern:
    """The pattern as it was written. Raises UsageError if it is none."""
    if isinstance(given, EventPattern):
        return (given,)
    if isinstance(given, str):
        return (_of_tools(where, (given,)),)
    if isinstance(given, list | tuple):
        if not given:
            raise UsageError(f"{where}: the list is empty, so nothing is checked. Fill it or remove it.")
        if all(isinstance(each, str) for each in given):
            return (_of_tools(where, tuple(given)),)
        return tuple(one for index, each in enumerate(given) for one in read_pattern(f"{where}[{index}]", each))
    if not isinstance(given, Mapping):
        raise UsageError(f"{where}: {shown(given)} is no event. {_MAY_BE}")
    return (_of_mapping(where, given),)


def _of_mapping(where: str, given: Mapping[str, Any]) -> EventPattern:
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) != 1:
        raise UsageError(f"{where}: {shown(dict(given))} needs exactly one of call, says and user. {_MAY_BE}")
    kind = kinds[0]
    known = ("call", "args", "ok") if kind == "call" else (kind,)
    for key in given:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}")
    if kind != "call":
        return EventPattern(kind="says" if kind == "says" else "user", text=_text(f"{where}.{kind}", given[kind]))
    named = given["call"]
    made = _of_tools(f"{where}.call", tuple(named) if isinstance(named, list | tuple) else (named,))
    if "args" in given:
        made = replace(made, args=_arguments(f"{where}.args", given["args"]))
    return replace(made, ok=flag(f"{where}.ok", given["ok"])) if "ok" in given else made


def _of_tools(where: str, tools: tuple[Any, ...]) -> EventPattern:
    for tool in tools:
        if not isinstance(tool, str) or not tool.strip():
            raise UsageError(f"{where}: expected the name of a tool, got {shown(tool)}.")
    if not tools:
        raise UsageError(f"{where}: the list is empty, so nothing is checked. Fill it or remove it.")
    return EventPattern(kind="call", tools=tools)


def _text(where: str, matcher: Any) -> Any:
    if isinstance(matcher, str):
        raise UsageError(
            f"{where}: a plain text would have to be the whole message. Write {{$contains: {matcher!r}}}, "
            f"or {{$regex: '(?i){matcher}'}} for any case."
        )
    if not isinstance(matcher, Mapping) or operator_of(matcher) is None:
        raise UsageError(f"{where}: expected a matcher such as {{$regex: …}}, got {shown(matcher)}.")
    problems = check_expected(matcher)
    if problems:
        raise UsageError("\n".join(f"{where}.{problem}" for problem in problems))
    return matcher


def _arguments(where: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not given:
        raise UsageError(f"{where}: expected a mapping of arguments, got {shown(given)}.")
    problems = check_arguments(given)
    if problems:
        raise UsageError("\n".join(f"{where}.{problem}" for problem in problems))
    return given


def names_calls(pattern: Pattern | None) -> bool:
    """Whether one of the alternatives is about calls."""
    return any(one.kind == "call" for one in pattern or ())


def names_texts(pattern: Pattern | None) -> bool:
    """Whether one of the alternatives is about texts."""
    return any(one.kind != "call" for one in pattern or ())


def tool_names(pattern: Pattern | None) -> list[str]:
    """The names in the pattern that are no globs."""
    return [name for one in pattern or () for name in one.tools if not is_glob(name)]


def is_glob(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def successful(pattern: Pattern) -> Pattern:
    """The pattern, where calls must succeed unless it says otherwise."""
    return tuple(replace(one, ok=True) if one.kind == "call" and one.ok is None else one for one in pattern)


def fits(pattern: Pattern, event: TranscriptEvent) -> Answer:
    """Whether the event is one of those that the pattern describes; None if the evidence does not decide it."""
    if len(pattern) == 1:
        return _fits(pattern[0], event)
    return some(_fits(one, event) for one in pattern)


def _fits(one: EventPattern, event: TranscriptEvent) -> Answer:
    if isinstance(event, CallMade):
        return one.kind == "call" and _fits_call(one, event)
    if (one.kind == "says" and isinstance(event, AgentSaid)) or (one.kind == "user" and isinstance(event, UserSaid)):
        return matches_surely(one.text, event.text) if REDACTED in event.text else matches(one.text, event.text)
    return False


def _fits_call(one: EventPattern, event: CallMade) -> Answer:
    call = event.call
    if not _is_named(tuple(one.tools), call.name) or (one.ok is not None and one.ok is not (call.error is None)):
        return False
    if one.args is None:
        return True
    if call.args is None:
        return None if call.arguments is None else False
    return includes_surely(one.args, call.args) if holds_redaction(call.args) else subset(one.args, call.args)


@lru_cache(maxsize=4096)
def _is_named(tools: tuple[str, ...], name: str) -> bool:
    return any(name == tool or (is_glob(tool) and fnmatchcase(name, tool)) for tool in tools)
