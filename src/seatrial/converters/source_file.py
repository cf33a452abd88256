"""A file of another tool: its content, and the line of everything in it."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.scenarios import json_files, yaml_files
from seatrial.scenarios.positions import UnreadableFile
from seatrial.scenarios.yaml_json_files import read_text

Where = tuple[str | int, ...]
"""The path of a value in its file."""


class Source:
    """What a file holds. Raises UsageError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._text = read_text(path)
            self.data = self._parse()
        except UnreadableFile as error:
            place = f":{error.place[0]}:{error.place[1]}" if error.place else ""
            raise UsageError(f"{path}{place}: {error.message}") from None

    def _parse(self) -> Any:
        if self._is_json:
            return json_files.parse(self._text)[0]
        return _merged(yaml_files.parse(self._text).data)

    @property
    def _is_json(self) -> bool:
        return self.path.suffix.lower() == ".json"

    @cached_property
    def _lines(self) -> Mapping[Where, int]:
        find = json_files.find_positions if self._is_json else yaml_files.find_positions
        return {where: place[0] for where, place in find(self._text).values.items()}

    def line(self, where: Where) -> int | None:
        """Where it was written; the nearest thing around it, if it has no line of its own."""
        while where and where not in self._lines:
            where = where[:-1]
        return self._lines.get(where)


def _merged(value: Any) -> Any:
    """The value with `<<: *other` done: our own files do without it, others do not."""
    if isinstance(value, list):
        return [_merged(item) for item in value]
    if not isinstance(value, dict):
        return value
    own = {key: _merged(item) for key, item in value.items() if key != "<<"}
    others = value.get("<<")
    for other in reversed(others if isinstance(others, list) else [others]):
        if isinstance(other, dict):
            own = {**_merged(other), **own}
    return own
