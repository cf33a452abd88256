"""Runs of LangSmith: one by one, in a list, or nested as `child_runs`."""

from ast import literal_eval
from collections.abc import Iterator, Mapping
from typing import Any

from .documents import flatten
from .otlp import read_conversations
from .otlp_spans import Span, model_attributes, tool_attributes
from .parsing import Omissions, listed, mapping, name_in, read_json, read_result, read_time, text
from .steps import Step, steps_of
from .transcript_builder import RecordedConversation

_THREAD = ("session_id", "thread_id", "conversation_id")
"""Keys of a run's metadata that name its thread."""


def matches(documents: list[Any]) -> bool:
    """Whether a document is a run."""
    return any(_is_run(mapping(each)) for each in flatten(documents))


def read(documents: list[Any], omissions: Omissions) -> Iterator[RecordedConversation]:
    """One conversation for each thread, else for each trace."""
    spans = {run["id"]: _read_run(run, omissions) for each in flatten(documents) for run in _runs(mapping(each))}
    yield from read_conversations(sorted(spans.values(), key=lambda span: span.start), omissions)


def _is_run(run: Mapping[str, Any]) -> bool:
    return isinstance(run.get("run_type"), str) and "id" in run and "inputs" in run


def _runs(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [run]
    while waiting:
        here = waiting.pop()
        if _is_run(here):
            yield {**here, "id": str(here["id"])}
        waiting += map(mapping, listed(here.get("child_runs")))


def _read_run(run: Mapping[str, Any], omissions: Omissions) -> Span:
    start = read_time(run.get("start_time")) or 0.0
    metadata = mapping(mapping(run.get("extra")).get("metadata"))
    thread = name_in(run, "thread_id") or name_in(metadata, *_THREAD)
    is_model = run["run_type"] == "llm"
    given, said = (_given(run, omissions), _said(run, omissions)) if is_model else ([], [])
    attributes = _attributes(run)
    return Span(
        trace=str(run.get("trace_id") or run["id"]),
        id=run["id"],
        parent=None if run.get("parent_run_id") is None else str(run["parent_run_id"]),
        start=start,
        end=max(start, read_time(run.get("end_time")) or 0.0),
        attributes={**attributes, **({"gen_ai.conversation.id": thread} if thread else {})},
        events=(),
        failure=text(run.get("error")),
        raw={key: value for key, value in run.items() if key != "child_runs"},
        given=tuple(given),
        said=tuple(said),
    )


def _attributes(run: Mapping[str, Any]) -> dict[str, Any]:
    outputs = mapping(run.get("outputs"))
    if run["run_type"] == "llm":
        usage = mapping(_message(run).get("usage_metadata")) or mapping(outputs.get("usage"))
        taken = run.get("prompt_tokens") or usage.get("input_tokens", usage.get("prompt_tokens"))
        given = run.get("completion_tokens") or usage.get("output_tokens", usage.get("completion_tokens"))
        return model_attributes(taken, given, cost=run.get("total_cost"))
    if run["run_type"] == "tool":
        return _tool(run, outputs)
    values = {"input.value": run.get("inputs"), "output.value": run.get("outputs")}
    return {"openinference.span.kind": "AGENT", **{key: value for key, value in values.items() if value is not None}}


def _tool(run: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    inputs = mapping(run.get("inputs"))
    arguments = _literal(inputs["input"]) if set(inputs) == {"input"} else dict(inputs)
    output = outputs.get("output", outputs or None)
    message = _inner(mapping(output))
    call_id = message.get("tool_call_id") or mapping(run.get("extra")).get("tool_call_id")
    found = tool_attributes(run.get("name"), arguments, call_id=call_id)
    if output is not None:
        found["gen_ai.tool.call.result"] = read_result(message.get("content", output))
    return found


def _literal(value: Any) -> Any:
    """LangChain writes the arguments of a tool as a Python literal."""
    parsed = read_json(value)
    if isinstance(parsed, str) and parsed.startswith("{"):
        try:
            return literal_eval(parsed)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return parsed
    return parsed


def _given(run: Mapping[str, Any], omissions: Omissions) -> list[Step]:
    """The messages of the input; LangChain puts them into a list of batches. A text is the user's."""
    inputs = mapping(run.get("inputs"))
    messages = inputs.get("messages", inputs.get("input"))
    if isinstance(messages, list) and messages and isinstance(messages[0], list):
        messages = messages[0]
    prompt = next(iter(listed(inputs.get("prompts"))), inputs.get("prompt", messages))
    if isinstance(prompt, str):
        return [Step(kind="user", text=prompt)]
    system = [{"role": "system", "content": inputs["system"]}] if inputs.get("system") else []
    return steps_of([*system, *listed(messages)], omissions)


def _said(run: Mapping[str, Any], omissions: Omissions) -> list[Step]:
    outputs = mapping(run.get("outputs"))
    message = _raw_message(outputs)
    if message:
        return steps_of([{**message, "role": "assistant"} if "role" in message else message], omissions)
    if isinstance(outputs.get("output"), list):  # items of the Responses API
        return steps_of(outputs["output"], omissions)
    words = text(outputs.get("output")) or text(_generation(outputs).get("text"))
    return [Step(kind="reply", text=words)] if words else []


def _generation(outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    first = next(iter(listed(outputs.get("generations"))), None)
    return mapping(next(iter(first), None) if isinstance(first, list) else first)


def _raw_message(outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of the output: of LangChain, of chat completions, or of the Anthropic API."""
    choice = mapping(next(iter(listed(outputs.get("choices"))), None))
    found = _generation(outputs).get("message") or choice.get("message") or outputs.get("message")
    return mapping(found) or (outputs if "role" in outputs and "content" in outputs else {})


def _message(run: Mapping[str, Any]) -> Mapping[str, Any]:
    return _inner(_raw_message(mapping(run.get("outputs"))))


def _inner(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A LangChain message without its envelope."""
    return mapping(message.get("kwargs")) or mapping(message.get("data")) or message
