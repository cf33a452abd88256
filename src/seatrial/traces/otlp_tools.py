"""Tools on spans: each call once, although agent, MCP client and MCP server may all have noted it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from seatrial.model.struct import Struct

from .otlp_messages import Piece
from .otlp_spans import Span, attribute
from .parsing import as_text, mapping, read_arguments, read_result, text


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
