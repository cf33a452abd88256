"""Spans of trials, turns and tool calls, with results as `gen_ai.evaluation.result` events; and their export."""

import json
import queue
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import ErrorInfo, PlayedTurn, ToolCall, Usage
from seatrial.model.results import EvalResult, Judgement
from seatrial.model.run import Run, Trial
from seatrial.model.run import Status as Verdict

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer


Attributes = dict[str, str | bool | int | float]


def evaluation_events(trial: Trial) -> Iterator[tuple[int | None, Attributes]]:
    """One event for each result: its turn, or None for the whole trial, and its attributes."""
    for result in trial.results:
        yield result.turn, _of_result(result)
    if trial.judgement is not None:
        yield from _of_judgement(trial.judgement)


def _of_result(result: EvalResult) -> Attributes:
    if result.error is not None:
        return _error_event(result.evaluator, result.error)
    return _event(result.evaluator, result.score, "pass" if result.passed else "fail", result.reasoning)


def _of_judgement(judgement: Judgement) -> Iterator[tuple[int | None, Attributes]]:
    for score in judgement.scores:
        yield score.turn, _event(score.metric, score.value, score.label, score.reason)
    for outcome in judgement.outcomes:
        label = "pass" if outcome.passed else "fail"
        name = f"outcome: {outcome.statement}"
        yield None, _event(name, float(outcome.passed), label, outcome.justification)
    if judgement.overall_score is not None:
        yield None, _event("overall_score", judgement.overall_score, None, judgement.summary)
    if judgement.error is not None:
        yield None, _error_event("judge", judgement.error)


def _error_event(name: str, error: ErrorInfo) -> Attributes:
    """An event without a score: a zero would count against the agent."""
    return {**_event(name, None, "error", error.message), "error.type": error.kind.value}


def _event(name: str, value: float | None, label: str | None, explanation: str) -> Attributes:
    attributes: Attributes = {"gen_ai.evaluation.name": name}
    if value is not None:
        attributes["gen_ai.evaluation.score.value"] = float(value)
    if label is not None:
        attributes["gen_ai.evaluation.score.label"] = label
    if explanation:
        attributes["gen_ai.evaluation.explanation"] = explanation
    return attributes


_TEST_RESULTS = {Verdict.PASSED: "pass", Verdict.FAILED: "fail"}
EVENT = "gen_ai.evaluation.result"


class TrialSpans:
    """Writes the spans of one run."""

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
            # A call that the agent reported has no time; use that of the turn.
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
        """The agent's import path, model or type, from the config of the run."""
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
        if call.error is None and call.result_known:
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
    return {"role": role, "parts": [{"type": "text", "content": text}] if text else []}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _nanoseconds(trial: Trial) -> int:
    return int(trial.started_at.timestamp() * 1_000_000) * 1_000


def _ms(milliseconds: float) -> int:
    return int(milliseconds * 1_000_000)


BATCH: Final = 512
WAITING: Final = 4096
"""The most spans in memory. When there are more, the run waits for the export."""
CLOSE_SECONDS: Final = 15.0


class Sender(SpanProcessor):
    """Exports in a thread of its own. After the first failure it only counts the spans."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._waiting: queue.Queue[ReadableSpan | None] = queue.Queue(WAITING)
        self._broken = False
        self.lost = 0
        """Spans that were not exported."""
        self._thread = threading.Thread(target=self._work, name="seatrial-spans", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._waiting.put(span)

    def shutdown(self) -> None:
        """Export the rest, but do not wait longer than CLOSE_SECONDS."""
        self._waiting.put(None)
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self.lost += self._waiting.qsize()
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return True

    def _work(self) -> None:
        ended = False
        while not ended:
            batch = [self._waiting.get()]
            while len(batch) < BATCH and batch[-1] is not None and not self._waiting.empty():
                batch.append(self._waiting.get())
            ended = batch[-1] is None
            self._export([span for span in batch if span is not None])

    def _export(self, batch: list[ReadableSpan]) -> None:
        if batch and not self._broken:
            try:
                self._broken = self._exporter.export(batch) is not SpanExportResult.SUCCESS
            except Exception:
                # An exporter is foreign code.
                self._broken = True
        if self._broken:
            self.lost += len(batch)


class OwnProvider:
    """A TracerProvider for one run, with the exporter that the environment names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider

        self._sender = Sender(_exporter(environ))
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
        named = {} if environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "seatrial"}
        self.provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
        self.provider.add_span_processor(self._sender)

    def close(self) -> int:
        """Export the rest. Returns the number of spans that were not exported."""
        self.provider.shutdown()
        return self._sender.lost


def _exporter(environ: Mapping[str, str]) -> SpanExporter:
    kind = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if kind == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # stdout is for the report
    if kind == "otlp":
        return _otlp(environ)
    raise UsageError(f"OTEL_TRACES_EXPORTER={kind!r}: expected otlp, console or none")


def _otlp(environ: Mapping[str, str]) -> SpanExporter:
    protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in (None, "", "http/protobuf"):
        raise UsageError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r}: only http/protobuf is supported")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise MissingExtra("otel", needed_for="exporting spans over OTLP") from None
    return OTLPSpanExporter()
