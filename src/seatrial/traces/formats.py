"""From the text of a file to its conversations, each still in the words of its format."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from seatrial.model.struct import Struct

from .parsing import listed, mapping, name_in
from .transcript_builder import Notes, Recording, Scribe, TraceError, TraceFile, without_calls

MAX_BYTES = 500_000_000
_INPUTS = ("messages", "items", "input")


class Conversation(Struct, frozen=True, kw_only=True):
    """The messages of one conversation, as they stand in the file."""

    name: str | None
    messages: tuple[Any, ...]
    document: Any
    """Everything that the file says of it."""


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
            raise TraceError(f"{where}:{number}: is no line of JSON: {broken}") from None


def conversations(documents: list[Any]) -> list[Conversation]:
    """What the documents hold: several conversations, or one whose messages stand in a list or line by line."""
    flat = [each for document in documents for each in (document if isinstance(document, list) else [document])]
    if flat and all(isinstance(each, list) for each in flat):
        return [Conversation(name=None, messages=tuple(each), document=each) for each in flat]
    if any(_holds_messages(each) for each in flat):
        return [_unpack(each) for each in flat if isinstance(each, Mapping)]
    return [Conversation(name=None, messages=tuple(flat), document=flat)]


def _holds_messages(document: Any) -> bool:
    """Whether it is a conversation, or a request or a response of one; a message has no messages in it."""
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
    # What a response repeats of its request is not said twice.
    given = next((request[key] for key in _INPUTS if key in request), ())
    messages += [{"role": "user", "content": given}] if isinstance(given, str) else listed(given)
    messages += _response_messages(response)
    ids = ("conversation_id", "session_id", "thread_id", "name", "id")
    name = name_in(document, *ids) or name_in(request, *ids) or name_in(response, *ids)
    return Conversation(name=name, messages=tuple(messages), document=document)


def _response_messages(response: Mapping[str, Any]) -> list[Any]:
    """The messages of a response; its tokens go with the last of them."""
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
    "seatrial": "an export of Seatrial's own",
}
_OF_MESSAGES = ("openai-chat", "openai-responses", "anthropic", "langchain", "pydantic-ai")
_HOW = "Say which it is: --format"
_SHOW_TOOLS = ("tool_calls", "function_call", "refusal")
"""Keys of messages as an API gives them: calls would stand beside."""
_SHOW_REQUESTS = ("tools", "functions", "model", "choices", "request", "response")
"""Keys of what was sent to an API, or came from one: tools would stand in it."""
_WORDS_ALONE = (
    "holds nothing but words, so which tools were called counts as not recorded; say --format openai-chat where such "
    "a log would show them"
)

_COPIES = "conversations that stand in the file once more, under the same id, and show nothing new: {}"

Write = Callable[[Mapping[str, Any], Scribe], None]


def read_trace(path: str | Path, *, format: str | None = None) -> TraceFile:
    """The conversations of a file, in a format that is found out where it is not named. Raises TraceError."""
    where = str(path)
    if format is not None and format not in FORMATS:
        raise TraceError(f"{where}: unknown format {format!r}. Known: {', '.join(FORMATS)}.")
    documents = parse(_read_text(Path(path), where), where=where)
    notes = Notes()
    chosen = format or _detect(documents, where)
    stem = Path(path).stem
    found = list(_read(documents, chosen, notes))
    once = _without_copies(found)
    recordings = tuple(_named(once, stem))
    more: tuple[str, ...] = (_COPIES.format(len(found) - len(once)),) if len(once) < len(found) else ()
    if format is None and chosen == "openai-chat" and _are_words_alone(conversations(documents)):
        recordings, more = tuple(map(without_calls, recordings)), (*more, _WORDS_ALONE)
    if not recordings:
        raise TraceError(
            f"{where}: no conversation was found, read as {chosen} ({FORMATS[chosen]})."
            + "".join(f" {sentence[:1].upper()}{sentence[1:]}." for sentence in notes.sentences())
        )
    return TraceFile(path=where, format=chosen, recordings=recordings, notes=(*notes.sentences(), *more))


def _without_copies(found: Sequence[Recording]) -> list[Recording]:
    """Each conversation once. Those without an id may be equal and still have taken place twice."""
    kept: dict[str, list[Recording]] = {}
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
        raise TraceError(f"{where}: is no text in UTF-8; recordings are JSON or lines of JSON") from None


def _detect(documents: list[Any], where: str) -> str:
    from .otlp_spans import is_otlp
    from .seatrial_export import is_export

    if is_export(documents):
        return "seatrial"
    flat = [each for document in documents for each in (document if isinstance(document, list) else [document])]
    if flat and any(is_otlp(each) for each in flat):
        return "otlp"
    messages = [each for one in conversations(documents) for each in one.messages if isinstance(each, Mapping)]
    fitting = [name for name in _OF_MESSAGES if any(_module(name).recognises(message) for message in messages)]
    if len(fitting) > 1:
        raise TraceError(f"{where}: has messages of several formats: {' and '.join(fitting)}. {_HOW} {fitting[0]}")
    if fitting:
        return fitting[0]
    if any(message.get("role") in ("user", "assistant", "system") for message in messages):
        return "openai-chat"  # Plain words are the same in all that have roles.
    raise TraceError(f"{where}: is of no format that is known. {_HOW} {'|'.join(FORMATS)}")


def _are_words_alone(found: Sequence[Conversation]) -> bool:
    """Whether a log may be one of what people saw: in such a one, no call does not mean that none was made."""
    if any(isinstance(one.document, Mapping) and any(key in one.document for key in _SHOW_REQUESTS) for one in found):
        return False
    messages = [each for one in found for each in one.messages if isinstance(each, Mapping)]
    shows = _module("openai-chat").recognises
    return not any(shows(message) or any(key in message for key in _SHOW_TOOLS) for message in messages)


def _module(format: str) -> Any:
    return import_module(f".{format.replace('-', '_')}", __package__)


def _read(documents: list[Any], format: str, notes: Notes) -> Iterator[Recording]:
    if format in ("otlp", "seatrial"):
        module = _module("seatrial_export" if format == "seatrial" else format)
        yield from module.read(documents, notes)
        return
    write: Write = _module(format).write
    for conversation in conversations(documents):
        found = _take_down(conversation, write, notes)
        if found is not None:
            yield found


def _take_down(conversation: Conversation, write: Write, notes: Notes) -> Recording | None:
    scribe = Scribe(notes)
    for message in conversation.messages:
        if isinstance(message, Mapping):
            write(message, scribe)
        else:
            notes.leave_out("message", "that is no JSON object")
    return scribe.finish(conversation.name or "", recorded=conversation.document)


def _named(recordings: Sequence[Recording], stem: str) -> Iterator[Recording]:
    """Recordings without a name are called by their file, and their place where there are several."""
    from msgspec.structs import replace

    for place, recording in enumerate(recordings, start=1):
        made_up = stem if len(recordings) == 1 else f"{stem}-{place}"
        yield recording if recording.name.strip() else replace(recording, name=made_up)
