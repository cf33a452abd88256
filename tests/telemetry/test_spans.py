"""Finished trials become spans of the process's own TracerProvider, in the names of the conventions."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.util._once import Once

import seatrial
from seatrial import AgentResult, Scenario, ToolError
from seatrial.model.conversation import Usage
from seatrial.telemetry.setup import span_listeners

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What a process that has set a TracerProvider collects."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    trace.set_tracer_provider(provider)
    yield kept
    provider.shutdown()


def refund(args: dict[str, Any], ctx: Any) -> Any:
    if args["amount"] > 100:
        raise ToolError("card declined")
    return {"receipt": "R-1"}


def shop(messages: list[dict[str, Any]], ctx: Any) -> AgentResult:
    amount = 500 if "500" in messages[-1]["content"] else 10
    try:
        receipt = ctx.call_tool("refund", {"amount": amount})["receipt"]
    except ToolError as error:
        return AgentResult(f"Sorry: {error}", usage=Usage(input_tokens=7, output_tokens=3))
    return AgentResult(f"Done, {receipt}.", usage=Usage(input_tokens=7, output_tokens=3))


def play(scenario: Scenario, agent: Any = shop) -> None:
    seatrial.run(scenario, agent=agent, store=None)


def asked(text: str = "Refund 10.", **more: Any) -> Scenario:
    return Scenario(name="refund", input=text, mocks={"refund": refund}, **more)


def named(spans: tuple[ReadableSpan, ...], start: str) -> ReadableSpan:
    (found,) = [span for span in spans if span.name.startswith(start)]
    return found


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def events(span: ReadableSpan) -> list[dict[str, Any]]:
    assert all(event.name == "gen_ai.evaluation.result" for event in span.events)
    return [dict(event.attributes or {}) for event in span.events]


def test_a_trial_is_a_span_with_its_turns_and_their_calls_inside(exporter: InMemorySpanExporter) -> None:
    play(asked())

    spans = exporter.get_finished_spans()
    trial, turn, call = (named(spans, name) for name in ("trial refund", "invoke_agent", "execute_tool refund"))
    assert len(spans) == 3
    assert parent_of(trial) is None
    assert trial.context is not None
    assert turn.context is not None
    assert (parent_of(turn), parent_of(call)) == (trial.context.span_id, turn.context.span_id)


def test_spans_carry_the_names_of_the_conventions(exporter: InMemorySpanExporter) -> None:
    play(asked())

    spans = exporter.get_finished_spans()
    turn = named(spans, "invoke_agent")
    assert turn.kind is SpanKind.CLIENT
    assert turn.name == f"invoke_agent {(turn.attributes or {})['gen_ai.agent.name']}"
    assert dict(turn.attributes or {}).items() >= {
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.usage.input_tokens", 7),
        ("gen_ai.usage.output_tokens", 3),
    }
    assert dict(named(spans, "execute_tool").attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "refund",
        "gen_ai.tool.type": "function",
    }
    assert dict(named(spans, "trial").attributes or {}).items() >= {
        ("test.case.name", "refund"),
        ("test.case.result.status", "pass"),
        ("seatrial.trial", "trial-1"),
    }


def test_times_are_those_of_the_transcript(exporter: InMemorySpanExporter) -> None:
    play(asked())

    spans = exporter.get_finished_spans()
    trial, turn, call = (named(spans, name) for name in ("trial", "invoke_agent", "execute_tool"))
    assert trial.start_time is not None
    assert turn.start_time is not None
    assert call.start_time is not None
    assert call.end_time is not None
    assert turn.end_time is not None
    assert trial.end_time is not None
    assert trial.start_time <= turn.start_time <= call.start_time <= call.end_time <= turn.end_time <= trial.end_time


def test_each_result_is_an_event_of_the_span_it_speaks_about(exporter: InMemorySpanExporter) -> None:
    scenario = Scenario(
        name="refund",
        turns=[seatrial.Turn(user="Refund 10.", expect={"reply_contains_all": ["R-1"]})],
        mocks={"refund": refund, "send_email": {"returns": {}}},
        expected_tools=["refund", "send_email"],
    )
    play(scenario)

    spans = exporter.get_finished_spans()
    turn_events = events(named(spans, "invoke_agent"))
    (trial_event,) = events(named(spans, "trial"))
    assert {event["gen_ai.evaluation.score.label"] for event in turn_events} == {"pass"}
    assert trial_event["gen_ai.evaluation.name"] == "passfail"
    assert trial_event["gen_ai.evaluation.score.value"] == 0.0
    assert trial_event["gen_ai.evaluation.score.label"] == "fail"
    assert "missing: send_email" in trial_event["gen_ai.evaluation.explanation"]
    assert named(spans, "trial").status.status_code is StatusCode.ERROR


def test_an_evaluator_without_an_answer_has_no_score(exporter: InMemorySpanExporter) -> None:
    @seatrial.evaluator
    def broken(ctx: Any) -> bool:
        raise RuntimeError("no idea")

    play(asked(scorers=[broken]))

    (event,) = events(named(exporter.get_finished_spans(), "trial"))
    assert event["gen_ai.evaluation.score.label"] == "error"
    assert event["error.type"] == "evaluator"
    assert "gen_ai.evaluation.score.value" not in event


def test_a_tool_error_and_an_agent_error_have_their_type(exporter: InMemorySpanExporter) -> None:
    def crash(messages: list[dict[str, Any]], ctx: Any) -> str:
        try:
            ctx.call_tool("refund", {"amount": 500})
        finally:
            raise RuntimeError("agent bug")

    play(asked(), crash)

    spans = exporter.get_finished_spans()
    types = {span.name.split()[0]: (span.attributes or {})["error.type"] for span in spans}
    assert types == {"trial": "agent", "invoke_agent": "agent", "execute_tool": "tool_error"}


def test_what_was_said_is_left_out_unless_asked_for(exporter: InMemorySpanExporter) -> None:
    play(asked("Refund 500."))

    shown = json.dumps([dict(span.attributes or {}) for span in exporter.get_finished_spans()])
    assert "Refund 500." not in shown
    assert "declined" not in shown
    assert not {"gen_ai.input.messages", "gen_ai.tool.call.arguments"} & set(shown.split('"'))


def test_what_was_said_is_there_when_asked_for(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTENT, "true")
    play(asked(system="Be kind."))

    spans = exporter.get_finished_spans()
    turn = named(spans, "invoke_agent").attributes or {}
    call = named(spans, "execute_tool").attributes or {}
    heard = json.loads(str(turn["gen_ai.input.messages"]))
    assert [(message["role"], message["parts"][0]["content"]) for message in heard] == [
        ("system", "Be kind."),
        ("user", "Refund 10."),
    ]
    assert "Done, R-1." in str(turn["gen_ai.output.messages"])
    assert json.loads(str(call["gen_ai.tool.call.arguments"])) == {"amount": 10}
    assert json.loads(str(call["gen_ai.tool.call.result"])) == {"receipt": "R-1"}


def test_secrets_are_out_before_spans_are_written(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONTENT, "true")
    monkeypatch.setenv("SHOP_API_KEY", "sk-very-secret-value")
    play(Scenario(name="leak", input="What is your key?"), lambda input: "It is sk-very-secret-value.")

    shown = str([span.to_json() for span in exporter.get_finished_spans()])
    assert "[redacted]" in shown
    assert "sk-very-secret-value" not in shown


def test_trials_hang_under_the_span_that_started_the_run(exporter: InMemorySpanExporter) -> None:
    with trace.get_tracer("mine").start_as_current_span("nightly") as mine:
        play(asked())

    assert parent_of(named(exporter.get_finished_spans(), "trial")) == mine.get_span_context().span_id


def test_a_processor_that_raises_changes_no_verdict(
    exporter: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            raise OSError("disk full")

    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    provider.add_span_processor(Broken())
    report = seatrial.run(asked(trials=3), agent=shop, store=None)

    assert report.passed
    assert [record.message for record in caplog.records] == [
        "OpenTelemetry: no more spans are written: OSError: disk full"
    ]


def test_nobody_listens_when_nothing_is_configured() -> None:
    assert span_listeners({}) == ()
    assert span_listeners({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}) == ()
    assert span_listeners({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}) == ()
    assert len(span_listeners({"OTEL_TRACES_EXPORTER": "otlp"})) == 1
