"""OpenTelemetry spans as conversations: OTel GenAI in its current and its retired forms, and OpenInference.

Each span of a model repeats the conversation so far. So the steps on all spans are put on one timeline, each once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.model.struct import Struct

from .documents import flatten
from .otlp_spans import Span, SpanTree, attribute, is_otlp, read_spans
from .parsing import (
    SILENT,
    Omissions,
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
    words_in,
)
from .steps import Step, canonical
from .transcript_builder import RecordedConversation, TranscriptBuilder

_CALLS = ("tool_call", "server_tool_call")
_RESULTS = ("tool_call_response", "server_tool_call_response")
_RESULT_NAMES = ("gen_ai.tool.call.result", "tool_response", "output.value")
"""Attributes with the result of a tool."""


def matches(documents: list[Any]) -> bool:
    """Whether a document is an export of spans, or a span."""
    return any(is_otlp(each) for each in flatten(documents))


def read(documents: list[Any], omissions: Omissions) -> Iterator[RecordedConversation]:
    """One recording for each conversation."""
    yield from read_conversations(read_spans(documents), omissions)


def read_conversations(spans: Sequence[Span], omissions: Omissions) -> Iterator[RecordedConversation]:
    """The conversations of spans: those with the same `gen_ai.conversation.id`, `session.id`, or trace."""
    groups: dict[str, list[Span]] = {}
    tree = SpanTree(spans)
    for span in tree.spans:
        groups.setdefault(tree.conversation(span), []).append(span)
    for name, spans in groups.items():
        found = _Timeline(spans, tree, omissions).build(name)
        if found is not None:
            yield found


class _Entry(Struct, frozen=True, kw_only=True):
    """One entry of the timeline: a step, a tool span, or the end of a span."""

    time: float
    rank: int
    """The order of entries at the same time: 0 input, 1 tool spans, 2 output, 3 ends of spans."""
    step: Step | None = None
    tool: "ToolSpan | None" = None
    span: Span | None = None
    at: float | None = None
    """When the step happened, where that is known."""


class _Timeline:
    """The steps of one conversation, in the order in which they happened."""

    def __init__(self, spans: Sequence[Span], tree: SpanTree, omissions: Omissions) -> None:
        self._spans = spans
        self._tree = tree
        self._omissions = omissions
        self._builder = TranscriptBuilder(omissions)
        self._known: list[Step] = []
        self._entries: list[_Entry] = []

    def build(self, name: str) -> RecordedConversation | None:
        without_calls = self._collect()
        calls = [entry.step for entry in self._entries if entry.step and entry.step.kind == "call"]
        tools, others = match_tool_spans(self._spans, self._tree, calls)
        self._entries += [_Entry(time=tool.start, rank=1, tool=tool) for tool in others]
        answered = {step.call_id for step in self._known if step.kind == "result"}
        for entry in sorted(self._entries, key=lambda entry: (entry.time, entry.rank)):
            if entry.tool is not None:
                self._add_tool(entry.tool)
            elif entry.step is not None:
                self._add_step(entry.step, tools.get(id(entry.step)), entry.at, answered)
            elif entry.span is not None:
                self._add_end(entry.span)
                if entry.span.trace in without_calls and not others:
                    self._builder.mark_calls_unknown()
        return self._builder.build(name, recorded=[span.raw for span in self._spans])

    def _collect(self) -> set[str]:
        """Collect the steps of all spans. Returns the traces whose spans do not show tool calls.

        Those are traces without model spans, of which only the spans of the agent are read.
        """
        begun: set[str] = set()
        for span in self._spans:
            if not span.is_model or self._tree.is_inside_tool(span):
                continue
            given, said = input_steps(span, self._omissions), output_steps(span, self._omissions)
            if given or said:
                self._collect_model(span, given, said, first=span.trace not in begun)
                begun.add(span.trace)
        without_calls: set[str] = set()
        for span in self._spans:
            if span.trace in begun or span.trace in without_calls or span.is_tool:
                continue
            if steps := all_steps(span, self._omissions):
                shows_calls = any(step.kind == "call" for step in steps)
                (begun if shows_calls else without_calls).add(span.trace)
                self._collect_agent(span, steps)
        self._entries += [
            _Entry(time=span.end, rank=3, span=span)
            for span in self._spans
            if span.is_model or self._tree.is_root(span)
        ]
        return without_calls

    def _collect_model(self, span: Span, given: list[Step], said: list[Step], *, first: bool) -> None:
        new = _new_steps(self._known, given, first=first)
        latest = max((place for place, step in enumerate(new) if step.kind == "user"), default=0)
        agent = self._tree.outermost_agent(span)
        began = agent.start if first and agent is not None else span.start
        for place, step in enumerate(new):
            at = None if place < latest else began if step.kind == "user" else span.start
            self._entries.append(_Entry(time=span.start, rank=0, step=step, at=at))
        self._entries += [_Entry(time=span.end, rank=2, step=step, at=span.end) for step in said]
        self._known += [*new, *said]

    def _collect_agent(self, span: Span, steps: list[Step]) -> None:
        """A whole conversation on one span: the user's messages are at its start, all else at its end."""
        new = _new_steps(self._known, steps, first=True)
        for step in new:
            at = span.start if step.kind in ("user", "system") else span.end
            self._entries.append(_Entry(time=at, rank=2, step=step, at=at))
        self._known += new

    def _add_step(self, step: Step, tool: "ToolSpan | None", at: float | None, answered: set[str | None]) -> None:
        match step.kind:
            case "system":
                self._builder.add_system(step.text)
            case "user":
                self._builder.add_user(step.text, at=at)
            case "reply":
                self._builder.add_reply(step.text, at=at)
            case "call":
                began = at if tool is None else tool.start
                self._builder.add_call(step.name, step.value, call_id=step.call_id, at=began)
                if tool is not None and (tool.error is not None or step.call_id not in answered):
                    self._end_call(replace(tool, call_id=step.call_id, name=step.name or tool.name))
            case "result":
                self._builder.add_result_once(step.call_id, step.value, error=step.error, name=step.name, at=at)

    def _add_tool(self, tool: "ToolSpan") -> None:
        self._builder.add_call(tool.name, tool.arguments, call_id=tool.call_id, at=tool.start)
        self._end_call(tool)

    def _end_call(self, tool: "ToolSpan") -> None:
        if tool.ended:
            self._builder.add_result(tool.call_id, tool.result, error=tool.error, name=tool.name, at=tool.end)
        else:
            self._builder.end_call(tool.call_id, name=tool.name, at=tool.end)

    def _add_end(self, span: Span) -> None:
        if span.is_model:
            self._builder.add_usage(_usage(span), cost_usd=_cost(span))
        if self._tree.is_root(span):
            self._builder.extend_turn(span.end)
            if span.failure is not None and not span.is_tool:
                self._builder.add_error(span.failure, at=span.end)


def _new_steps(known: Sequence[Step], given: Sequence[Step], *, first: bool) -> list[Step]:
    """The steps that are new in the input of a model.

    Mostly the input begins with all known steps, and the rest is new. If it does not, the user's last message is new
    at the start of a trace; later, the steps that are not known in the same order.
    """
    before = [step.identity for step in known if step.kind != "system"]
    steps = [step for step in given if step.kind != "system"]
    system = [step for step in given if step.kind == "system" and step not in known]
    if [step.identity for step in steps[: len(before)]] == before:
        return [*system, *steps[len(before) :]]
    users = [place for place, step in enumerate(steps) if step.kind == "user"]
    if first:
        return [*system, *(steps[users[-1] :] if users else ())]
    return [*system, *_unmatched(before, steps)]


def _unmatched(before: Sequence[tuple[str, str, str]], steps: Iterable[Step]) -> Iterator[Step]:
    place = 0
    for step in steps:
        if step.identity in before[place:]:
            place = before.index(step.identity, place) + 1
        else:
            yield step


def _usage(span: Span) -> Any:
    names = {
        "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
        "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    }
    return read_usage({key: attribute(span, *aliases) for key, aliases in names.items()})


def _cost(span: Span) -> float | None:
    cost = attribute(span, "llm.cost.total")
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9 else None


def input_steps(span: Span, omissions: Omissions) -> list[Step]:
    """The input of a model or an agent: instructions, the conversation so far, tool results."""
    steps = [*span.given, *_instructions(span)]
    steps += _from_messages(attribute(span, "gen_ai.input.messages"), omissions)
    steps += _from_events(span, omissions, choices=False)
    steps += _from_messages(_unflatten(span.attributes, "llm.input_messages."), omissions)
    steps += _from_messages(_unflatten(span.attributes, "gen_ai.prompt."), omissions)
    return steps


def output_steps(span: Span, omissions: Omissions) -> list[Step]:
    """The output of a model or an agent: texts and tool calls."""
    steps = list(span.said)
    steps += _from_messages(attribute(span, "gen_ai.output.messages"), omissions, role="assistant")
    steps += _from_events(span, omissions, choices=True)
    steps += _from_messages(_unflatten(span.attributes, "llm.output_messages."), omissions, role="assistant")
    steps += _from_messages(_unflatten(span.attributes, "gen_ai.completion."), omissions, role="assistant")
    return steps


def all_steps(span: Span, omissions: Omissions) -> list[Step]:
    """The whole conversation on one span of an agent; for traces without model spans."""
    whole = attribute(span, "pydantic_ai.all_messages", "all_messages_events")
    if isinstance(whole, list):
        return _instructions(span) + _from_messages(whole, omissions)
    steps = input_steps(span, omissions) + output_steps(span, omissions)
    if steps:
        return steps
    given, said = attribute(span, "input.value"), attribute(span, "output.value", "final_result")
    return _from_value(given, "user", omissions) + _from_value(said, "assistant", omissions)


def _instructions(span: Span) -> list[Step]:
    texts = [words_in(part) for part in parts_of(attribute(span, "gen_ai.system_instructions"))]
    joined = "\n".join(each for each in texts if each)
    return [Step(kind="system", text=joined)] if joined else []


def _from_value(value: Any, role: str, omissions: Omissions) -> list[Step]:
    """The `input.value` or `output.value` of OpenInference, which may be anything."""
    held = mapping(value)
    messages = held.get("messages") if "messages" in held else value
    if isinstance(messages, list) and any("role" in mapping(message) for message in messages):
        return _from_messages(messages if role == "user" else messages[-1:], omissions)
    for key in ("input", "output", "content", "text", "question", "answer", "query"):
        if text(held.get(key)):
            return list(_read_message({"role": role, "content": held[key]}, omissions))
    return list(_read_message({"role": role, "content": as_text(value)}, omissions)) if value else []


def _from_messages(messages: Any, omissions: Omissions, *, role: str | None = None) -> list[Step]:
    found: list[Step] = []
    for message in listed(messages):
        held = mapping(message)
        held = mapping(held.get("message")) or held
        found += _read_message({"role": role, **held} if role else held, omissions)
    return found


def _from_events(span: Span, omissions: Omissions, *, choices: bool) -> list[Step]:
    """The retired events `gen_ai.user.message`, `gen_ai.choice` and so on: on the span, or in an attribute."""
    events = [{**event.attributes, "event.name": event.name} for event in span.events]
    events += [dict(mapping(event)) for event in listed(attribute(span, "events"))]
    found: list[Step] = []
    for event in events:
        name = str(event.get("event.name"))
        if name == "gen_ai.choice" and choices:
            message = mapping(read_json(event.get("message"))) or event
            found += _read_message({**message, "role": "assistant"}, omissions)
        elif name.startswith("gen_ai.") and name.endswith(".message") and not choices:
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            found += _read_message({"role": role, **event}, omissions)
    return found


def _read_message(message: Mapping[str, Any], omissions: Omissions) -> Iterator[Step]:
    role = message.get("role")
    texts: list[str] = []
    content = message.get("parts", message.get("content", message.get("contents")))
    steps: list[Step] = []
    for part in parts_of(read_json(content) if isinstance(content, str) and content[:2] == "[{" else content):
        inner = mapping(part.get("message_content")) or part
        kind = inner.get("type")
        if kind in _CALLS:
            steps.append(_call(inner))
        elif kind in _RESULTS:
            steps.append(_result(inner))
        elif (words := words_in(inner)) is not None:
            texts.append(words)
        elif kind not in SILENT:
            omissions.add("part", f"of unknown type {kind_of(inner)!r}")
    for call in listed(read_json(message.get("tool_calls"))):
        steps.append(_call(mapping(mapping(call).get("tool_call")) or mapping(call)))
    if role == "tool" and not steps:
        yield _result({"id": message.get("tool_call_id", message.get("id")), "response": "".join(texts), **message})
        return
    if joined := "".join(texts):
        is_system = role in ("system", "developer")
        yield Step(kind="system" if is_system else "user" if role == "user" else "reply", text=joined)
    yield from steps


def _call(part: Mapping[str, Any]) -> Step:
    inner = mapping(part.get("function")) or mapping(part.get("server_tool_call"))
    return Step(
        kind="call",
        call_id=_id_of(part),
        name=text(inner.get("name")) or text(part.get("name")) or "unknown",
        value=read_arguments(inner.get("arguments", part.get("arguments"))),
    )


def _result(part: Mapping[str, Any]) -> Step:
    keys = ("response", "result", "server_tool_call_response", "content")
    return Step(
        kind="result",
        call_id=_id_of(part),
        name=text(part.get("name")),
        value=read_result(next((part[key] for key in keys if part.get(key) is not None), None)),
    )


def _id_of(part: Mapping[str, Any]) -> str | None:
    return _as_id(next((part[key] for key in ("id", "tool_call_id", "call_id") if part.get(key) is not None), None))


def _as_id(value: Any) -> str | None:
    return None if value is None else str(value)


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


class ToolSpan(Struct, frozen=True, kw_only=True):
    """A tool call as its span shows it."""

    name: str
    arguments: Any
    """None if they are not recorded."""
    result: Any
    error: str | None
    call_id: str | None
    start: float
    end: float
    ended: bool
    """The span shows the result or an error."""


def match_tool_spans(
    spans: Sequence[Span], tree: SpanTree, calls: Sequence[Step]
) -> tuple[dict[int, ToolSpan], list[ToolSpan]]:
    """The tool spans of calls that a model made, by `id()` of the call; and the other tool spans."""
    matched: dict[int, ToolSpan] = {}
    others: list[ToolSpan] = []
    for tool in _without_duplicates([span for span in spans if span.is_tool], tree):
        call = _find_call(tool, [call for call in calls if id(call) not in matched])
        if call is None:
            others.append(tool)
        else:
            matched[id(call)] = tool
    return matched, others


def _find_call(tool: ToolSpan, calls: Sequence[Step]) -> Step | None:
    if tool.call_id is not None:
        return next((call for call in calls if call.call_id == tool.call_id), None)
    named = [call for call in calls if call.name == tool.name]
    if tool.arguments is None:
        return next(iter(named), None)
    return next((call for call in named if _same(call.value, tool.arguments)), None)


def _without_duplicates(spans: Sequence[Span], tree: SpanTree) -> list[ToolSpan]:
    """Each tool call once: an MCP client and server write a span of a call, too."""
    kept: list[tuple[Span, ToolSpan]] = []
    for span in sorted(spans, key=lambda span: (span.is_mcp, span.start)):
        tool = _read_tool(span)
        place = next(
            (i for i, (other, known) in enumerate(kept) if _is_same_call(span, tool, other, known, tree)), None
        )
        if place is None:
            kept.append((span, tool))
        else:
            kept[place] = (kept[place][0], _filled(kept[place][1], tool))
    return sorted((tool for _, tool in kept), key=lambda tool: tool.start)


def _is_same_call(span: Span, tool: ToolSpan, other: Span, known: ToolSpan, tree: SpanTree) -> bool:
    """Whether an MCP span shows the call of another span: same id, below it, or same parent and arguments."""
    if not span.is_mcp or tool.name != known.name:
        return False
    if tool.call_id is not None and known.call_id is not None:
        return tool.call_id == known.call_id
    if any(above.id == other.id for above in tree.ancestors(span)):
        return True
    request = span.attributes.get("jsonrpc.request.id")
    if other.is_mcp and request is not None and span.attributes.get("mcp.session.id") is not None:
        theirs = (other.attributes.get("jsonrpc.request.id"), other.attributes.get("mcp.session.id"))
        return theirs == (request, span.attributes["mcp.session.id"])
    return span.trace == other.trace and span.parent == other.parent and _same(tool.arguments, known.arguments)


def _filled(tool: ToolSpan, duplicate: ToolSpan) -> ToolSpan:
    """The tool span, with values that only its duplicate has."""
    has_end = tool.result is not None or tool.error is not None
    return replace(
        tool,
        arguments=duplicate.arguments if tool.arguments is None else tool.arguments,
        result=tool.result if has_end else duplicate.result,
        error=tool.error if has_end else duplicate.error,
        ended=tool.ended or duplicate.ended,
        call_id=tool.call_id or duplicate.call_id,
    )


def _read_tool(span: Span) -> ToolSpan:
    given = attribute(span, "gen_ai.tool.call.arguments", "tool_call.function.arguments", "tool_arguments")
    if given is None and not span.is_mcp:
        value = attribute(span, "input.value")
        given = value if isinstance(value, dict) else attribute(span, "tool.parameters") or value
    result = attribute(span, *_RESULT_NAMES)
    error = span.failure
    if error is None and mapping(result).get("isError") is True:
        error = as_text(mapping(result).get("content") or result)
    return ToolSpan(
        name=text(attribute(span, "gen_ai.tool.name", "tool.name", "tool_call.function.name")) or "unknown",
        arguments=None if given is None else read_arguments(given),
        result=None if error is not None else read_result(result),
        error=error,
        call_id=_as_id(attribute(span, "gen_ai.tool.call.id", "tool_call.id", "tool.id")),
        start=span.start,
        end=span.end,
        ended=error is not None or any(name in span.attributes for name in _RESULT_NAMES),
    )


def _same(one: Any, other: Any) -> bool:
    return canonical(one) == canonical(other)
