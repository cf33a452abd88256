"""Spans of OTLP-JSON: their kind, times, attributes and parents."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seatrial.model.struct import Struct

from .parsing import listed, mapping, read_count, read_json, text
from .steps import Step

_MODEL = ("chat", "generate_content", "text_completion")
_AGENT = ("invoke_agent", "invoke_workflow")
_DEEPEST = 50


class Event(Struct, frozen=True, kw_only=True):
    """An event on a span."""

    name: str
    attributes: Mapping[str, Any]


class Span(Struct, frozen=True, kw_only=True):
    """One span, with its attributes as plain values."""

    trace: str
    id: str
    parent: str | None
    start: float
    """Milliseconds since 1970, as is the end."""
    end: float
    attributes: Mapping[str, Any]
    events: tuple[Event, ...]
    failure: str | None
    """The error message, if the span has an error."""
    raw: Mapping[str, Any]
    """The span as it is in the file."""
    given: tuple[Step, ...] = ()
    """The input, where another format than OTLP holds it."""
    said: tuple[Step, ...] = ()
    """The output, likewise."""

    @property
    def is_model(self) -> bool:
        """Whether it is a model call."""
        operation = self.attributes.get("gen_ai.operation.name")
        return operation in _MODEL if operation else self.attributes.get("openinference.span.kind") == "LLM"

    @property
    def is_mcp(self) -> bool:
        return self.attributes.get("mcp.method.name") == "tools/call"

    @property
    def is_tool(self) -> bool:
        """Whether it is a tool call."""
        operation = self.attributes.get("gen_ai.operation.name")
        if self.is_mcp or operation == "execute_tool":
            return True
        return not operation and self.attributes.get("openinference.span.kind") == "TOOL"

    @property
    def is_agent(self) -> bool:
        operation = self.attributes.get("gen_ai.operation.name")
        return operation in _AGENT if operation else self.attributes.get("openinference.span.kind") == "AGENT"

    @property
    def conversation(self) -> str | None:
        """The id of its conversation, if it has one."""
        for key in ("gen_ai.conversation.id", "session.id"):
            if found := text(self.attributes.get(key)):
                return found
        return None


def is_otlp(document: Any) -> bool:
    """Whether it is an export of spans, or one span."""
    held = mapping(document)
    if any(key in held for key in ("resourceSpans", "resource_spans", "scopeSpans")):
        return True
    return ("spanId" in held or "span_id" in held) and ("traceId" in held or "trace_id" in held)


def read_spans(documents: list[Any]) -> list[Span]:
    """All spans by their start, each once."""
    found: dict[tuple[str, str], Span] = {}
    for document in documents:
        for each in document if isinstance(document, list) else [document]:
            for raw in _inside(mapping(each)):
                span = _read_span(raw, number=len(found))
                found.setdefault((span.trace, span.id), span)
    return sorted(found.values(), key=lambda span: span.start)


def _inside(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "spanId" in document or "span_id" in document:
        yield document
    for keys in (("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"), ("spans",)):
        for key in keys:
            for inner in listed(document.get(key)):
                yield from _inside(mapping(inner))


def _read_span(raw: Mapping[str, Any], *, number: int) -> Span:
    start = _nanoseconds(_either(raw, "startTimeUnixNano", "start_time_unix_nano"))
    end = _nanoseconds(_either(raw, "endTimeUnixNano", "end_time_unix_nano"))
    attributes = _with_usual_names(read_attributes(raw.get("attributes")))
    events = tuple(
        Event(name=str(mapping(event).get("name")), attributes=read_attributes(mapping(event).get("attributes")))
        for event in listed(raw.get("events"))
    )
    if attributes.get("langfuse.observation.type") == "tool":
        attributes["gen_ai.tool.name"] = raw.get("name")
    return Span(
        trace=str(_either(raw, "traceId", "trace_id")),
        id=str(_either(raw, "spanId", "span_id") or f"span-{number}"),
        parent=text(_either(raw, "parentSpanId", "parent_span_id")),
        start=start,
        end=max(start, end),
        attributes=attributes,
        events=events,
        failure=_read_failure(mapping(raw.get("status")), attributes, events),
        raw=raw,
    )


def _with_usual_names(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes, with those of Traceloop and Langfuse under the names of OTel GenAI as well."""
    found: dict[str, Any] = {}
    if "traceloop.span.kind" in attributes:
        found = _from_traceloop(attributes)
    elif "langfuse.observation.type" in attributes:
        found = _from_langfuse(attributes)
    elif attributes.get("llm.request.type") in _MODEL:
        found = {"gen_ai.operation.name": attributes["llm.request.type"]}
    return {**found, **attributes}


def _from_traceloop(attributes: Mapping[str, Any]) -> dict[str, Any]:
    kind = attributes["traceloop.span.kind"]
    if kind != "tool":
        return {"gen_ai.operation.name": "invoke_agent"} if kind == "agent" else {}
    given = read_json(attributes.get("traceloop.entity.input"))
    # Positional arguments have no names, so the arguments are not known.
    by_name = mapping(given).get("kwargs", given) if not mapping(given).get("args") else None
    found = tool_attributes(attributes.get("traceloop.entity.name"), by_name)
    if "traceloop.entity.output" in attributes:
        found["gen_ai.tool.call.result"] = attributes["traceloop.entity.output"]
    return found


def _from_langfuse(attributes: Mapping[str, Any]) -> dict[str, Any]:
    prefix = "langfuse.observation."
    kind = attributes[prefix + "type"]
    given, said = (read_json(attributes.get(prefix + key)) for key in ("input", "output"))
    error = attributes.get(prefix + "status_message") if attributes.get(prefix + "level") == "ERROR" else None
    found: dict[str, Any] = {"error.type": error} if error else {}
    if kind == "tool":
        found |= tool_attributes(None, given)
        return {**found, "gen_ai.tool.call.result": said} if prefix + "output" in attributes else found
    if kind == "generation":
        usage = mapping(read_json(attributes.get(prefix + "usage_details")))
        found |= model_attributes(usage.get("input"), usage.get("output"))
        found["gen_ai.input.messages"] = given if isinstance(given, list) else [{"role": "user", "content": given}]
        answer = said if isinstance(said, Mapping) else {"content": said}
        found["gen_ai.output.messages"] = said if isinstance(said, list) else [answer]
    elif kind == "agent":
        found["gen_ai.operation.name"] = "invoke_agent"
    return found


def _either(raw: Mapping[str, Any], *keys: str) -> Any:
    return next((raw[key] for key in keys if key in raw), None)


def _nanoseconds(value: Any) -> float:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 25:
        return int(value) / 1e6
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e25
    return value / 1e6 if fits else 0.0


def _read_failure(status: Mapping[str, Any], attributes: Mapping[str, Any], events: tuple[Event, ...]) -> str | None:
    if status.get("code") not in (2, "2", "STATUS_CODE_ERROR") and not text(attributes.get("error.type")):
        return None
    for event in events:
        if event.name == "exception" and text(event.attributes.get("exception.message")):
            return str(event.attributes["exception.message"])
    return text(status.get("message")) or text(attributes.get("error.type")) or "the span has the status error"


def read_attributes(attributes: Any) -> dict[str, Any]:
    """The attributes as a mapping of plain values."""
    if isinstance(attributes, Mapping):  # as some tools write them
        return dict(attributes)
    found: dict[str, Any] = {}
    for each in listed(attributes):
        pair = mapping(each)
        if isinstance(pair.get("key"), str):
            found[pair["key"]] = _read_value(pair.get("value"))
    return found


def _read_value(value: Any, depth: int = 0) -> Any:
    held = mapping(value)
    if depth > _DEEPEST:
        return "[nested too deeply]"
    for key, inner in held.items():
        match key:
            case "stringValue" | "boolValue" | "doubleValue" | "bytesValue":
                return inner
            case "intValue":
                return read_count(inner) if read_count(inner) is not None else inner
            case "arrayValue":
                return [_read_value(item, depth + 1) for item in listed(mapping(inner).get("values"))]
            case "kvlistValue":
                pairs = [mapping(pair) for pair in listed(mapping(inner).get("values"))]
                return {str(pair.get("key")): _read_value(pair.get("value"), depth + 1) for pair in pairs}
    return None if not held else dict(held)


def attribute(span: Span, *names: str) -> Any:
    """The value of the first of these attributes that exists; JSON in a text is parsed."""
    for name in names:
        if name in span.attributes:
            return read_json(span.attributes[name])
    return None


def tool_attributes(name: Any, arguments: Any, *, call_id: Any = None) -> dict[str, Any]:
    """The attributes of a tool call, for formats other than OTLP."""
    found = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.arguments": arguments}
    return {**found, "gen_ai.tool.call.id": str(call_id)} if call_id is not None else found


def model_attributes(input_tokens: Any, output_tokens: Any, *, cost: Any = None) -> dict[str, Any]:
    """The attributes of a model call, for formats other than OTLP."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": input_tokens,
        "gen_ai.usage.output_tokens": output_tokens,
        "llm.cost.total": cost,
    }


class SpanTree:
    """Spans with their parents."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self._by_id = {(span.trace, span.id): span for span in spans}
        self._conversations: dict[str, set[str]] = {}
        """The ids of conversations by trace."""
        for span in spans:
            if span.conversation is not None:
                self._conversations.setdefault(span.trace, set()).add(span.conversation)

    def ancestors(self, span: Span) -> Iterator[Span]:
        """The parent first. A broken file may have a cycle."""
        seen = {span.id}
        while span.parent is not None and span.parent not in seen:
            seen.add(span.parent)
            above = self._by_id.get((span.trace, span.parent))
            if above is None:
                return
            yield above
            span = above

    def conversation(self, span: Span) -> str:
        """Its own id, else that of the nearest ancestor, else the only one of the trace, else the id of the trace."""
        for each in (span, *self.ancestors(span)):
            if each.conversation is not None:
                return each.conversation
        known = self._conversations.get(span.trace, set())
        return next(iter(known)) if len(known) == 1 else span.trace

    def is_inside_tool(self, span: Span) -> bool:
        """Whether a tool made it: an agent inside a tool does not talk to the user."""
        return any(above.is_tool for above in self.ancestors(span))

    def outermost_agent(self, span: Span) -> Span | None:
        return next((above for above in reversed(list(self.ancestors(span))) if above.is_agent), None)

    def is_root(self, span: Span) -> bool:
        return next(self.ancestors(span), None) is None
