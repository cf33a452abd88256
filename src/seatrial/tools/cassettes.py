"""Cassettes: calls of real tools that were recorded once, and answer in later runs.

A cassette is a mapping, stored as YAML, so that people can read and edit it:

    tools:
      lookup_order:
        recorded: '2026-05-01'
        schema: {type: object, properties: {order_id: {type: string}}}
        calls:
        - args: {order_id: W1}
          returns: {status: shipped}
        - args: {order_id: W2}
          raises: no such order
        - args: {order_id: W3}
          sequence: [{returns: {status: packed}}, {returns: {status: shipped}}]
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from seatrial.model.conversation import REDACTED, ErrorKind, ToolCall
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError
from seatrial.model.struct import Struct

Document = dict[str, Any]
_ANSWERS: Final = ("returns", "raises", "sequence")
_SHOWN: Final = 300


def normalise(arguments: Any) -> Any:
    """Arguments in the form that is compared: without keys whose value is null, whole numbers as integers."""
    if isinstance(arguments, Mapping):
        return {str(key): normalise(value) for key, value in sorted(arguments.items()) if value is not None}
    if isinstance(arguments, list | tuple):
        return [normalise(value) for value in arguments]
    if isinstance(arguments, float) and arguments.is_integer():
        return int(arguments)
    return arguments


def _key(arguments: Any) -> str:
    return json.dumps(normalise(arguments or {}), sort_keys=True, default=repr)


class Recording:
    """Collects the calls of real tools and makes a cassette of them."""

    def __init__(self, *, date: str, schemas: Mapping[str, Any] | None = None, before: Document | None = None) -> None:
        """`before`: an older cassette; calls that are not made again stay."""
        self._date = date
        self._schemas = schemas or {}
        self._before = before or {"tools": {}}
        self._answers: dict[str, dict[str, tuple[Any, list[Document]]]] = {}
        self.contradictions: list[str] = []
        """Calls that two trials got different answers for. The answers of the first trial are kept."""

    @property
    def count(self) -> int:
        """The number of different calls."""
        return sum(map(len, self._answers.values()))

    def add(self, calls: Iterable[ToolCall]) -> None:
        """Add the calls of one trial, in their order."""
        made: dict[tuple[str, str], tuple[Any, list[Document]]] = {}
        for call in calls:
            place = (call.name, _key(call.arguments))
            made.setdefault(place, (normalise(call.arguments or {}), []))[1].append(_answer(call))
        for (tool, key), (arguments, answers) in made.items():
            known = self._answers.setdefault(tool, {})
            if key not in known:
                known[key] = (arguments, answers)
                continue
            shorter, longer = sorted((known[key][1], answers), key=len)
            if longer[: len(shorter)] != shorter:
                self.contradictions.append(f"{tool}({_show(arguments)})")
            elif longer is answers:
                known[key] = (arguments, answers)

    def cassette(self) -> Document:
        """The cassette, with sorted tools and the calls in the order in which they were made."""
        tools = dict(self._before.get("tools") or {})
        for name, calls in self._answers.items():
            old = tools.get(name) or {}
            kept = [call for call in old.get("calls") or () if _key(call.get("args")) not in calls]
            new = [{"args": arguments, **_one_or_sequence(answers)} for arguments, answers in calls.values()]
            schema = self._schemas.get(name) or old.get("schema")
            tools[name] = {"recorded": self._date, **({"schema": schema} if schema else {}), "calls": [*kept, *new]}
        return {"tools": dict(sorted(tools.items()))}


def _answer(call: ToolCall) -> Document:
    return {"returns": call.result} if call.error is None else {"raises": call.error}


def _one_or_sequence(answers: Sequence[Document]) -> Document:
    if all(answer == answers[0] for answer in answers):
        return answers[0]
    return {"sequence": list(answers)}


class RecordedCall(Struct, frozen=True, kw_only=True):
    """One call of a cassette and its answers. The last answer repeats."""

    arguments: Any
    answers: tuple[Document, ...]

    def answer(self, position: int) -> ToolAnswer:
        found = self.answers[min(position, len(self.answers) - 1)]
        return ToolAnswer(error=found["raises"]) if "raises" in found else ToolAnswer(result=found.get("returns"))


class RecordedTools(Struct, frozen=True, kw_only=True):
    """The tools of a cassette."""

    file: str
    calls: Mapping[str, tuple[RecordedCall, ...]]
    schemas: Mapping[str, Any]

    def definitions(self) -> Iterator[Document]:
        """A definition for each tool. Without a recorded schema, the names of its arguments."""
        for name, calls in self.calls.items():
            seen = dict.fromkeys(key for call in calls for key in call.arguments)
            schema = self.schemas.get(name) or {"type": "object", "properties": {key: {} for key in seen}}
            yield {"name": name, "parameters": schema}

    def find(self, name: str, arguments: Any) -> tuple[int, RecordedCall]:
        """The recorded call with these arguments, and its position. Raises TrialError if it is not recorded."""
        wanted = normalise(arguments or {})
        for position, call in enumerate(self.calls[name]):
            if _matches(call.arguments, wanted):
                return position, call
        raise self._not_recorded(name, wanted)

    def _not_recorded(self, name: str, arguments: Any) -> TrialError:
        hint = f"record it: seatrial run --record {self.file}"
        nearest = max(self.calls[name], key=lambda call: _likeness(call.arguments, arguments), default=None)
        if nearest is not None:
            hint = f"the nearest recorded call is {name}({_show(nearest.arguments)}). Otherwise {hint}"
        message = f"Tool {name!r} was called with {_show(arguments)}, which is not recorded in {self.file}"
        return TrialError(ErrorKind.TOOL, message, hint=hint, counts_as_failed=True)


def _matches(recorded: Any, given: Any) -> bool:
    """Whether they are equal. A secret was redacted in the recording, so its value is not compared."""
    if isinstance(recorded, str) and REDACTED in recorded:
        return isinstance(given, str)
    if isinstance(recorded, Mapping) and isinstance(given, Mapping):
        return recorded.keys() == given.keys() and all(_matches(recorded[key], given[key]) for key in recorded)
    if isinstance(recorded, list) and isinstance(given, list):
        return len(recorded) == len(given) and all(map(_matches, recorded, given))
    return bool(recorded == given) and isinstance(recorded, bool) == isinstance(given, bool)


def _likeness(recorded: Any, given: Any) -> float:
    """How alike two sets of arguments are: equal values first, then similar texts."""
    from difflib import SequenceMatcher

    if isinstance(recorded, Mapping) and isinstance(given, Mapping):
        keys = recorded.keys() | given.keys()
        shared = recorded.keys() & given.keys()
        return sum(_likeness(recorded[key], given[key]) for key in shared) / len(keys) if keys else 1.0
    if recorded == given:
        return 1.0
    return 0.9 * SequenceMatcher(None, str(recorded)[:_SHOWN], str(given)[:_SHOWN]).ratio()


def read_recorded(document: Any, file: str) -> RecordedTools:
    """The tools of a cassette. `check_cassette` must have found no problem."""
    tools: Mapping[str, Any] = document["tools"]
    return RecordedTools(
        file=file,
        calls={name: tuple(map(_read_call, tool["calls"])) for name, tool in tools.items()},
        schemas={name: tool["schema"] for name, tool in tools.items() if tool.get("schema")},
    )


def _read_call(call: Mapping[str, Any]) -> RecordedCall:
    answers = call["sequence"] if "sequence" in call else [{key: call[key] for key in _ANSWERS if key in call}]
    return RecordedCall(arguments=normalise(call.get("args") or {}), answers=tuple(answers))


def check_cassette(document: Any) -> Iterator[str]:
    """All problems of a cassette as texts."""
    tools = document.get("tools") if isinstance(document, Mapping) else None
    if not isinstance(tools, Mapping):
        yield "expected a mapping with `tools`, as `seatrial run --record` writes it"
        return
    for name, tool in tools.items():
        calls = tool.get("calls") if isinstance(tool, Mapping) else None
        if not isinstance(calls, list):
            yield f"tools.{name}: expected a mapping with a list of `calls`"
            continue
        for position, call in enumerate(calls):
            problem = _call_problem(call)
            if problem is not None:
                yield f"tools.{name}.calls[{position}]: {problem}"


def _call_problem(call: Any) -> str | None:
    if not isinstance(call, Mapping):
        return "expected a mapping with `args` and `returns`, `raises` or `sequence`"
    if not isinstance(call.get("args", {}), Mapping | None):
        return "args: expected a mapping"
    answers = [key for key in _ANSWERS if key in call]
    if len(answers) != 1:
        return "expected one of `returns`, `raises` and `sequence`"
    unknown = [str(key) for key in call if key not in ("args", *_ANSWERS)]
    if unknown:
        return f"unknown key {unknown[0]!r}. Known: args, {', '.join(_ANSWERS)}"
    if "sequence" in call:
        entries = call["sequence"]
        if not isinstance(entries, list) or not entries:
            return "sequence: expected a list of answers"
        if any(not isinstance(one, Mapping) or len(one) != 1 or next(iter(one)) not in _ANSWERS[:2] for one in entries):
            return "sequence: each entry needs `returns` or `raises`"
    return None


def _show(arguments: Any) -> str:
    text = json.dumps(arguments, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
