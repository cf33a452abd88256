"""Readers of values: each checks a value, reports problems by key path, and has a JSON Schema.

Why not pydantic: importing it and building the models takes 200 ms at every start, more than loading 1,000 scenarios.
Its messages, unions and positions would all need translation. Why not `msgspec.convert`: it stops at the first problem.
"""

import math
import operator
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from seatrial.errors import UsageError
from seatrial.model.keys import DeclaredKey, declared_keys
from seatrial.model.struct import Struct, field_defaults

from .problems import FAMILIAR, KeyPath, Problems, closest, did_you_mean, show

Schema: TypeAlias = dict[str, Any]
Check: TypeAlias = Callable[[Any, KeyPath, Problems], None]
"""Reports what is wrong with a value that was read, beyond its type and bounds."""


class Reader:
    """Takes any value as it is: test data. The base of all readers."""

    words = "any value"
    """What is expected, after "expected"."""
    plural = "values"
    """What is expected of each item, after "a list of"."""

    def fits(self, value: Any, problems: Problems) -> bool:
        """Whether the value has the right type."""
        return True

    def read(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        """The value as the model has it. Reports what is wrong."""
        if self.fits(value, problems):
            return self.convert(value, where, problems)
        problems.add(where, f"expected {self.words}, got {show(value)}", self.hint(value))
        return None

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        """The same, for a value of the right type."""
        return value

    def hint(self, value: Any) -> str | None:
        """What would probably work instead of a value that does not fit."""
        return None

    def schema(self) -> Schema:
        """The JSON Schema of the value."""
        return {}


class Text(Reader):
    """A string."""

    words, plural = "a string", "strings"

    def __init__(self, *, pattern: str | None = None, min_length: int | None = None) -> None:
        self._pattern = pattern
        r"""Only `\S` is known: the text is not blank."""
        self._min_length = min_length

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, str)

    def hint(self, value: Any) -> str | None:
        if isinstance(value, (int, float)):
            return f"Put it in quotes: {str(value).lower() if isinstance(value, bool) else str(value)!r}"
        if isinstance(value, (list, tuple)):
            return "Give one text, not a list"
        name = value.get("name") if isinstance(value, Mapping) else None
        return f"Write only the name: {name}" if isinstance(name, str) else None

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if self._pattern is not None and not value.strip():
            problems.add(where, f"expected a text, got {value!r}, which is blank")
        elif self._min_length and not value:
            problems.add(where, "an empty text is in every reply, so it checks nothing; remove it or fill it")
        return value

    def schema(self) -> Schema:
        return {"type": "string"} | _given(pattern=self._pattern, minLength=self._min_length)


class Number(Reader):
    """A finite number; a whole one is read as an int, whether written 2 or 2.0."""

    def __init__(
        self,
        *,
        whole: bool = False,
        odd: bool = False,
        percent: bool = False,
        zero: str | None = None,
        **bounds: float,
    ) -> None:
        """`bounds` are ge, gt, le and lt. `zero` is the hint for a 0 that is out of bounds."""
        self._whole, self._odd, self._percent, self._zero = whole, odd, percent, zero
        self._bounds = bounds
        noun = ("an odd whole number" if odd else "a whole number") if whole else "a number"
        parts = [f"{word} {bounds[key]:g}" for key, word in _BOUNDS.items() if key in bounds]
        if bounds.keys() >= {"ge", "le"}:
            parts = [f"from {bounds['ge']:g} to {bounds['le']:g}"]
        self.words = f"{noun} {' and '.join(parts)}" if parts else noun
        self.plural = "whole numbers" if whole else "numbers"

    def fits(self, value: Any, problems: Problems) -> bool:
        return (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and _is_finite(value)
            and (not self._whole or value == int(value))
            and self._fits_bounds(value)
            and (not self._odd or int(value) % 2 == 1)
        )

    def hint(self, value: Any) -> str | None:
        if isinstance(value, str):
            return self._hint_for_text(value.strip())
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return self._zero if value == 0 else self._hint_for_percent(value)

    def _hint_for_text(self, text: str) -> str | None:
        if _looks_like_number(text):
            return "Remove the quotes"
        number = text.rstrip("% abcdefghijklmnopqrstuvwxyz")
        if not _looks_like_number(number):
            return None
        share = self._hint_for_percent(float(number)) if text.endswith("%") else None
        return share or f"Write only the number: {number}"

    def _hint_for_percent(self, value: float) -> str | None:
        """For a share that is written in percent."""
        is_share = max(self._bounds.get("le", 0.0), self._bounds.get("lt", 0.0)) == 1.0
        return f"Write {value / 100:g}" if is_share and 1 < value <= 100 and self._fits_bounds(value / 100) else None

    def _fits_bounds(self, value: float) -> bool:
        return all(_COMPARE[key](value, bound) for key, bound in self._bounds.items())

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if self._percent and 0 < value <= 1:  # a share would let nearly everything pass
            problems.add(where, f"is in percent, and {value:g} % is next to nothing", f"Write {100 * value:g}")
        return int(value) if self._whole else float(value)

    def schema(self) -> Schema:
        bounds = {_SCHEMA_WORDS[key]: bound for key, bound in self._bounds.items()}
        return {"type": "integer" if self._whole else "number"} | bounds


_BOUNDS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}
_COMPARE = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
_SCHEMA_WORDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


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


def _given(**keywords: Any) -> Schema:
    return {name: value for name, value in keywords.items() if value is not None}


class Flag(Reader):
    """true or false."""

    words = plural = "true or false"

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, bool)

    def hint(self, value: Any) -> str | None:
        words = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
        meant = words.get(value.lower()) if isinstance(value, str) else None
        return f"Write {meant}" if meant else None

    def schema(self) -> Schema:
        return {"type": "boolean"}


class Choice(Reader):
    """One of a few words."""

    def __init__(self, *choices: str) -> None:
        self._choices = choices
        self.words = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
        self.plural = " or ".join(choices)

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, str) and value in self._choices

    def hint(self, value: Any) -> str | None:
        close = closest(value, self._choices) if isinstance(value, str) else None
        return f"Did you mean {close!r}?" if close else None

    def schema(self) -> Schema:
        return {"enum": list(self._choices)} if len(self._choices) > 1 else {"const": self._choices[0]}


class ListOf(Reader):
    """A list; read as a tuple."""

    plural = "lists"

    def __init__(self, item: Reader, *, min_length: int | None = None) -> None:
        self._item = item
        self._min_length = min_length
        self.words = f"a list of {item.plural}"

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, (list, tuple))

    def hint(self, value: Any) -> str | None:
        if isinstance(value, Mapping):
            return "Write it as a list: put `- ` before it"
        return f"Write it as a list: [{value}]" if isinstance(value, (str, int, float)) else None

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not value and self._min_length:
            problems.add(where, "the list is empty; fill it or remove the key")
        read = self._item.read
        return tuple([read(item, (*where, index), problems) for index, item in enumerate(value)])

    def schema(self) -> Schema:
        return {"type": "array", "items": self._item.schema()} | _given(minItems=self._min_length)


class MapOf(Reader):
    """A mapping from names to values of one type."""

    plural = "mappings"

    def __init__(self, value: Reader, *, min_length: int | None = None) -> None:
        self._value = value
        self._min_length = min_length
        self.words = f"a mapping of names to {value.plural}"

    def fits(self, value: Any, problems: Problems) -> bool:
        return isinstance(value, Mapping)

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        if not value and self._min_length:
            problems.add(where, EMPTY_MAPPING)
        return {key: self._value.read(item, (*where, key), problems) for key, item in value.items()}

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self._value.schema()} | _given(minProperties=self._min_length)


EMPTY_MAPPING = "the mapping is empty; fill it or remove the key"


class AnyOf(Reader):
    """A value of one of several types."""

    def __init__(self, *readers: Reader) -> None:
        self._readers = readers
        self.words = " or ".join(reader.words for reader in readers)
        self.plural = " or ".join(reader.plural for reader in readers)

    def fits(self, value: Any, problems: Problems) -> bool:
        return any(reader.fits(value, problems) for reader in self._readers)

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        reader = next(reader for reader in self._readers if reader.fits(value, problems))
        return reader.convert(value, where, problems)

    def hint(self, value: Any) -> str | None:
        return next((hint for reader in self._readers if (hint := reader.hint(value))), None)

    def schema(self) -> Schema:
        return {"anyOf": [reader.schema() for reader in self._readers]}


class Checked(Reader):
    """A value that is checked after it was read without problems."""

    def __init__(self, reader: Reader, check: Check, schema: Schema) -> None:
        """`schema` is what the check adds to the JSON Schema."""
        self._reader, self._check, self._schema = reader, check, schema
        self.words, self.plural = reader.words, reader.plural
        self.fits, self.hint = reader.fits, reader.hint  # type: ignore[method-assign]

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        before = len(problems.found)
        made = self._reader.convert(value, where, problems)
        if len(problems.found) == before:
            self._check(made, where, problems)
        return made

    def schema(self) -> Schema:
        return self._reader.schema() | self._schema


class StructReader(Reader):
    """A mapping with fixed keys, as a struct or a TypedDict declares them; read as an instance of it."""

    def __init__(
        self,
        kind: type,
        reader_of: Callable[[Any], Reader],
        *,
        check: Check | None,
        schema: Schema,
        only: tuple[str, ...] | None = None,
    ) -> None:
        """`check` sees the values by key; `schema` is what it adds to the JSON Schema; `only` are the allowed keys."""
        self.kind = kind
        self._reader_of = reader_of
        self._check = check
        self._schema = schema
        self._only = only
        self._is_struct = not hasattr(kind, "__required_keys__")
        self.shorthand: str | None = getattr(kind, "shorthand", None)
        """The key that a plain text stands for."""
        self._aliases: Mapping[str, str] = getattr(kind, "aliases", {})

    @cached_property
    def keys(self) -> Mapping[str, DeclaredKey]:
        """The keys that Python may give, by name."""
        keys = declared_keys(self.kind)
        if self._only is not None:
            keys = {name: keys[name] for name in self._only}
        return keys | {alias: _alias_of(keys[name], name) for alias, name in self._aliases.items()}

    @cached_property
    def file_keys(self) -> Mapping[str, DeclaredKey]:
        """The keys that files may give."""
        return {name: one for name, one in self.keys.items() if not one.key.python_only}

    @cached_property
    def _python_readers(self) -> dict[str, Reader]:
        return {name: self._reader_of(one.type) for name, one in self.keys.items()}

    @cached_property
    def _file_readers(self) -> dict[str, Reader]:
        return {name: self._python_readers[name] for name in self.file_keys}

    @cached_property
    def _required(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.keys.items() if one.required)

    def fits(self, value: Any, problems: Problems) -> bool:
        return (
            isinstance(value, Mapping)
            or (self._is_struct and isinstance(value, self.kind))
            or (self.shorthand is not None and isinstance(value, str))
        )

    @cached_property
    def words(self) -> str:  # type: ignore[override]
        words = f"a mapping with {', '.join(self._required or [*self.file_keys][:3])}"
        return f"a string or {words}" if self.shorthand else words

    @property
    def plural(self) -> str:  # type: ignore[override]
        return "strings or mappings" if self.shorthand else "mappings"

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        made = self.read_keys(value, where, problems)
        if made is None or not self._is_struct:
            return made
        try:
            return self.kind(**made)
        except UsageError as problem:  # of an evaluator, which begins with its own name
            problems.add(where, str(problem).removeprefix(f"{getattr(self.kind, 'name', '')}: "))
            return None

    def read_keys(self, value: Any, where: KeyPath, problems: Problems) -> dict[str, Any] | None:
        """The values by key, before the object is made; None if something is wrong with them."""
        if type(value) is not dict:
            if isinstance(value, str) and self.shorthand is not None:
                value = {self.shorthand: value}
            elif self._is_struct and isinstance(value, self.kind):
                value = given(value)
            elif not isinstance(value, Mapping):
                problems.add(where, f"expected {self.words}, got {show(value)}", self.hint(value))
                return None
        found = problems.found
        before = len(found)
        readers = self._python_readers if problems.python else self._file_readers
        made = {}
        for key, item in value.items():
            if key in readers:
                made[key] = readers[key].read(item, (*where, key), problems)
            else:
                problems.add((*where, key), f"unknown key {key!r}", self._suggest(str(key), [*readers]), on_key=True)
        for key in self._required:
            if key not in value:
                problems.add(where, f"{key!r} is missing: {self.keys[key].key.means}")
        for alias, name in self._aliases.items():
            if alias in made:
                if name in made:
                    problems.add((*where, alias), f"{alias!r} and {name!r} are the same; give one")
                made[name] = made.pop(alias)
        if self._check is not None and len(found) == before:
            self._check(made, where, problems)
        return made if len(found) == before else None

    def hint(self, value: Any) -> str | None:
        """The value under the key that it probably belongs to."""
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], Mapping):
            return "Remove the `- ` before it" if value[0].keys() <= self.file_keys.keys() else None
        usual = _USUAL_KEYS.get(self.kind.__name__)
        key = self._required[0] if len(self._required) == 1 and isinstance(value, str) else usual
        if key is None or not isinstance(value, (str, list, tuple)):
            return None
        is_list = isinstance(value, str) and isinstance(self._file_readers[key], ListOf)
        return f"Write {{{key}: {[value] if is_list else value!r:.60}}}"

    def _suggest(self, key: str, known: list[str]) -> str:
        from .keys import find_home  # only for a problem: `keys` imports this module

        if any(name in known for name in FAMILIAR.get(key, ())):
            return did_you_mean(key, known)
        return find_home(key, self.kind) or did_you_mean(key, known)

    def schema(self) -> Schema:
        properties = {name: self._property(name, one) for name, one in self.file_keys.items()}
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if self._required:
            schema["required"] = list(self._required)
        schema |= self._schema
        if self.shorthand is None:
            return schema
        return {"anyOf": [self._file_readers[self.shorthand].schema(), schema]}

    def _property(self, name: str, one: DeclaredKey) -> Schema:
        schema = {**self._file_readers[name].schema(), "description": one.key.means}
        return schema if one.default is None or isinstance(one.default, Struct) else {**schema, "default": one.default}


_USUAL_KEYS = {
    "Expect": "reply_contains_all",
    "ModelRoles": "judge",
    "Trajectory": "expected",
    "Turn": "user",
    "World": "seed",
}
"""The key that a plain value probably belongs to, in mappings without a required key."""


def _alias_of(one: DeclaredKey, name: str) -> DeclaredKey:
    from msgspec.structs import replace

    return replace(one, key=replace(one.key, means=f"the same as {name}"), default=None)


def given(instance: Any) -> dict[str, Any]:
    """The fields of a struct or a dataclass that were given, by name: those that are not the default itself."""
    kind: type = type(instance)
    return {name: value for name, default in _defaults(kind) if (value := getattr(instance, name)) is not default}


@lru_cache
def _defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    return tuple(field_defaults(kind).items())
