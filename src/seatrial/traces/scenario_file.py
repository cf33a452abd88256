"""Scenario files from recorded conversations, as YAML that YAML 1.1 and 1.2 read alike."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from seatrial.model.conversation import PlayedTurn, ToolCall, Transcript

from .parsing import as_text
from .transcript_builder import MessagePaths, RecordedConversation, TraceError

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 _.,'?!()/-]*[A-Za-z0-9_.?!)])?")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_BLOCK = re.compile(r"[^\s\x00-\x1f][^\x00-\x08\x0b-\x1f]*[^\s\x00-\x1f]")


def write_yaml(value: Any) -> str:
    """The document as YAML in block style."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{indent}{_scalar(str(key))}:", item, indent + "  ")
    elif isinstance(value, list) and value:
        for item in value:
            inner = list(_lines(item, indent + "  ")) if _is_block(item) else []
            if inner:
                yield f"{indent}- {inner[0].lstrip()}"
                yield from inner[1:]
            else:
                yield from _entry(f"{indent}-", item, indent + "  ")
    else:
        yield f"{indent}{_scalar(value)}"


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if _is_block(item):
        yield head
        yield from _lines(item, indent)
    elif isinstance(item, str) and _is_paragraph(item):
        yield f"{head} |-"
        yield from (f"{indent}{line}" if line else "" for line in item.split("\n"))
    else:
        yield f"{head} {_scalar(item)}"


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping | list) and bool(value)


def _is_paragraph(text: str) -> bool:
    """Whether it can be written as a literal block."""
    return "\n" in text and _BLOCK.fullmatch(text) is not None and not _UNPRINTABLE.search(text)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    written = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", written)


_LONGEST = 80
"""Longer arguments are prose, which an agent words differently each time."""
_FACT = re.compile(r"\b[A-Za-z]+[-_#]?\d[\w-]*\b")
"""Order numbers, references and the like: a letter, then a digit."""
_FACTS = 3
_DEEPEST = 60
"""Scenario files with deeper values are refused."""

Document = dict[str, Any]


def write_scenarios(recordings: Sequence[RecordedConversation], *, suite: str, agent: Any) -> Document:
    """A suite with one scenario for each recording. Raises TraceError for a turn without a user message."""
    names: dict[str, int] = {}
    scenarios = []
    for recording in recordings:
        names[recording.name] = seen = names.get(recording.name, 0) + 1
        scenarios.append(_scenario(recording, recording.name if seen == 1 else f"{recording.name} ({seen})"))
    return {"suite": {"name": suite, "agent": agent}, "scenarios": scenarios}


def replay_agent(path: str | list[str], *, format: str | None, paths: MessagePaths | None) -> Document:
    """The settings of an agent that replays the file, or the files, read in the same way."""
    settings = {
        "format": format,
        "messages": None if paths is None else paths.messages,
        "conversation_name": None if paths is None else paths.name,
    }
    return {"type": "replay", "path": path, **{key: value for key, value in settings.items() if value is not None}}


def _scenario(recording: RecordedConversation, name: str) -> Document:
    transcript = recording.transcript
    silent = [turn.index + 1 for turn in transcript.turns if not turn.user.strip()]
    if silent:
        raise TraceError(
            f"conversation {recording.name!r}: the user says nothing in turn {silent[0]}, so there is nothing to send. "
            "Record the user's messages as well, or choose another: --conversation"
        )
    found: Document = {"name": name}
    found |= _before(transcript)
    found["turns"] = [_turn(turn) for turn in transcript.turns]
    calls = transcript.tool_calls or ()
    if calls:
        found |= {"mocks": mocks} if (mocks := _mocks(calls)) else {}
        found["trajectory"] = {"mode": "in_order", "expected": [_expected(call) for call in calls]}
    return found


def _before(transcript: Transcript) -> Document:
    messages = [plain(message) for message in transcript.history]
    found: Document = {}
    if messages and messages[0].get("role") == "system" and str(messages[0].get("content") or "").strip():
        found["system"] = as_text(messages.pop(0)["content"])
    if messages:
        found["history"] = messages
    return found


def _turn(turn: PlayedTurn) -> Document:
    found: Document = {"user": plain(turn.user)}
    if not (turn.reply or "").strip():
        # An agent that failed in the recording should reply.
        return {**found, "reply": "optional"} if turn.error is None else found
    facts = _facts(turn)
    return {**found, "expect": {"reply_contains_all": facts}} if facts else found


def _facts(turn: PlayedTurn) -> list[str]:
    """References in the reply that the user or a tool gave: an agent that works repeats them."""
    known = turn.user + "".join(as_text([call.arguments, call.result]) for call in turn.tool_calls or ())
    said = dict.fromkeys(_FACT.findall(plain(turn.reply or "")))
    return [fact for fact in said if fact in known][:_FACTS]


def _mocks(calls: Sequence[ToolCall]) -> Document:
    """The mocks by tool: one result, or a sequence of different ones. An unknown result makes no mock."""
    given: dict[str, list[Document]] = {}
    unanswered = _unanswered(calls)
    for call in calls:
        if call.name not in unanswered:
            given.setdefault(call.name, []).append(_answer(call))
    return {
        plain(name): answers[0] if all(answer == answers[0] for answer in answers) else {"sequence": answers}
        for name, answers in given.items()
    }


def _unanswered(calls: Sequence[ToolCall]) -> list[str]:
    """Tools with a call whose result is not recorded: the order of their results is unknown."""
    return list(dict.fromkeys(call.name for call in calls if not call.result_known))


def _answer(call: ToolCall) -> Document:
    if call.error is not None:
        return {"raises": plain(call.error).strip() or "the tool failed"}
    return {"returns": plain(call.result)}


def _expected(call: ToolCall) -> Document:
    arguments = {plain(key): _argument(value) for key, value in (call.args or {}).items()}
    return {"name": plain(call.name), **({"args": arguments} if arguments else {})}


def _argument(value: Any) -> Any:
    """The value if it is short and exact; else a matcher."""
    if isinstance(value, str) and len(value) > _LONGEST:
        return {"$type": "string"}
    if len(as_text(value)) > 4 * _LONGEST or _is_matcher(value) or value != plain(value):
        return {"$any": True}
    return plain(value)


def _is_matcher(value: Any) -> bool:
    """Whether a recorded value would be read as a matcher: a query such as {"$gt": 5}."""
    if isinstance(value, Mapping):
        own = len(value) == 1 and str(next(iter(value))).startswith("$")
        return own or any(map(_is_matcher, value.values()))
    return isinstance(value, list) and any(map(_is_matcher, value))


def plain(value: Any, depth: int = _DEEPEST) -> Any:
    """The value without what no file can hold: lone surrogates, NaN and infinities, deep nesting."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth == 0:
        return "[nested too deeply]"
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item, depth - 1) for key, item in value.items()}
    return [plain(item, depth - 1) for item in value]


def notes_on(recordings: Sequence[RecordedConversation]) -> Iterator[str]:
    """What a reader of the file should know about the recordings."""
    for recording in recordings:
        error = recording.transcript.error
        if error is not None:
            yield f"{recording.name}: the recording ended in an error: {plain(error.message)}"
        silent = [str(turn.index + 1) for turn in recording.transcript.turns if not (turn.reply or "").strip()]
        if silent and error is None:
            yield f"{recording.name}: no reply was recorded in turn {', '.join(silent)}, so none is expected there"
        if recording.transcript.tool_calls is None:
            yield f"{recording.name}: tool calls were not recorded, so none are expected"
        if unanswered := _unanswered(recording.transcript.seen_calls):
            names = ", ".join(map(plain, unanswered))
            yield f"{recording.name}: results were not recorded, so these tools have no mock: {names}"
