"""What the messages on spans say: OTel GenAI in its current and its retired forms, and OpenInference."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from seatrial.model.struct import Struct

from .otlp_spans import Span, attribute, read_spans
from .parsing import (
    SILENT,
    as_text,
    kind_of,
    listed,
    mapping,
    parts_of,
    read_arguments,
    read_json,
    read_result,
    read_usage,
    text,
)
from .parsing import words_in as _words_in
from .transcript_builder import Notes, Recording, Scribe

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


class Ancestry(Protocol):
    def ancestors(self, span: Span) -> Iterator[Span]: ...


class ToolRun(Struct, frozen=True, kw_only=True):
    """A tool at work, as its span tells it."""

    name: str
    arguments: Any
    """None where the span does not say."""
    result: Any
    error: str | None
    call_id: str | None
    start: float
    end: float


def find_tool_runs(
    spans: Sequence[Span], family: Ancestry, calls: Sequence[Piece]
) -> tuple[dict[int, ToolRun], list[ToolRun]]:
    """The runs of calls that a model asked for, by the identity of the piece; and those that no message tells of."""
    taken: dict[int, ToolRun] = {}
    beside: list[ToolRun] = []
    for run in _without_echoes([span for span in spans if span.is_tool], family):
        free = [piece for piece in calls if id(piece) not in taken]
        asked = _find_call(run, free)
        if asked is None:
            beside.append(run)
        else:
            taken[id(asked)] = run
    return taken, beside


def _find_call(run: ToolRun, calls: Sequence[Piece]) -> Piece | None:
    if run.call_id is not None:
        return next((piece for piece in calls if piece.call_id == run.call_id), None)
    named = [piece for piece in calls if piece.name == run.name]
    if run.arguments is None:
        return next(iter(named), None)
    return next((piece for piece in named if _same(piece.value, run.arguments)), None)


def _without_echoes(spans: Sequence[Span], family: Ancestry) -> list[ToolRun]:
    kept: list[tuple[Span, ToolRun]] = []
    for span in sorted(spans, key=lambda span: (span.is_mcp, span.start)):
        run = _read_run(span)
        place = next((i for i, (other, own) in enumerate(kept) if _is_echo(span, run, other, own, family)), None)
        if place is None:
            kept.append((span, run))
        else:
            kept[place] = (kept[place][0], _filled(kept[place][1], run))
    return sorted((run for _, run in kept), key=lambda run: run.start)


def _is_echo(span: Span, run: ToolRun, other: Span, own: ToolRun, family: Ancestry) -> bool:
    """Whether an MCP span tells of a call that another span told of: same id, above it, or same parent and call."""
    if not span.is_mcp or run.name != own.name:
        return False
    if run.call_id is not None and own.call_id is not None:
        return run.call_id == own.call_id
    if any(above.id == other.id for above in family.ancestors(span)):
        return True
    request = span.attributes.get("jsonrpc.request.id")
    if other.is_mcp and request is not None and span.attributes.get("mcp.session.id") is not None:
        theirs = (other.attributes.get("jsonrpc.request.id"), other.attributes.get("mcp.session.id"))
        return theirs == (request, span.attributes["mcp.session.id"])
    return span.trace == other.trace and span.parent == other.parent and _same(run.arguments, own.arguments)


def _filled(run: ToolRun, echo: ToolRun) -> ToolRun:
    """The run, with what only its echo says."""
    return ToolRun(
        name=run.name,
        arguments=echo.arguments if run.arguments is None else run.arguments,
        result=echo.result if run.result is None and run.error is None else run.result,
        error=run.error if run.error is not None or run.result is not None else echo.error,
        call_id=run.call_id or echo.call_id,
        start=run.start,
        end=run.end,
    )


def _read_run(span: Span) -> ToolRun:
    given = attribute(span, "gen_ai.tool.call.arguments", "tool_call.function.arguments", "tool_arguments")
    if given is None and not span.is_mcp:
        value = attribute(span, "input.value")
        given = value if isinstance(value, dict) else attribute(span, "tool.parameters") or value
    result = attribute(span, "gen_ai.tool.call.result", "tool_response", "output.value")
    call_id = attribute(span, "gen_ai.tool.call.id", "tool_call.id", "tool.id")
    name = text(attribute(span, "gen_ai.tool.name", "tool.name", "tool_call.function.name"))
    error = span.failure
    if error is None and mapping(result).get("isError") is True:
        error = as_text(mapping(result).get("content") or result)
    return ToolRun(
        name=name or "unknown",
        arguments=None if given is None else read_arguments(given),
        result=None if error is not None else read_result(result),
        error=error,
        call_id=None if call_id is None else str(call_id),
        start=span.start,
        end=span.end,
    )


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)


def read(documents: list[Any], notes: Notes) -> Iterator[Recording]:
    """One recording for each conversation: spans of the same `gen_ai.conversation.id`, `session.id`, or trace."""
    groups: dict[str, list[Span]] = {}
    family = Family(read_spans(documents))
    for span in family.spans:
        groups.setdefault(family.conversation(span), []).append(span)
    for name, spans in groups.items():
        found = _Conversation(spans, family, notes).read(name)
        if found is not None:
            yield found


class Family:
    """Who is whose child among spans."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self._by_id = {(span.trace, span.id): span for span in spans}
        self._named: dict[str, set[str]] = {}
        for span in spans:
            if span.conversation is not None:
                self._named.setdefault(span.trace, set()).add(span.conversation)

    def ancestors(self, span: Span) -> Iterator[Span]:
        """The parent first; a broken file may have them in a circle."""
        seen = {span.id}
        while span.parent is not None and span.parent not in seen:
            seen.add(span.parent)
            above = self._by_id.get((span.trace, span.parent))
            if above is None:
                return
            yield above
            span = above

    def conversation(self, span: Span) -> str:
        """Its own word, else that of the next above who says one, else the only one of the trace, else the trace."""
        for each in (span, *self.ancestors(span)):
            if each.conversation is not None:
                return each.conversation
        named = self._named.get(span.trace, set())
        return next(iter(named)) if len(named) == 1 else span.trace

    def is_inside_tool(self, span: Span) -> bool:
        """Whether it is part of what a tool did: an agent behind a tool speaks to the tool, not to the user."""
        return any(above.is_tool for above in self.ancestors(span))

    def outermost_agent(self, span: Span) -> Span | None:
        return next((above for above in reversed(list(self.ancestors(span))) if above.is_agent), None)

    def is_top(self, span: Span) -> bool:
        return next(self.ancestors(span), None) is None


class _Moment(Struct, frozen=True, kw_only=True):
    """Something to dictate, and when it was."""

    time: float
    rank: int
    """Of those at the same time: what was given, then what was done, then what was said, then the end."""
    piece: Piece | None = None
    tool: ToolRun | None = None
    span: Span | None = None
    at: float | None = None


class _Conversation:
    """The spans of one conversation on their way to the scribe."""

    def __init__(self, spans: Sequence[Span], family: Family, notes: Notes) -> None:
        self._spans = spans
        self._family = family
        self._notes = notes
        self._scribe = Scribe(notes)
        self._heard: list[Piece] = []
        self._moments: list[_Moment] = []

    def read(self, name: str) -> Recording | None:
        blind = self._hear()
        calls = [moment.piece for moment in self._moments if moment.piece and moment.piece.kind == "call"]
        runs, beside = find_tool_runs(self._spans, self._family, calls)
        for run in beside:
            self._moments.append(_Moment(time=run.start, rank=1, tool=run))
        answered = {piece.call_id for piece in self._heard if piece.kind == "answer"}
        for moment in sorted(self._moments, key=lambda moment: (moment.time, moment.rank)):
            if moment.tool is not None:
                self._run(moment.tool)
            elif moment.piece is not None:
                self._dictate(moment.piece, runs.get(id(moment.piece)), moment.at, answered)
            elif moment.span is not None:
                self._close(moment.span)
                if moment.span.trace in blind and not beside:
                    self._scribe.hide_calls()
        return self._scribe.finish(name, recorded=[span.raw for span in self._spans])

    def _hear(self) -> set[str]:
        """Put on the line of time what models were told and said. Gives the traces that have no model's words."""
        begun: set[str] = set()
        for span in self._spans:
            if not span.is_model or self._family.is_inside_tool(span):
                continue
            given, said = given_to(span, self._notes), said_by(span, self._notes)
            if given or said:
                self._add(span, given, said, first=span.trace not in begun)
                begun.add(span.trace)
        blind: set[str] = set()
        for span in self._spans:
            if span.trace not in begun and span.trace not in blind and not span.is_tool:
                pieces = all_said(span, self._notes)
                if pieces:
                    blind |= set() if any(piece.kind == "call" for piece in pieces) else {span.trace}
                    begun |= set() if span.trace in blind else {span.trace}
                    self._add_whole(span, pieces)
        for span in self._spans:
            if span.is_model or self._family.is_top(span):
                self._moments.append(_Moment(time=span.end, rank=3, span=span))
        return blind

    def _add(self, span: Span, given: list[Piece], said: list[Piece], *, first: bool) -> None:
        fresh = _not_heard(self._heard, given, first=first)
        latest = max((place for place, piece in enumerate(fresh) if piece.kind == "user"), default=0)
        agent = self._family.outermost_agent(span)
        began = agent.start if first and agent is not None else span.start
        for place, piece in enumerate(fresh):
            at = None if place < latest else began if piece.kind == "user" else span.start
            self._moments.append(_Moment(time=span.start, rank=0, piece=piece, at=at))
        self._moments += [_Moment(time=span.end, rank=2, piece=piece, at=span.end) for piece in said]
        self._heard += [*fresh, *said]

    def _add_whole(self, span: Span, pieces: list[Piece]) -> None:
        """All that an agent was given and said, on one span: what came from the user stands at its beginning."""
        fresh = _not_heard(self._heard, pieces, first=True)
        for piece in fresh:
            is_given = piece.kind in ("user", "system")
            at = span.start if is_given else span.end
            self._moments.append(_Moment(time=span.start if is_given else span.end, rank=2, piece=piece, at=at))
        self._heard += fresh

    def _dictate(self, piece: Piece, run: ToolRun | None, at: float | None, answered: set[str | None]) -> None:
        match piece.kind:
            case "system":
                self._scribe.system(piece.text)
            case "user":
                self._scribe.user(piece.text, at=at)
            case "say":
                self._scribe.say(piece.text, at=at)
            case "call":
                began = at if run is None else run.start
                self._scribe.call(piece.name, piece.value, call_id=piece.call_id, at=began)
                if run is not None and (run.error is not None or piece.call_id not in answered):
                    self._scribe.answer(piece.call_id, run.result, error=run.error, name=piece.name, at=run.end)
            case "answer":
                self._scribe.answer_if_open(piece.call_id, piece.value, name=piece.name, at=at)

    def _run(self, run: ToolRun) -> None:
        self._scribe.call(run.name, run.arguments, call_id=run.call_id, at=run.start)
        if run.error is not None or run.result is not None:
            self._scribe.answer(run.call_id, run.result, error=run.error, name=run.name, at=run.end)

    def _close(self, span: Span) -> None:
        if span.is_model:
            self._scribe.use(_usage(span), cost_usd=_cost(span))
        if not self._family.is_top(span):
            return
        self._scribe.touch(span.end)
        if span.failure is not None and not span.is_tool:
            self._scribe.fail(span.failure, at=span.end)


def _not_heard(heard: Sequence[Piece], given: Sequence[Piece], *, first: bool) -> list[Piece]:
    """Of what a model was given, that which is new.

    Mostly it is given all that was said before, and more. Where it is not, the last words of the user are new at the
    beginning of a trace; and whatever else was heard before, in the same order, is not new.
    """
    before = [piece.identity for piece in heard if piece.kind != "system"]
    told = [piece for piece in given if piece.kind != "system"]
    system = [piece for piece in given if piece.kind == "system" and piece not in heard]
    if [piece.identity for piece in told[: len(before)]] == before:
        return [*system, *told[len(before) :]]
    users = [place for place, piece in enumerate(told) if piece.kind == "user"]
    turn = users[-1] if first and users else len(told)
    return [*system, *([] if first else _unmatched(before, told)), *told[turn:]]


def _unmatched(before: Sequence[tuple[str, str, str]], told: Iterable[Piece]) -> Iterator[Piece]:
    place = 0
    for piece in told:
        if piece.identity in before[place:]:
            place = before.index(piece.identity, place) + 1
        else:
            yield piece


def _usage(span: Span) -> Any:
    names = {
        "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
        "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    }
    return read_usage({key: attribute(span, *aliases) for key, aliases in names.items()})


def _cost(span: Span) -> float | None:
    cost = attribute(span, "llm.cost.total")
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9 else None
