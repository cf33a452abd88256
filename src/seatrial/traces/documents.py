"""The JSON documents of a trace file, and the conversations in them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from seatrial.errors import MissingExtra
from seatrial.model.struct import Struct

from .parsing import listed, mapping, name_in
from .transcript_builder import MessagePaths, TraceError

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
    flat = flatten(documents)
    if flat and all(isinstance(each, list) for each in flat):
        return [Conversation(name=None, messages=tuple(each), document=each) for each in flat]
    if any(_holds_messages(each) for each in flat):
        return [_unpack(each) for each in flat if isinstance(each, Mapping)]
    return [Conversation(name=None, messages=tuple(flat), document=flat)]


def flatten(documents: list[Any]) -> list[Any]:
    """The documents; each item of a list is one."""
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


def read_documents(path: Path) -> list[Any]:
    """The JSON documents of a file; also of an Inspect log, which is a zip archive. Raises TraceError."""
    where = str(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TraceError(f"{where}: is larger than {MAX_BYTES // 1_000_000} MB; split it into several files")
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{where}: cannot be read: {error.strerror or error}") from None
    if content.startswith(b"PK"):
        from .inspect_log import read_archive

        return [read_archive(content, where=where)]
    try:
        return parse(content.decode("utf-8-sig"), where=where)
    except UnicodeDecodeError:
        raise TraceError(f"{where}: is not text in UTF-8; a trace file is JSON or lines of JSON") from None


def find_conversations(documents: list[Any], paths: MessagePaths, *, where: str) -> list[Conversation]:
    """The conversations at the paths in each document. Raises TraceError if there are none."""
    found: list[Conversation] = []
    for document in documents:
        chosen = _search(paths.messages, document, where=where, option="--messages")
        several = isinstance(chosen, list) and bool(chosen) and all(isinstance(each, list) for each in chosen)
        lists = chosen if several else [chosen] if isinstance(chosen, list) else []
        names = _names(paths.name, document, len(lists), where=where)
        found += [
            Conversation(name=name, messages=tuple(messages), document=document if len(lists) == 1 else messages)
            for name, messages in zip(names, lists, strict=True)
        ]
    if not any(one.messages for one in found):
        keys = ", ".join(map(str, list(mapping(documents[0]))[:10])) if documents else ""
        known = f" The document has the keys: {keys}." if keys else ""
        raise TraceError(f"{where}: --messages {paths.messages!r} finds no list of messages.{known}")
    return found


def _names(path: str | None, document: Any, count: int, *, where: str) -> list[str | None]:
    if path is None:
        return [None] * count
    found = _search(path, document, where=where, option="--conversation-name")
    names = found if isinstance(found, list) else [found] * count
    if len(names) != count:
        raise TraceError(
            f"{where}: --conversation-name {path!r} finds {len(names)} names for {count} conversations; "
            "write it like --messages, such as chats[].id for chats[].messages"
        )
    return [name_in({"name": name}, "name") for name in names]


def _search(expression: str, document: Any, *, where: str, option: str) -> Any:
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError:
        raise MissingExtra("traces", needed_for=option) from None
    try:
        return jmespath.search(expression, document)
    except JMESPathError as error:
        reason = str(error).splitlines()[0]
        raise TraceError(f"{where}: {option} {expression!r} does not fit: {reason}") from None
    except RecursionError:
        raise TraceError(f"{where}: the JSON is nested too deeply to be read") from None
