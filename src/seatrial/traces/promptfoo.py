"""Outputs of `promptfoo eval`: one conversation for each result, as JSON or as lines of results."""

from collections.abc import Iterator, Mapping
from typing import Any

from . import openai_chat
from .documents import flatten
from .parsing import Omissions, as_text, listed, mapping, name_in, read_arguments, read_json, read_usage, text
from .transcript_builder import RecordedConversation, TranscriptBuilder


def matches(documents: list[Any]) -> bool:
    """Whether a document is an output, or a result of one."""
    return any(_is_result(result) for result in _results(documents))


def read(documents: list[Any], omissions: Omissions) -> Iterator[RecordedConversation]:
    """One conversation for each result. They are named by the test: its description, else its number."""
    for result in _results(documents):
        if not _is_result(result):
            continue
        builder = TranscriptBuilder(omissions)
        _add_result(result, builder)
        name = name_in(mapping(result.get("testCase")), "description") or f"test {result.get('testIdx', '')}".strip()
        found = builder.build(name, recorded=result)
        if found is not None:
            yield found


def _results(documents: list[Any]) -> Iterator[Mapping[str, Any]]:
    for document in flatten(documents):
        held = mapping(document)
        results = held.get("results")
        inner = mapping(results).get("results", results)
        yield from map(mapping, inner if isinstance(inner, list) else [held])


def _is_result(result: Mapping[str, Any]) -> bool:
    return "promptIdx" in result and "testIdx" in result and isinstance(result.get("prompt"), Mapping)


def _add_result(result: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    response = mapping(result.get("response"))
    messages = listed(mapping(response.get("metadata")).get("messages"))
    if messages:  # the whole conversation of a simulated user
        _add_messages(messages, builder)
    else:
        _add_messages(_prompt(result), builder)
        _add_output(response.get("output"), builder)
    tokens = mapping(response.get("tokenUsage"))
    usage = read_usage({"input_tokens": tokens.get("prompt"), "output_tokens": tokens.get("completion")})
    cost = response.get("cost")
    builder.add_usage(usage, cost_usd=float(cost) if isinstance(cost, int | float) and cost >= 0 else None)
    error = text(response.get("error")) or (text(result.get("error")) if "output" not in response else None)
    if error is not None:
        builder.add_error(error)


def _prompt(result: Mapping[str, Any]) -> list[Any]:
    """The messages of a prompt: a JSON list of messages, or one text."""
    raw = mapping(result.get("prompt")).get("raw")
    parsed = read_json(raw)
    if isinstance(parsed, list) and any("role" in mapping(message) for message in parsed):
        return parsed
    return [{"role": "user", "content": as_text(raw)}]


def _add_messages(messages: list[Any], builder: TranscriptBuilder) -> None:
    for message in messages:
        if isinstance(message, Mapping):
            openai_chat.add_message(message, builder)


def _add_output(output: Any, builder: TranscriptBuilder) -> None:
    """A reply, or the calls that a model asked for. A text does not say which tools were called before it."""
    calls = [call for call in listed(output) if mapping(mapping(call).get("function")) or "arguments" in mapping(call)]
    if calls and len(calls) == len(output):
        for call in map(mapping, calls):
            function = mapping(call.get("function")) or call
            builder.add_call(function.get("name"), read_arguments(function.get("arguments")), call_id=call.get("id"))
        return
    if output is not None:
        builder.add_reply(as_text(output))
    builder.mark_calls_unknown()
