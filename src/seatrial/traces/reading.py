"""From the text of a file to its conversations, each still in the words of its format."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.model.struct import Struct

from .parsing import listed, mapping, name_in
from .recording import TraceError

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
