"""Traces of the OpenAI Agents SDK: what `trace.export()` and `span.export()` give, as its exporter sends them."""

from collections.abc import Iterator, Mapping
from typing import Any

from .documents import flatten
from .otlp import read_conversations
from .otlp_spans import Span, model_attributes, tool_attributes
from .parsing import Omissions, as_text, listed, mapping, read_json, read_time, text
from .steps import steps_of
from .transcript_builder import RecordedConversation

_NO_TEXTS = "without texts: the SDK exports only the id of a response. Record result.to_input_list() instead, which"


def matches(documents: list[Any]) -> bool:
    """Whether a document is a span of the SDK."""
    return any(_is_span(item) for item in _items(documents))


def read(documents: list[Any], omissions: Omissions) -> Iterator[RecordedConversation]:
    """One conversation for each group of traces, else for each trace."""
    groups = {item.get("id"): text(item.get("group_id")) for item in _items(documents) if item.get("object") == "trace"}
    spans = [_read_span(item, groups, omissions) for item in _items(documents) if _is_span(item)]
    yield from read_conversations(sorted(spans, key=lambda span: span.start), omissions)


def _items(documents: list[Any]) -> Iterator[Mapping[str, Any]]:
    """Traces and spans: one by one, in a list, or in the `data` of a request to the tracing API."""
    for document in flatten(documents):
        held = mapping(document)
        yield from map(mapping, listed(held.get("data")) or [held])


def _is_span(item: Mapping[str, Any]) -> bool:
    return item.get("object") == "trace.span" and isinstance(item.get("span_data"), Mapping)


def _read_span(item: Mapping[str, Any], groups: Mapping[Any, str | None], omissions: Omissions) -> Span:
    data = item["span_data"]
    start = read_time(item.get("started_at")) or 0.0
    error = mapping(item.get("error"))
    kind = data.get("type")
    attributes: dict[str, Any] = {"gen_ai.operation.name": "invoke_agent" if kind == "agent" else str(kind)}
    if kind == "generation":
        usage = mapping(data.get("usage"))
        attributes = model_attributes(usage.get("input_tokens"), usage.get("output_tokens"))
    elif kind == "function":
        attributes = tool_attributes(data.get("name"), read_json(data.get("input")))
        if data.get("output") is not None and not error:
            attributes["gen_ai.tool.call.result"] = data["output"]
    elif kind == "response":
        omissions.add("model call", _NO_TEXTS)
    group = groups.get(item.get("trace_id"))
    return Span(
        trace=str(item.get("trace_id")),
        id=str(item.get("id")),
        parent=text(item.get("parent_id")),
        start=start,
        end=max(start, read_time(item.get("ended_at")) or 0.0),
        attributes={**attributes, **({"gen_ai.conversation.id": group} if group else {})},
        events=(),
        failure=_failure(error),
        raw=item,
        given=tuple(steps_of(listed(data.get("input")), omissions)) if kind == "generation" else (),
        said=tuple(steps_of(listed(data.get("output")), omissions)) if kind == "generation" else (),
    )


def _failure(error: Mapping[str, Any]) -> str | None:
    """The error's message; the cause behind it if the SDK noted one."""
    if not error:
        return None
    return as_text(mapping(error.get("data")).get("error") or error.get("message") or "the span has an error")
