"""The kinds of values a scenario file can hold: each reads a value, complains by key path, and describes itself.

Why not pydantic models: measured, importing pydantic and building the models costs 200 ms at every start, more than
loading 1,000 scenarios does; its error texts, unions and positions would all have to be translated anyway.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from seatrial import patterns
from seatrial.model.struct import Struct, field_defaults

from .problems import KeyPath, Problems, closest, did_you_mean, show

Schema: TypeAlias = dict[str, Any]
Check: TypeAlias = Callable[[Any, KeyPath, Problems], None]


class Kind(Protocol):
    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        """The value in the form the vocabulary has it; complains about what is wrong."""
        ...

    def schema(self) -> Schema:
        """Its JSON Schema."""
        ...


class Text(Struct, frozen=True, kw_only=True):
    """A string."""

    blank: bool = True
    """Whether a string of nothing but spaces says anything."""
    empty: bool = True
    """Whether an empty string does."""
    pattern: bool = False
    """It is a regular expression."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not isinstance(value, str):
            fix = f"Put it in quotes: {str(value)!r}" if isinstance(value, (int, float)) else None
            problems.add(where, f"expected a string, got {show(value)}", fix)
        elif not self.blank and not value.strip():
            problems.add(where, f"expected a text, got {value!r}, which is blank")
        elif not self.empty and not value:
            problems.add(where, "an empty text is in every reply, so it tells nothing; remove it or fill it")
        elif self.pattern:
            check_pattern(value, where, problems)
        return value

    def schema(self) -> Schema:
        schema: Schema = {"type": "string"}
        if not self.blank:
            schema["pattern"] = r"\S"
        if not self.empty:
            schema["minLength"] = 1
        if self.pattern:
            schema["format"] = "regex"
        return schema


def check_pattern(pattern: str, where: KeyPath, problems: Problems) -> None:
    """Report a text that is not a regular expression."""
    problem = patterns.problem(pattern)
    if problem is not None:
        problems.add(where, f"{pattern!r} is not a regular expression: {problem}")


class Number(Struct, frozen=True, kw_only=True):
    """A finite number; a whole one is read as an int, whether written 2 or 2.0."""

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    whole: bool = False
    odd: bool = False
    zero: str | None = None
    """What to say of 0 where it is refused."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self._fits(value):
            problems.add(where, f"expected {self.words()}, got {show(value)}", self._fix(value))
            return None
        return int(value) if self.whole else float(value)

    def _fits(self, value: float) -> bool:
        if not _is_finite(value) or (self.whole and value != int(value)):
            return False
        if (self.minimum is not None and value < self.minimum) or (self.above is not None and value <= self.above):
            return False
        if (self.maximum is not None and value > self.maximum) or (self.below is not None and value >= self.below):
            return False
        return not self.odd or int(value) % 2 == 1

    def _fix(self, value: Any) -> str | None:
        if isinstance(value, str):
            return "Remove the quotes" if _looks_like_number(value) else None
        return self.zero if value == 0 and not isinstance(value, bool) else None

    def words(self) -> str:
        noun = ("an odd whole number" if self.odd else "a whole number") if self.whole else "a number"
        if self.minimum is not None and self.maximum is not None:
            return f"{noun} from {self.minimum:g} to {self.maximum:g}"
        parts = [
            f"{word} {bound:g}"
            for word, bound in (
                ("of at least", self.minimum),
                ("above", self.above),
                ("of at most", self.maximum),
                ("below", self.below),
            )
            if bound is not None
        ]
        return " ".join((noun, " and ".join(parts))) if parts else noun

    def schema(self) -> Schema:
        bounds = {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "exclusiveMinimum": self.above,
            "exclusiveMaximum": self.below,
        }
        schema: Schema = {"type": "integer" if self.whole else "number"}
        return schema | {key: bound for key, bound in bounds.items() if bound is not None}


def _is_finite(value: float) -> bool:
    """Whether it is a number that a float can hold; a huge int is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _looks_like_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class Percent(Number, frozen=True, kw_only=True):
    """A number in percent. One that was meant as a share would let nearly everything pass, so it is refused."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value <= 1:
            problems.add(where, f"is in percent, and {value:g} % is next to nothing", f"Write {100 * value:g}")
            return None
        return super().read(value, where, problems)


class Flag(Struct, frozen=True, kw_only=True):
    """true or false."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not isinstance(value, bool):
            problems.add(where, f"expected true or false, got {show(value)}")
        return value

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Choice(Struct, frozen=True):
    """One of a few words."""

    words: tuple[str, ...]

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not isinstance(value, str) or value not in self.words:
            close = closest(value, self.words) if isinstance(value, str) else None
            hint = f"Did you mean {close!r}?" if close else None
            problems.add(where, f"expected one of {', '.join(self.words)}, got {show(value)}", hint)
        return value

    def schema(self) -> Schema:
        return {"enum": list(self.words)}


class Anything(Struct, frozen=True, kw_only=True):
    """Any value: test data, which is taken as it is."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        return value

    def schema(self) -> Schema:
        return {}


class ListOf(Struct, frozen=True, kw_only=True):
    """A list whose items are of one kind; read as a tuple."""

    item: Kind
    of: str
    """The items in words: strings, turns."""
    empty: str | None = None
    """Why an empty list is refused; None: it is not."""

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not isinstance(value, (list, tuple)):
            fix = f"Write it as a list: [{value}]" if isinstance(value, (str, int, float)) else None
            problems.add(where, f"expected a list of {self.of}, got {show(value)}", fix)
            return ()
        if not value and self.empty is not None:
            problems.add(where, self.empty)
        read = self.item.read
        return tuple([read(item, (*where, index), problems) for index, item in enumerate(value)])

    def schema(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.item.schema()}
        return schema | {"minItems": 1} if self.empty is not None else schema


class MapOf(Struct, frozen=True, kw_only=True):
    """A mapping from names to values of one kind."""

    value: Kind
    of: str
    """The mapping in words: tool names to arguments."""
    empty: str | None = None
    check: Check | None = None

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            problems.add(where, f"expected a mapping of {self.of}, got {show(value)}")
            return {}
        if not value and self.empty is not None:
            problems.add(where, self.empty)
        before = len(problems.found)
        made = {key: self.value.read(item, (*where, key), problems) for key, item in value.items()}
        if self.check is not None and len(problems.found) == before:
            self.check(made, where, problems)
        return made

    def schema(self) -> Schema:
        schema: Schema = {"type": "object", "additionalProperties": self.value.schema()}
        return schema | {"minProperties": 1} if self.empty is not None else schema


class Key(Struct, frozen=True, kw_only=True):
    """A key of a record: its kind, and what it means."""

    kind: Kind
    means: str
    required: bool = False
    python_only: bool = False


class Record:
    """A mapping with fixed keys, made into an object of the vocabulary."""

    __slots__ = ("_files", "_make", "_of", "_python", "_required", "_schema", "check", "keys", "name")

    def __init__(
        self,
        name: str,
        keys: Mapping[str, Key],
        *,
        make: Callable[..., Any],
        of: type | None = None,
        check: Check | None = None,
        schema: Schema | None = None,
    ) -> None:
        self.name = name
        self.keys = keys
        self.check = check
        """Says what cannot stand together; sees the values as read."""
        self._make = make
        self._of = of or (make if isinstance(make, type) else None)
        self._python = {name: key.kind for name, key in keys.items()}
        self._files = {name: key.kind for name, key in keys.items() if not key.python_only}
        self._required = tuple(name for name, key in keys.items() if key.required)
        self._schema = schema or {}

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        made = self.read_keys(value, where, problems)
        return None if made is None else self._make(**made)

    def read_keys(self, value: Any, where: KeyPath, problems: Problems) -> dict[str, Any] | None:
        """The keys as read, before the object is made; None when something is wrong with them."""
        if type(value) is not dict and self._of is not None and isinstance(value, self._of):
            value = given(value)
        if type(value) is not dict and not isinstance(value, Mapping):
            keys = ", ".join(self._required or [*self.keys][:3])
            problems.add(where, f"expected a mapping with {keys}, got {show(value)}")
            return None
        found = problems.found
        before = len(found)
        kinds = self._python if problems.python else self._files
        made = {}
        for key, item in value.items():
            if key in kinds:
                made[key] = kinds[key].read(item, (*where, key), problems)
            else:
                problems.add((*where, key), f"unknown key {key!r}", did_you_mean(str(key), [*kinds]), on_key=True)
        for key in self._required:
            if key not in value:
                problems.add(where, f"{key!r} is missing: {self.keys[key].means}")
        if self.check is not None and len(found) == before:
            self.check(made, where, problems)
        return made if len(found) == before else None

    def schema(self) -> Schema:
        properties = {
            name: {**key.kind.schema(), "description": key.means}
            for name, key in self.keys.items()
            if not key.python_only
        }
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if self._required:
            schema["required"] = list(self._required)
        return schema | self._schema


def given(instance: Any) -> dict[str, Any]:
    """The fields of a struct or a dataclass that were given, by name: those that are not the default itself."""
    kind: type = type(instance)
    return {name: value for name, default in _defaults(kind) if (value := getattr(instance, name)) is not default}


@lru_cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple(field_defaults(kind).items())
