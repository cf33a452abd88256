"""Scenarios from rows: one for each row of `examples`, with the row's values in the scenario's texts."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import asdict, replace

from seatrial.errors import UsageError
from seatrial.evaluators.built_in import check_expected
from seatrial.model.scenario import Scenario
from seatrial.model.struct import InputStruct

from .problems import KeyPath, Problems, closest, did_you_mean

_BRACES = re.compile(r"\{\{ *(?P<double>[A-Za-z_][A-Za-z0-9_ -]*?) *\}\}|\{(?P<single>[A-Za-z_][A-Za-z0-9_ -]*)\}")
"""`{column}`, or `{{column}}` as other tools write it."""
_MAY_BE_EMPTY = ("description", "tags")
_FOR_PEOPLE = ("name", "description", "source")
_UNTOUCHED = ("examples", "source", "setup", "teardown", "metadata", "models")


def expand_rows(scenario: Scenario, where: KeyPath, problems: Problems) -> Iterator[Scenario]:
    """One scenario for each row, or the scenario itself if it has no rows. Reports missing and unused columns."""
    if not scenario.examples:
        yield scenario
        return
    columns = list(dict.fromkeys(column for row in scenario.examples for column in row))
    used: set[str] = set()
    for index, row in enumerate(scenario.examples):
        filler = _Filler(row, columns, (*where, "examples", index), problems)
        made = {}
        for key in scenario.__struct_fields__:
            if key not in _UNTOUCHED and key != "name":
                filler.may_empty = key in _MAY_BE_EMPTY
                made[key] = filler.fill(getattr(scenario, key))
        name = filler.fill(scenario.name)
        used |= filler.used
        # Matchers with values of the row; those of trajectories and arguments are checked as they are made.
        for expected in (made["expected_tool_args"], made["expected_state"]):
            for text in check_expected(expected):
                problems.add((*where, "examples", index), text)
        label = row.get("name", row.get("id", index + 1))
        yield replace(scenario, **made, name=f"{name}[{label}]", examples=())
    if not used:
        message = f"no text of the scenario uses a column; write {{{columns[0]}}} where its value belongs"
        problems.add((*where, "examples"), message)
    for key in columns:
        # An `expected_output` in a row is meant to count.
        if key in scenario.__struct_fields__ and key not in (*_FOR_PEOPLE, *used):
            message = f"no text of the scenario uses the column {key!r}, so it has no effect"
            problems.add((*where, "examples"), message, f"A row gives only values; write {key}: '{{{key}}}' as well")


class _Filler:
    """Puts the values of one row into texts, at any depth."""

    def __init__(self, row: Mapping[str, Any], columns: list[str], where: KeyPath, problems: Problems) -> None:
        self.used: set[str] = set()
        self.may_empty = False
        """Whether the current text may be empty after it is filled."""
        self._row = row
        self._columns = columns
        self._where = where
        self._problems = problems
        self._told: set[str] = set()

    def fill(self, value: Any, *, data: bool = False) -> Any:
        """The value with its texts filled. In data, a text that is only a column becomes the value of that column."""
        if isinstance(value, str):
            return self._fill_text(value, data=data) if "{" in value else value
        if isinstance(value, (list, tuple)):
            return tuple(self.fill(item, data=data) for item in value)
        if isinstance(value, Mapping):
            keep_texts = "role" in value and "content" in value
            made = {self.fill(key): self.fill(item, data=not keep_texts) for key, item in value.items()}
            if len(made) < len(value):
                message = f"with this row, two of the keys {', '.join(map(repr, value))} are the same"
                self._problems.add(self._where, message, "Only one of them would count: change or remove the row")
            return made
        if isinstance(value, InputStruct):
            return self._fill_fields(value)
        return value

    def _fill_fields(self, value: InputStruct) -> Any:
        try:
            return type(value)(**{key: self.fill(item) for key, item in asdict(value).items()})
        except UsageError as problem:  # an evaluator refuses what the row gives it
            self._problems.add(self._where, str(problem))
            return value

    def _fill_text(self, text: str, *, data: bool) -> Any:
        whole = _BRACES.fullmatch(text)
        column = None if whole is None else _column(whole)
        if data and column is not None and column in self._row:
            self.used.add(column)
            return self._row[column]
        filled = _BRACES.sub(self._value_of, text)
        is_null = column is not None and self._row.get(column, "") is None
        if (not filled or is_null) and not data and not self.may_empty:
            # An empty text is in every reply, and 'null' in none: the check would not depend on the agent.
            message = f"with this row, the text {text!r} of the scenario is empty, so it checks nothing"
            self._problems.add(self._where, message, "Fill the column, or remove the row")
        return filled

    def _value_of(self, match: re.Match[str]) -> str:
        column = _column(match)
        if column in self._row:
            self.used.add(column)
            return _as_text(self._row[column])
        self._report(column, meant=match["double"] is not None)
        return match.group()

    def _report(self, column: str, *, meant: bool) -> None:
        """Report a column of another row, or nearly one, or any in double braces. Other braces stay as they are."""
        if column in self._told:
            return
        self._told.add(column)
        if column in self._columns:
            self._problems.add(self._where, f"this row has no column {column!r}, which a text of the scenario uses")
            return
        if meant or closest(column, self._columns) is not None:
            self._problems.add(self._where, f"unknown column {column!r}", did_you_mean(column, self._columns))


def _column(match: re.Match[str]) -> str:
    return match["double"] or match["single"]


def _as_text(value: Any) -> str:
    """A value inside a longer text, as YAML writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
