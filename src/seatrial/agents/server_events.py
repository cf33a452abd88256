"""Server-sent events, as endpoints stream them."""

import codecs
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .http_client import not_an_answer

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: str


class EventReader:
    """Server-sent events from the bytes of a body."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._line: list[str] = []
        """Pieces of a line that has not ended yet."""
        self._held = ""
        """A carriage return whose line feed may follow: both are one line end."""
        self._name = "message"
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end within this chunk."""
        return self._take(self._decoder.decode(chunk))

    def finish(self) -> list[Event]:
        """The last event, if the blank line after it is missing."""
        return [*self._take(self._decoder.decode(b"", final=True) + "\n"), *self._take("\n")]

    def _take(self, text: str) -> list[Event]:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        first, *rest = _LINE_END.split(text.removesuffix("\r"))
        self._line.append(first)
        events = []
        for piece in rest:
            event = self._end_line("".join(self._line))
            self._line = [piece]
            if event is not None:
                events.append(event)
        return events

    def _end_line(self, line: str) -> Event | None:
        if line:
            key, _, value = line.partition(":")
            if key == "data":
                self._data.append(value.removeprefix(" "))
            elif key == "event":
                self._name = value.removeprefix(" ")
            return None
        event = Event(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._data = "message", []
        return event


def read_event(event: Event) -> Mapping[str, Any]:
    """The JSON object of an event. Raises AgentFailure for an error that the endpoint streams."""
    if event.name == "error":
        raise not_an_answer("streamed an error", event.data)
    try:
        chunk = json.loads(event.data)
    except (ValueError, RecursionError):
        raise not_an_answer("streamed a chunk that is no JSON", event.data) from None
    if not isinstance(chunk, Mapping):
        raise not_an_answer("streamed a chunk that is no object", event.data)
    if chunk.get("error"):
        raise not_an_answer("streamed an error", event.data)
    return chunk
