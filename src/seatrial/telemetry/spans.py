"""One trial as a trace: the trial, an `invoke_agent` span per turn, an `execute_tool` span per call.

Names and attributes are those of OpenTelemetry's conventions for generative AI and for tests; what they do not name
stands under `seatrial.`. Times are those of the transcript, since a trial is written when it is over.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from seatrial.model.conversation import ErrorInfo, PlayedTurn, ToolCall, Usage
from seatrial.model.run import Run, Trial
from seatrial.model.run import Status as Verdict

from .results import evaluation_events

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

Attributes = dict[str, str | bool | int | float]

_TEST_RESULTS = {Verdict.PASSED: "pass", Verdict.FAILED: "fail"}
EVENT = "gen_ai.evaluation.result"


class TrialSpans:
    """Writes the trials of one run."""

    def __init__(self, tracer: "Tracer", run: Run, *, with_content: bool) -> None:
        self._tracer = tracer
        self._run = run
        self._with_content = with_content

    def write(self, trial: Trial, *, within: "Context | None" = None) -> None:
        began = _nanoseconds(trial)
        root = self._tracer.start_span(
            f"trial {trial.key.name}",
            context=within,
            attributes=self._trial_attributes(trial),
            start_time=began,
        )
        inside = set_span_in_context(root, within)
        ends = began + _ms(trial.duration_ms)
        turns = [self._start_turn(trial, turn, inside, began) for turn in trial.transcript.turns]
        for index, attributes in evaluation_events(trial):
            place = turns[index] if index is not None and index < len(turns) else root
            place.add_event(EVENT, attributes, timestamp=ends)
        for span, turn in zip(turns, trial.transcript.turns, strict=True):
            self._write_calls(turn, set_span_in_context(span, inside), began)
            span.end(began + _ms(turn.started_ms + turn.latency_ms))
        _mark_trial(root, trial)
        root.end(ends)

    def _trial_attributes(self, trial: Trial) -> Attributes:
        key = trial.key
        attributes: Attributes = {
            "test.suite.name": key.suite,
            "test.case.name": key.name,
            "gen_ai.conversation.id": self._conversation(trial),
            "seatrial.run.id": self._run.id,
            "seatrial.run.name": self._run.name,
            "seatrial.trial": trial.id,
            "seatrial.status": trial.status.value,
            "seatrial.stop_reason": trial.transcript.stop_reason.value,
        }
        if trial.status in _TEST_RESULTS:
            attributes["test.case.result.status"] = _TEST_RESULTS[trial.status]
        cost = trial.transcript.cost_usd
        if cost is not None:
            attributes["seatrial.cost_usd"] = cost
        return attributes

    def _start_turn(self, trial: Trial, turn: PlayedTurn, inside: "Context", began: int) -> "Span":
        agent = trial.key.agent or self._agent_of(trial.key.suite)
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": self._conversation(trial),
            "seatrial.turn": turn.index + 1,
            **_usage(turn.usage),
        }
        if agent:
            attributes["gen_ai.agent.name"] = agent
        if self._with_content:
            attributes |= _content(turn, trial.transcript.history if turn.index == 0 else ())
        span = self._tracer.start_span(
            f"invoke_agent {agent}" if agent else "invoke_agent",
            context=inside,
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=began + _ms(turn.started_ms),
        )
        if turn.error is not None:
            _mark_error(span, turn.error)
        return span

    def _write_calls(self, turn: PlayedTurn, inside: "Context", began: int) -> None:
        for call in turn.tool_calls or ():
            # A call that only the agent told us of has no time; it happened somewhere in the turn.
            started = turn.started_ms if call.started_ms is None else call.started_ms
            span = self._tracer.start_span(
                f"execute_tool {call.name}",
                context=inside,
                attributes=_call_attributes(call, with_content=self._with_content),
                start_time=began + _ms(started),
            )
            if call.error is not None:
                span.set_attribute("error.type", "tool_error")
                span.set_status(Status(StatusCode.ERROR, call.error if self._with_content else None))
            span.end(began + _ms(started + (call.duration_ms or 0.0)))

    def _conversation(self, trial: Trial) -> str:
        key = trial.key
        return "/".join(part for part in (self._run.id, key.suite, key.name, key.agent, trial.id) if part)

    def _agent_of(self, suite: str) -> str:
        """What stands for the agent in the record of the run: its import path, its model, or its type."""
        config = self._run.config or {}
        spec = config.get("agent") or (config.get("agents") or {}).get(suite)
        if isinstance(spec, Mapping):
            spec = next((spec[name] for name in ("target", "model", "type") if spec.get(name)), None)
        return spec if isinstance(spec, str) else ""


def _mark_trial(span: "Span", trial: Trial) -> None:
    if trial.error is not None:
        _mark_error(span, trial.error)
    elif trial.status is Verdict.FAILED:
        span.set_status(Status(StatusCode.ERROR, "; ".join(trial.failure_reasons)))


def _mark_error(span: "Span", error: ErrorInfo) -> None:
    span.set_attribute("error.type", error.kind.value)
    span.set_status(Status(StatusCode.ERROR, error.message))


def _call_attributes(call: ToolCall, *, with_content: bool) -> Attributes:
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
    }
    if call.id is not None:
        attributes["gen_ai.tool.call.id"] = call.id
    if with_content:
        attributes["gen_ai.tool.call.arguments"] = _json(call.arguments)
        if call.error is None:
            attributes["gen_ai.tool.call.result"] = _json(call.result)
    return attributes


def _usage(usage: Usage | None) -> Attributes:
    if usage is None:
        return {}
    said = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return {f"gen_ai.usage.{name}": count for name, count in said.items() if count is not None}


def _content(turn: PlayedTurn, history: Sequence[Mapping[str, Any]]) -> Attributes:
    asked = [_message(str(m.get("role", "")), m.get("content")) for m in history] + [_message("user", turn.user)]
    attributes: Attributes = {"gen_ai.input.messages": _json(asked)}
    if turn.reply is not None:
        attributes["gen_ai.output.messages"] = _json([_message("assistant", turn.reply)])
    return attributes


def _message(role: str, content: Any) -> dict[str, Any]:
    text = content if isinstance(content, str) else _json(content)
    return {"role": role, "parts": list(_text_parts(text))}


def _text_parts(text: str) -> Iterator[dict[str, str]]:
    if text:
        yield {"type": "text", "content": text}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _nanoseconds(trial: Trial) -> int:
    return int(trial.started_at.timestamp() * 1_000_000) * 1_000


def _ms(milliseconds: float) -> int:
    return int(milliseconds * 1_000_000)
