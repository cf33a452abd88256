"""Reads a trace file: detects its format, and makes a transcript of each conversation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.model.conversation import StopReason

from .documents import Conversation, conversations, find_conversations, read_documents
from .parsing import Omissions, mapping
from .transcript_builder import (
    MessagePaths,
    RecordedConversation,
    TraceError,
    TraceFile,
    TranscriptBuilder,
    without_calls,
)

FORMATS = {
    "openai-chat": "messages of chat completions",
    "openai-responses": "items of the Responses API and the OpenAI Agents SDK",
    "anthropic": "messages of the Anthropic API",
    "langchain": "LangChain messages: messages_to_dict, dumpd, model_dump",
    "pydantic-ai": "pydantic-ai messages: all_messages_json",
    "otlp": "OpenTelemetry spans as OTLP-JSON: OTel GenAI, OpenInference, Traceloop, Langfuse",
    "openai-agents": "traces of the OpenAI Agents SDK: exported traces and spans",
    "claude-code": "sessions of Claude Code",
    "inspect": "logs of Inspect: .eval and .json",
    "langsmith": "runs of LangSmith",
    "langfuse": "traces of Langfuse, with their observations",
    "promptfoo": "outputs of promptfoo eval",
    "seatrial": "an export of Seatrial",
}
_OF_MESSAGES = ("openai-chat", "openai-responses", "anthropic", "langchain", "pydantic-ai")
_OF_DOCUMENTS = {
    "seatrial": "seatrial_export",
    "otlp": "otlp",
    "openai-agents": "openai_agents",
    "claude-code": "claude_code",
    "inspect": "inspect_log",
    "langsmith": "langsmith",
    "langfuse": "langfuse",
    "promptfoo": "promptfoo",
}
"""Formats that are recognised and read as a whole file, and their modules."""
_HOW = "Name the format: --format"
_ANY_JSON = "or say where the messages are, as JMESPath: --messages PATH"
_RENAME = "Rename them, such as --messages 'log[*].{role: who, content: said}'; roles are user and assistant"
_SHOW_TOOLS = ("tool_calls", "function_call", "refusal")
"""Keys of messages of an API: the log would show tool calls."""
_SHOW_REQUESTS = ("tools", "functions", "model", "choices", "request", "response")
"""Keys of requests and responses of an API: the log would show tool calls."""
_ONLY_TEXT = (
    "has only texts, so tool calls count as not recorded; if this log would show tool calls, add --format openai-chat"
)

_COPIES = "equal conversations with the same id, which were left out: {}"

AddMessage = Callable[[Mapping[str, Any], TranscriptBuilder], None]


def read_trace(path: str | Path, *, format: str | None = None, paths: MessagePaths | None = None) -> TraceFile:
    """The conversations of a file. The format is detected unless it is given. Raises TraceError.

    `paths` say where the messages are in a file of any other form.
    """
    where = str(path)
    if format is not None and format not in FORMATS:
        raise TraceError(f"{where}: unknown format {format!r}. Known: {', '.join(FORMATS)}.")
    if paths is not None and format is not None and format not in _OF_MESSAGES:
        raise TraceError(f"{where}: --messages needs a format of messages: {', '.join(_OF_MESSAGES)}; got {format!r}")
    documents = read_documents(Path(path))
    omissions = Omissions()
    held = conversations(documents) if paths is None else find_conversations(documents, paths, where=where)
    by_path = paths is not None
    chosen = format or (None if by_path else _detect_documents(documents))
    chosen = chosen or _detect_messages(held, where, found_by_path=by_path)
    stem = Path(path).stem
    found = list(_read(documents, held, chosen, omissions))
    once = _without_copies(found)
    recordings = tuple(_named(once, stem))
    more: tuple[str, ...] = (_COPIES.format(len(found) - len(once)),) if len(once) < len(found) else ()
    if format is None and chosen == "openai-chat" and _has_only_text(held):
        recordings, more = tuple(map(without_calls, recordings)), (*more, _ONLY_TEXT)
    if not recordings:
        raise TraceError(
            f"{where}: no conversation was found, read as {chosen} ({FORMATS[chosen]})."
            + "".join(f" {sentence[:1].upper()}{sentence[1:]}." for sentence in omissions.sentences())
        )
    notes = (*omissions.sentences(), *more)
    return TraceFile(path=where, format=chosen, recordings=recordings, notes=notes, paths=paths)


def _without_copies(found: Sequence[RecordedConversation]) -> list[RecordedConversation]:
    """Each conversation once. Equal ones without an id are kept: they may have taken place twice."""
    kept: dict[str, list[RecordedConversation]] = {}
    once = []
    for recording in found:
        same = kept.setdefault(recording.name, [])
        if not recording.name or recording not in same:
            same.append(recording)
            once.append(recording)
    return once


def _detect_documents(documents: list[Any]) -> str | None:
    return next((name for name, module in _OF_DOCUMENTS.items() if _module(module).matches(documents)), None)


def _detect_messages(held: Sequence[Conversation], where: str, *, found_by_path: bool) -> str:
    messages = [each for one in held for each in one.messages if isinstance(each, Mapping)]
    fitting = [name for name in _OF_MESSAGES if any(_module(name).recognises(message) for message in messages)]
    if len(fitting) > 1:
        raise TraceError(f"{where}: has messages of several formats: {' and '.join(fitting)}. {_HOW} {fitting[0]}")
    if fitting:
        return fitting[0]
    if any(message.get("role") in ("user", "assistant", "system") for message in messages):
        return "openai-chat"  # plain texts are the same in all formats with roles
    if messages and found_by_path:
        keys = ", ".join(map(str, list(messages[0])[:10]))
        raise TraceError(f"{where}: the messages have the keys {keys}, but no role. {_RENAME}")
    raise TraceError(f"{where}: has an unknown format. {_HOW} {'|'.join(FORMATS)}, {_ANY_JSON}")


def _has_only_text(found: Sequence[Conversation]) -> bool:
    """Whether the log may show only what people saw, so that tool calls may be missing from it."""
    if any(isinstance(one.document, Mapping) and any(key in one.document for key in _SHOW_REQUESTS) for one in found):
        return False
    messages = [each for one in found for each in one.messages if isinstance(each, Mapping)]
    shows = _module("openai-chat").recognises
    return not any(shows(message) or any(key in message for key in _SHOW_TOOLS) for message in messages)


def _module(name: str) -> Any:
    return import_module(f".{name.replace('-', '_')}", __package__)


def _read(
    documents: list[Any], held: Sequence[Conversation], format: str, omissions: Omissions
) -> Iterator[RecordedConversation]:
    if format in _OF_DOCUMENTS:
        yield from _module(_OF_DOCUMENTS[format]).read(documents, omissions)
        return
    add_message: AddMessage = _module(format).add_message
    for conversation in held:
        builder = TranscriptBuilder(omissions)
        for message in conversation.messages:
            if isinstance(message, Mapping):
                add_message(message, builder)
            else:
                omissions.add("message", "that is not a JSON object")
        found = builder.build(conversation.name or "", recorded=conversation.document)
        if found is not None:
            yield _ended_as_recorded(found, conversation.document)


_ENDS = (StopReason.GOAL_MET, StopReason.USER_STOPPED, StopReason.MAX_TURNS, StopReason.LIMIT)


def _ended_as_recorded(found: RecordedConversation, document: Any) -> RecordedConversation:
    """The conversation with its `stop_reason`, if the file gives one of ours; messages do not show who ended it."""
    given = mapping(document).get("stop_reason")
    if given not in _ENDS or found.transcript.error is not None:
        return found
    return replace(found, transcript=replace(found.transcript, stop_reason=StopReason(given)))


def _named(recordings: Sequence[RecordedConversation], stem: str) -> Iterator[RecordedConversation]:
    """Conversations without a name get that of the file, and a number where there are several."""
    for place, recording in enumerate(recordings, start=1):
        made_up = stem if len(recordings) == 1 else f"{stem}-{place}"
        yield recording if recording.name.strip() else replace(recording, name=made_up)
