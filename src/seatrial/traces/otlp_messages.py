"""What the messages on spans say: OTel GenAI in its current and its retired forms, and OpenInference."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from seatrial.model.struct import Struct

from .otlp_spans import Span, attribute
from .parsing import SILENT, as_text, kind_of, listed, mapping, parts_of, read_arguments, read_json, read_result, text
from .parsing import words_in as _words_in
from .transcript_builder import Notes

_CALLS = ("tool_call", "server_tool_call")
_ANSWERS = ("tool_call_response", "server_tool_call_response")


class Piece(Struct, frozen=True, kw_only=True):
    """One thing that was said or done, and what it is about."""

    kind: Literal["system", "user", "say", "call", "answer"]
    text: str = ""
    call_id: str | None = None
    name: str | None = None
    value: Any = None
    """The arguments of a call, or the result of an answer."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Equal for the same thing on another span: models are given the whole conversation each time."""
        told = self.text or json.dumps(self.value, sort_keys=True, default=str)
        return self.kind, self.call_id or "", told


def given_to(span: Span, notes: Notes) -> list[Piece]:
    """What a model or an agent was given: instructions, the conversation so far, tool results."""
    pieces = _instructions(span)
    pieces += _from_messages(attribute(span, "gen_ai.input.messages"), notes)
    pieces += _from_events(span, notes, choices=False)
    pieces += _from_messages(_unflatten(span.attributes, "llm.input_messages."), notes)
    return pieces


def said_by(span: Span, notes: Notes) -> list[Piece]:
    """What it answered: words and tool calls."""
    pieces = _from_messages(attribute(span, "gen_ai.output.messages"), notes, role="assistant")
    pieces += _from_events(span, notes, choices=True)
    pieces += _from_messages(_unflatten(span.attributes, "llm.output_messages."), notes, role="assistant")
    return pieces


def all_said(span: Span, notes: Notes) -> list[Piece]:
    """A whole conversation on one span of an agent; only for spans on which no model was asked."""
    whole = attribute(span, "pydantic_ai.all_messages", "all_messages_events")
    if isinstance(whole, list):
        return _instructions(span) + _from_messages(whole, notes)
    pieces = given_to(span, notes) + said_by(span, notes)
    if pieces:
        return pieces
    asked, answered = attribute(span, "input.value"), attribute(span, "output.value", "final_result")
    return _from_value(asked, "user", notes) + _from_value(answered, "assistant", notes)


def _instructions(span: Span) -> list[Piece]:
    words = [_words_in(part) for part in parts_of(attribute(span, "gen_ai.system_instructions"))]
    told = "\n".join(word for word in words if word)
    return [Piece(kind="system", text=told)] if told else []


def _from_value(value: Any, role: str, notes: Notes) -> list[Piece]:
    """The `input.value` or `output.value` of OpenInference, which may be anything."""
    held = mapping(value)
    messages = held.get("messages") if "messages" in held else value
    if isinstance(messages, list) and any("role" in mapping(message) for message in messages):
        return _from_messages(messages if role == "user" else messages[-1:], notes)
    for key in ("input", "output", "content", "text", "question", "answer", "query"):
        if text(held.get(key)):
            return list(_read_message({"role": role, "content": held[key]}, notes))
    return list(_read_message({"role": role, "content": as_text(value)}, notes)) if value else []


def _from_messages(messages: Any, notes: Notes, *, role: str | None = None) -> list[Piece]:
    found: list[Piece] = []
    for message in listed(messages):
        held = mapping(message)
        held = mapping(held.get("message")) or held
        found += _read_message({"role": role, **held} if role else held, notes)
    return found


def _from_events(span: Span, notes: Notes, *, choices: bool) -> list[Piece]:
    """The retired events `gen_ai.user.message`, `gen_ai.choice` and the like: on the span, or in an attribute."""
    events = [{**event.attributes, "event.name": event.name} for event in span.events]
    events += [dict(mapping(event)) for event in listed(attribute(span, "events"))]
    found: list[Piece] = []
    for event in events:
        name = str(event.get("event.name"))
        if name == "gen_ai.choice" and choices:
            message = mapping(read_json(event.get("message"))) or event
            found += _read_message({**message, "role": "assistant"}, notes)
        elif name.startswith("gen_ai.") and name.endswith(".message") and not choices:
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            found += _read_message({"role": role, **event}, notes)
    return found


def _read_message(message: Mapping[str, Any], notes: Notes) -> Iterator[Piece]:
    role = message.get("role")
    words: list[str] = []
    content = message.get("parts", message.get("content", message.get("contents")))
    pieces: list[Piece] = []
    for part in parts_of(read_json(content) if isinstance(content, str) and content[:2] == "[{" else content):
        inner = mapping(part.get("message_content")) or part
        kind = inner.get("type")
        if kind in _CALLS:
            pieces.append(_call(inner))
        elif kind in _ANSWERS:
            pieces.append(_answer(inner))
        elif (said := _words_in(inner)) is not None:
            words.append(said)
        elif kind not in SILENT:
            notes.leave_out("part", f"of unknown type {kind_of(inner)!r}")
    for call in listed(read_json(message.get("tool_calls"))):
        pieces.append(_call(mapping(mapping(call).get("tool_call")) or mapping(call)))
    if role == "tool" and not pieces:
        yield _answer({"id": message.get("tool_call_id", message.get("id")), "response": "".join(words), **message})
        return
    told = "".join(words)
    if told:
        yield _spoken(role, told)
    yield from pieces


def _spoken(role: Any, told: str) -> Piece:
    if role in ("system", "developer"):
        return Piece(kind="system", text=told)
    return Piece(kind="user" if role == "user" else "say", text=told)


def _call(part: Mapping[str, Any]) -> Piece:
    inner = mapping(part.get("function")) or mapping(part.get("server_tool_call"))
    given = inner.get("arguments", part.get("arguments"))
    call_id = part.get("id")
    return Piece(
        kind="call",
        call_id=None if call_id is None else str(call_id),
        name=text(inner.get("name")) or text(part.get("name")) or "unknown",
        value=read_arguments(given),
    )


def _answer(part: Mapping[str, Any]) -> Piece:
    keys = ("response", "result", "server_tool_call_response", "content")
    call_id = part.get("id")
    return Piece(
        kind="answer",
        call_id=None if call_id is None else str(call_id),
        name=text(part.get("name")),
        value=read_result(next((part[key] for key in keys if part.get(key) is not None), None)),
    )


def _unflatten(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """`prefix.0.message.role` and so on as a list of mappings, in the order of the numbers."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if not name.startswith(prefix):
            continue
        *path, last = name.removeprefix(prefix).split(".")
        place = tree
        for step in path:
            below = place.get(step)
            if not isinstance(below, dict):
                below = place[step] = {}
            place = below
        place[last] = value
    found = _lists_in(tree)
    return found if isinstance(found, list) else []


def _lists_in(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isascii() and key.isdigit() for key in tree):
        return [_lists_in(tree[key]) for key in sorted(tree, key=lambda key: (len(key), key))]
    return {key: _lists_in(value) for key, value in tree.items()}
