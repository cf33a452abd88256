"""Traces of Langfuse with their observations, as its API and its exports give them."""

from collections.abc import Iterator, Mapping
from typing import Any

from .documents import flatten
from .otlp import read_conversations
from .otlp_spans import Span, model_attributes, tool_attributes
from .parsing import Omissions, listed, mapping, read_json, read_time, text
from .steps import Step, steps_of
from .transcript_builder import RecordedConversation

_TYPES = ("GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL")


def matches(documents: list[Any]) -> bool:
    """Whether a document is a trace with observations, or an observation."""
    return any(_is_trace(item) or _is_observation(item) for item in _items(documents))


def read(documents: list[Any], omissions: Omissions) -> Iterator[RecordedConversation]:
    """One conversation for each session, else for each trace."""
    spans: list[Span] = []
    for item in _items(documents):
        session = text(_either(item, "sessionId", "session_id"))
        if _is_trace(item):
            spans.append(_read_trace(item, session))
        observations = listed(item.get("observations")) if _is_trace(item) else [item]
        spans += [_read(mapping(each), session, omissions) for each in observations if _is_observation(mapping(each))]
    yield from read_conversations(sorted(spans, key=lambda span: span.start), omissions)


def _items(documents: list[Any]) -> Iterator[Mapping[str, Any]]:
    """Traces and observations: one by one, in a list, or in a page (`data`) of the API."""
    for document in flatten(documents):
        held = mapping(document)
        yield from map(mapping, listed(held.get("data")) or [held])


def _is_trace(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("observations"), list) and "id" in item


def _is_observation(item: Mapping[str, Any]) -> bool:
    return item.get("type") in _TYPES and _either(item, "traceId", "trace_id") is not None


def _either(item: Mapping[str, Any], *keys: str) -> Any:
    return next((item[key] for key in keys if item.get(key) is not None), None)


def _read_trace(trace: Mapping[str, Any], session: str | None) -> Span:
    """The trace itself as the outermost span: its input and output are used if there are no model calls."""
    inner = [mapping(each) for each in listed(trace.get("observations"))]
    ends = [read_time(_either(each, "endTime", "end_time")) or 0.0 for each in inner]
    start = read_time(_either(trace, "timestamp", "createdAt")) or 0.0
    values = {"input.value": trace.get("input"), "output.value": trace.get("output")}
    return Span(
        trace=str(trace["id"]),
        id=f"trace-{trace['id']}",
        parent=None,
        start=start,
        end=max([start, *ends]),
        attributes={
            "openinference.span.kind": "AGENT",
            **{key: value for key, value in values.items() if value is not None},
            **({"session.id": session} if session else {}),
        },
        events=(),
        failure=None,
        raw={key: value for key, value in trace.items() if key != "observations"},
    )


def _read(item: Mapping[str, Any], session: str | None, omissions: Omissions) -> Span:
    start = read_time(_either(item, "startTime", "start_time")) or 0.0
    is_model = item["type"] == "GENERATION"
    trace = str(_either(item, "traceId", "trace_id"))
    failed = item.get("level") == "ERROR"
    message = text(_either(item, "statusMessage", "status_message"))
    return Span(
        trace=trace,
        id=str(item.get("id")),
        parent=text(_either(item, "parentObservationId", "parent_observation_id")) or f"trace-{trace}",
        start=start,
        end=max(start, read_time(_either(item, "endTime", "end_time")) or 0.0),
        attributes={**_attributes(item, failed=failed), **({"session.id": session} if session else {})},
        events=(),
        failure=(message or "the observation has the level ERROR") if failed else None,
        raw=item,
        given=tuple(_given(read_json(item.get("input")), omissions)) if is_model else (),
        said=tuple(_said(read_json(item.get("output")), omissions)) if is_model else (),
    )


def _attributes(item: Mapping[str, Any], *, failed: bool) -> dict[str, Any]:
    if item["type"] == "GENERATION":
        usage = mapping(_either(item, "usageDetails", "usage_details", "usage"))
        cost = _either(item, "calculatedTotalCost", "totalCost", "total_cost")
        taken = _either(usage, "input", "promptTokens", "input_tokens", "prompt_tokens")
        given = _either(usage, "output", "completionTokens", "output_tokens", "completion_tokens")
        return model_attributes(taken, given, cost=cost)
    if item["type"] != "TOOL":
        return {"gen_ai.operation.name": "invoke_agent" if item["type"] == "AGENT" else str(item["type"])}
    metadata = mapping(item.get("metadata"))
    call_id = _either(metadata, "tool_call_id", "toolCallId")
    found = tool_attributes(item.get("name"), read_json(item.get("input")), call_id=call_id)
    if item.get("output") is not None and not failed:
        found["gen_ai.tool.call.result"] = item["output"]
    return found


def _given(value: Any, omissions: Omissions) -> list[Step]:
    messages = mapping(value).get("messages", value)
    if isinstance(messages, str):
        return [Step(kind="user", text=messages)]
    return steps_of(messages if isinstance(messages, list) else [mapping(messages)], omissions)


def _said(value: Any, omissions: Omissions) -> list[Step]:
    if isinstance(value, str):
        return [Step(kind="reply", text=value)] if value else []
    messages = value if isinstance(value, list) else [value]
    held = [mapping(mapping(each).get("message")) or mapping(each) for each in messages]
    return steps_of([{"role": "assistant", **message} for message in held if message], omissions)
