"""Reads a trace file: detects its format, and makes a transcript of each conversation."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.model.struct import Struct

from .parsing import Omissions, listed, mapping, name_in
from .transcript_builder import RecordedConversation, TraceError, TraceFile, TranscriptBuilder, without_calls

MAX_BYTES = 500_000_000
_INPUTS = ("messages", "items", "input")


class Conversation(Struct, frozen=True, kw_only=True):
    """The messages of one conversation, as they are in the file."""

    name: str | None
    messages: tuple[Any, ...]
    document: Any
    """Everything in the file that belongs to it."""


def parse(text: str, *, where: str) -> list[Any]:
    """The JSON documents of a text: one, or one in each line. Raises TraceError."""
    if not text.strip():
        raise TraceError(f"{where}: the file is empty")
    try:
        return [json.loads(text)]
    except RecursionError:
        raise TraceError(f"{where}: the JSON is nested too deeply to be read") from None
    except ValueError as whole:
        return list(_parse_lines(text, where, whole))


def _parse_lines(text: str, where: str, whole: ValueError) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except RecursionError:
            raise TraceError(f"{where}:{number}: the JSON is nested too deeply to be read") from None
        except ValueError as broken:
            if number == 1:
                raise TraceError(f"{where}: is neither JSON nor lines of JSON: {whole}") from None
            raise TraceError(f"{where}:{number}: the line is not JSON: {broken}") from None


def conversations(documents: list[Any]) -> list[Conversation]:
    """The conversations of the documents: several, or one whose messages are a list or one per line."""
    flat = _flat(documents)
    if flat and all(isinstance(each, list) for each in flat):
        return [Conversation(name=None, messages=tuple(each), document=each) for each in flat]
    if any(_holds_messages(each) for each in flat):
        return [_unpack(each) for each in flat if isinstance(each, Mapping)]
    return [Conversation(name=None, messages=tuple(flat), document=flat)]


def _flat(documents: list[Any]) -> list[Any]:
    return [each for document in documents for each in (document if isinstance(document, list) else [document])]


def _holds_messages(document: Any) -> bool:
    """Whether it is a conversation, or a request or response of an API; a message itself holds none."""
    held = mapping(document)
    if any(isinstance(held.get(key), list) for key in ("messages", "choices", "items")):
        return True
    if isinstance(held.get("request"), Mapping) or isinstance(held.get("response"), Mapping):
        return True
    return held.get("object") == "response" or (held.get("type") == "message" and "stop_reason" in held)


def _unpack(document: Mapping[str, Any]) -> Conversation:
    request = mapping(document.get("request")) or document
    response = mapping(document.get("response")) or document
    messages: list[Any] = []
    for key in ("system", "instructions"):
        if request.get(key):
            messages.append({"role": "system", "content": request[key]})
    # Only once: a response may repeat its request.
    given = next((request[key] for key in _INPUTS if key in request), ())
    messages += [{"role": "user", "content": given}] if isinstance(given, str) else listed(given)
    messages += _response_messages(response)
    ids = ("conversation_id", "session_id", "thread_id", "name", "id")
    name = name_in(document, *ids) or name_in(request, *ids) or name_in(response, *ids)
    return Conversation(name=name, messages=tuple(messages), document=document)


def _response_messages(response: Mapping[str, Any]) -> list[Any]:
    """The messages of a response. Its tokens are added to the last one."""
    choice = mapping(next(iter(listed(response.get("choices"))), None))
    if isinstance(choice.get("message"), Mapping):
        said: list[Any] = [choice["message"]]
    elif isinstance(response.get("output"), list):
        said = response["output"]
    elif response.get("type") == "message" and "content" in response:
        return [response]
    else:
        return []
    if not said or not all(isinstance(item, Mapping) and "usage" not in item for item in said):
        return said
    nothing = {"input_tokens": 0, "output_tokens": 0}
    return [*({**item, "usage": nothing} for item in said[:-1]), {**said[-1], "usage": response.get("usage")}]


FORMATS = {
    "openai-chat": "messages of chat completions",
    "openai-responses": "items of the Responses API and the OpenAI Agents SDK",
    "anthropic": "messages of the Anthropic API",
    "langchain": "LangChain messages: messages_to_dict, dumpd, model_dump",
    "pydantic-ai": "pydantic-ai messages: all_messages_json",
    "otlp": "OpenTelemetry spans as OTLP-JSON: OTel GenAI, OpenInference",
    "seatrial": "an export of Seatrial",
}
_OF_MESSAGES = ("openai-chat", "openai-responses", "anthropic", "langchain", "pydantic-ai")
_HOW = "Name the format: --format"
_SHOW_TOOLS = ("tool_calls", "function_call", "refusal")
"""Keys of messages of an API: the log would show tool calls."""
_SHOW_REQUESTS = ("tools", "functions", "model", "choices", "request", "response")
"""Keys of requests and responses of an API: the log would show tool calls."""
_ONLY_TEXT = (
    "has only texts, so tool calls count as not recorded; if this log would show tool calls, add --format openai-chat"
)

_COPIES = "equal conversations with the same id, which were left out: {}"

AddMessage = Callable[[Mapping[str, Any], TranscriptBuilder], None]


def read_trace(path: str | Path, *, format: str | None = None) -> TraceFile:
    """The conversations of a file. The format is detected unless it is given. Raises TraceError."""
    where = str(path)
    if format is not None and format not in FORMATS:
        raise TraceError(f"{where}: unknown format {format!r}. Known: {', '.join(FORMATS)}.")
    documents = parse(_read_text(Path(path), where), where=where)
    omissions = Omissions()
    chosen = format or _detect(documents, where)
    stem = Path(path).stem
    found = list(_read(documents, chosen, omissions))
    once = _without_copies(found)
    recordings = tuple(_named(once, stem))
    more: tuple[str, ...] = (_COPIES.format(len(found) - len(once)),) if len(once) < len(found) else ()
    if format is None and chosen == "openai-chat" and _has_only_text(conversations(documents)):
        recordings, more = tuple(map(without_calls, recordings)), (*more, _ONLY_TEXT)
    if not recordings:
        raise TraceError(
            f"{where}: no conversation was found, read as {chosen} ({FORMATS[chosen]})."
            + "".join(f" {sentence[:1].upper()}{sentence[1:]}." for sentence in omissions.sentences())
        )
    return TraceFile(path=where, format=chosen, recordings=recordings, notes=(*omissions.sentences(), *more))


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


def _read_text(path: Path, where: str) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TraceError(f"{where}: is larger than {MAX_BYTES // 1_000_000} MB; split it into several files")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TraceError(f"{where}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TraceError(f"{where}: is not text in UTF-8; a trace file is JSON or lines of JSON") from None


def _detect(documents: list[Any], where: str) -> str:
    from .otlp_spans import is_otlp
    from .seatrial_export import is_export

    if is_export(documents):
        return "seatrial"
    if any(is_otlp(each) for each in _flat(documents)):
        return "otlp"
    messages = [each for one in conversations(documents) for each in one.messages if isinstance(each, Mapping)]
    fitting = [name for name in _OF_MESSAGES if any(_module(name).recognises(message) for message in messages)]
    if len(fitting) > 1:
        raise TraceError(f"{where}: has messages of several formats: {' and '.join(fitting)}. {_HOW} {fitting[0]}")
    if fitting:
        return fitting[0]
    if any(message.get("role") in ("user", "assistant", "system") for message in messages):
        return "openai-chat"  # plain texts are the same in all formats with roles
    raise TraceError(f"{where}: has an unknown format. {_HOW} {'|'.join(FORMATS)}")


def _has_only_text(found: Sequence[Conversation]) -> bool:
    """Whether the log may show only what people saw, so that tool calls may be missing from it."""
    if any(isinstance(one.document, Mapping) and any(key in one.document for key in _SHOW_REQUESTS) for one in found):
        return False
    messages = [each for one in found for each in one.messages if isinstance(each, Mapping)]
    shows = _module("openai-chat").recognises
    return not any(shows(message) or any(key in message for key in _SHOW_TOOLS) for message in messages)


def _module(format: str) -> Any:
    return import_module(f".{format.replace('-', '_')}", __package__)


def _read(documents: list[Any], format: str, omissions: Omissions) -> Iterator[RecordedConversation]:
    if format in ("otlp", "seatrial"):
        module = _module("seatrial_export" if format == "seatrial" else format)
        yield from module.read(documents, omissions)
        return
    add_message: AddMessage = _module(format).add_message
    for conversation in conversations(documents):
        builder = TranscriptBuilder(omissions)
        for message in conversation.messages:
            if isinstance(message, Mapping):
                add_message(message, builder)
            else:
                omissions.add("message", "that is not a JSON object")
        found = builder.build(conversation.name or "", recorded=conversation.document)
        if found is not None:
            yield found


def _named(recordings: Sequence[RecordedConversation], stem: str) -> Iterator[RecordedConversation]:
    """Conversations without a name get that of the file, and a number where there are several."""
    for place, recording in enumerate(recordings, start=1):
        made_up = stem if len(recordings) == 1 else f"{stem}-{place}"
        yield recording if recording.name.strip() else replace(recording, name=made_up)
