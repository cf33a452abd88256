"""Put a payload into the texts of a tool's answer."""

import json
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from itertools import repeat
from typing import Any

from msgspec.structs import replace

from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.struct import Struct
from seatrial.model.transcript_events import decoded
from seatrial.model.value_paths import EachValue, Location, Step, ValuePath, parse_path


class Field(Struct, frozen=True, kw_only=True):
    """Texts in the answers of a tool: `read_email.body`. Without a path behind the tool, all texts of the answer."""

    text: str
    tool: str | None
    """None: every tool (`*`)."""
    steps: tuple[Step, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Field":
        """Raises UsageError if the text is no path."""
        first, *steps = parse_path(text).steps
        return cls(text=text, tool=None if isinstance(first, EachValue) else str(first), steps=tuple(steps))

    def is_of(self, tool: str) -> bool:
        return self.tool is None or self.tool == tool

    def find(self, result: Any) -> list[Location]:
        """Where the texts are in a result."""
        found = ValuePath(text=self.text, steps=self.steps).find(result)
        return [place for location, value in found for place in _texts(value, location)]


def _texts(value: Any, location: Location) -> Iterator[Location]:
    """The places of all texts in a value."""
    if isinstance(value, str):
        yield location
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*location, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*location, index))


class Injection:
    """Adds a payload to the texts of one field in one trial, and plants canaries in others."""

    def __init__(
        self, field: Field, payload: str, parts: tuple[str, ...], *, planted: tuple[tuple[Field, str], ...] = ()
    ) -> None:
        """`payload` is its id, `parts` its texts: one, or two for two texts. `planted`: fields and what they get."""
        self._field = field
        self._payload = payload
        self._parts = parts
        self._planted = planted
        self._given = 0
        """How many texts have got a part."""

    async def answer(
        self, name: str, arguments: Any, turn: int, call: Callable[[], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        answer = await call()
        if answer.error is not None:
            return answer
        for field, text in self._planted:
            if field.is_of(name):
                answer = replace(answer, result=_add(answer.result, field, repeat(text).__next__))
        if not self._field.is_of(name):
            return answer
        before = self._given
        result = _add(answer.result, self._field, self._next_part)
        if self._given == before:
            return answer
        return replace(answer, result=result, altered=self._received())

    def _next_part(self) -> str:
        part = self._parts[self._given % len(self._parts)]
        self._given += 1
        return part

    def _received(self) -> str:
        """The id of the payload; while a part is missing, which parts the agent has."""
        whole = len(self._parts)
        return self._payload if self._given >= whole else f"{self._payload}, part {self._given} of {whole}"


def _add(result: Any, field: Field, text: Callable[[], str]) -> Any:
    """The result, with a text added to each text of the field. A text that is JSON stays one."""
    value = plain_value(result)
    inner = decoded(value) if field.steps else value
    places = field.find(inner)
    if not places:
        return result
    changed = deepcopy(inner)
    for place in places:
        changed = _extend(changed, place, text())
    return json.dumps(changed, ensure_ascii=False) if isinstance(value, str) and inner is not value else changed


def _extend(value: Any, place: Location, text: str) -> Any:
    if not place:
        return f"{value}\n\n{text}" if value else text
    holder = value
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = _extend(holder[place[-1]], (), text)
    return value
