"""Readers for all keys of scenario files, derived from the annotations in which the keys are declared."""

import types
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Annotated, Any, ForwardRef, Literal, NotRequired, TypedDict, Union, get_args, get_origin

from msgspec import Meta

from seatrial.model.keys import Format, Key
from seatrial.model.scenario import (
    Count,
    Expect,
    ExpectedCall,
    GateSpec,
    ModelRoles,
    Name,
    Scenario,
    SequentialSpec,
    Share,
    Suite,
    SuiteConfig,
    SuiteFile,
    Turn,
    User,
    World,
)

from .formats import CHECKS, READERS, SCHEMAS
from .problems import FAMILIAR, KeyPath, Problems
from .value_readers import AnyOf, Checked, Choice, Flag, ListOf, MapOf, Number, Reader, Schema, StructReader, Text

_MODULES = {
    "EndState": "seatrial.evaluators.end_state",
    "Invariant": "seatrial.evaluators.invariants",
    "Judge": "seatrial.judges.rubric",
    "Limits": "seatrial.evaluators.limits",
    "ToolArgs": "seatrial.evaluators.tool_calls",
    "Trajectory": "seatrial.evaluators.trajectory",
}
"""Types that annotations only name. They are imported when a file uses them: judges alone would take 30 ms."""


@lru_cache
def struct_reader(kind: type) -> StructReader:
    """The reader of a mapping whose keys the struct or TypedDict declares."""
    name = kind.__name__
    return StructReader(kind, reader_of, check=CHECKS.get(name), schema=SCHEMAS.get(name, {}))


def named_reader(name: str) -> StructReader:
    """The reader of an evaluator that annotations only name."""
    return struct_reader(getattr(import_module(_MODULES[name]), name))


def reader_of(annotation: Any) -> Reader:
    """The reader of values of an annotated type."""
    base, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    bounds: dict[str, Any] = {}
    for each in metadata:
        if isinstance(each, Meta):
            bounds |= _bounds(each)
    formats = [each.name for each in metadata if isinstance(each, Format)]
    if formats == ["alternative"]:
        return _alternative()
    special = next((READERS[name] for name in formats if name in READERS), None)
    reader = _plain_reader(base, bounds) if special is None else special
    for name in formats:
        if name in CHECKS:
            reader = Checked(reader, CHECKS[name], SCHEMAS.get(name, {}))
    return reader


@lru_cache
def _alternative() -> StructReader:
    """The reader of an entry of `any_of`: an expected call with some of its keys."""
    only = ("name", "args", "arg_match")
    return StructReader(ExpectedCall, reader_of, only=only, check=CHECKS["alternative"], schema=SCHEMAS["alternative"])


def _bounds(meta: Meta) -> dict[str, Any]:
    names = ("ge", "gt", "le", "lt", "min_length", "pattern")
    given = {name: value for name in names if (value := getattr(meta, name)) is not None}
    return given | (meta.extra or {})


def _plain_reader(kind: Any, bounds: Mapping[str, Any]) -> Reader:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        readers = [reader_of(one) for one in arguments if one is not types.NoneType]
        structs = [reader for reader in readers if isinstance(reader, StructReader)]
        if structs and structs[0].shorthand is not None:
            return structs[0]  # which also reads plain mappings and strings
        return readers[0] if len(readers) == 1 else AnyOf(*readers)
    if origin is Literal:
        return Choice(*arguments)
    if origin is Sequence:
        return ListOf(reader_of(arguments[0]), **bounds)
    if origin is Mapping:
        return MapOf(reader_of(arguments[1]), **bounds)
    if isinstance(kind, (ForwardRef, str)):
        return _Later(kind if isinstance(kind, str) else kind.__forward_arg__)
    if kind is bool:
        return Flag()
    if kind in (int, float):
        return Number(whole=kind is int, **bounds)
    if kind is str:
        return Text(**bounds)
    return Reader() if kind is Any else struct_reader(kind)


class _Later(Reader):
    """A struct that is imported with the first value for it."""

    plural = "mappings"

    def __init__(self, name: str) -> None:
        self._name = name.removesuffix(" | None")

    @cached_property
    def _reader(self) -> StructReader:
        return named_reader(self._name)

    @property
    def words(self) -> str:  # type: ignore[override]
        return self._reader.words

    def fits(self, value: Any, problems: Problems) -> bool:
        return self._reader.fits(value, problems)

    def convert(self, value: Any, where: KeyPath, problems: Problems) -> Any:
        return self._reader.convert(value, where, problems)

    def hint(self, value: Any) -> str | None:
        return self._reader.hint(value)

    def schema(self) -> Schema:
        return self._reader.schema()


SCENARIO = struct_reader(Scenario)
CONFIG = struct_reader(SuiteConfig)
SUITE = struct_reader(Suite)
FILE = struct_reader(SuiteFile)


_IN_SCENARIO: tuple[tuple[str, type | str], ...] = (
    ("expect", Expect),
    ("trajectory", "Trajectory"),
    ("limits", "Limits"),
    ("world", World),
    ("end_state", "EndState"),
    ("user", User),
    ("gate", GateSpec),
    ("sequential", SequentialSpec),
    ("models", ModelRoles),
)
"""Keys of a scenario whose values have keys of their own."""


def find_home(key: str, kind: type) -> str | None:
    """Where a key belongs that `kind` does not have, as a suggestion; None if no place has it."""
    inner = [
        (f"under {name!r}", struct_reader(one) if isinstance(one, type) else named_reader(one))
        for name, one in _IN_SCENARIO
    ]
    suite = [("under 'suite.config'", CONFIG), ("under 'suite'", SUITE)]
    top = [("at the top of the file, beside 'suite'", FILE)]
    if kind in (SuiteFile, Suite, SuiteConfig):
        places = [*suite, ("in a scenario", SCENARIO), *inner, *top]
    elif kind is Scenario:
        places = [*inner, *reversed(suite), *top]
    else:
        places = [("in the scenario itself", SCENARIO), *inner, *suite]
    for name in (*FAMILIAR.get(key, ()), key):
        for place, reader in places:
            if name in reader.file_keys:
                return f"Write it {place}" if name == key else f"Write {name!r} {place}"
    from seatrial.evaluators.registry import EVALUATORS

    return f"Write it in a scenario as scorers: [{{{key}: …}}]" if key in EVALUATORS else None


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of YAML and JSON files, with the meaning of every key."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Seatrial scenarios",
        "description": "A suite of scenarios, or one transcript of pytest-agent-eval.",
        "type": "object",
        "if": {"required": ["id"]},
        "then": struct_reader(_Transcript).schema(),
        "else": FILE.schema(),
    }


class _TranscriptTurn(TypedDict):
    user: Annotated[Name, Key("what the user says")]
    audio: NotRequired[Annotated[Annotated[Any, Format("audio")], Key("a sound file (not supported)")]]
    expect: NotRequired[Annotated[Expect, Key("what must be true after the agent's reply")]]


class _Transcript(TypedDict):
    """A file of pytest-agent-eval."""

    id: Annotated[Name, Key("the scenario's name")]
    threshold: NotRequired[Annotated[Share, Key("the share of runs that must pass", default=0.8)]]
    runs: NotRequired[Annotated[Count, Key("how often it is played", default=1)]]
    tags: NotRequired[Annotated[Sequence[Name], Key("to select by")]]
    turns: Annotated[Sequence[_TranscriptTurn], Meta(min_length=1), Key("the script")]


def is_transcript(data: Any) -> bool:
    """Whether the content of a file is a transcript of pytest-agent-eval."""
    return isinstance(data, Mapping) and "scenarios" not in data and ("id" in data or "turns" in data)


def read_transcript(data: Any, problems: Problems) -> dict[str, Any] | None:
    """The keys of a scenario for a transcript; None if something is wrong with it."""
    made = struct_reader(_Transcript).read_keys(data, (), problems)
    if made is None:
        return None
    return {
        "name": made["id"],
        "threshold": made.get("threshold", 0.8),
        "trials": made.get("runs", 1),
        "tags": made.get("tags", ()),
        "turns": tuple(Turn(**turn) for turn in made["turns"]),
    }
