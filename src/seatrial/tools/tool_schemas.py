"""The `tools:` of a scenario: tool definitions with JSON Schemas, and checks of arguments and results."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.results import TrialError
from seatrial.model.struct import Struct
from seatrial.patterns import limited_schema

from .mocks import Calls, Mock

_KEYS = ("name", "description", "parameters", "output_schema", "strict")

FindViolation = Callable[[Any], str | None]


class ToolSchema(Struct, frozen=True, kw_only=True):
    """A tool's definition; a missing schema allows anything."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None


def check_tools(tools: Any) -> list[str]:
    """All problems of a `tools:` list as texts."""
    if tools is None:
        return []
    if not isinstance(tools, list | tuple):
        return [f"tools: expected a list of tool definitions, got {tools!r}"]
    problems: list[str] = []
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        problems += [f"{where}: {text}" for text in _definition_problems(tool)]
        name = _unwrap(tool).get("name") if isinstance(tool, Mapping) else None
        if isinstance(name, str) and name in seen:
            problems.append(f"{where}: {name!r} is defined twice")
        if isinstance(name, str):
            seen.add(name)
    return problems


def read_tools(tools: Sequence[Mapping[str, Any]] | None) -> tuple[ToolSchema, ...]:
    """The definitions of a `tools:` list, plain or wrapped as `{type: function, function: …}`."""
    problems = check_tools(tools)
    if problems:
        raise UsageError("\n".join(problems))
    return tuple(_read_tool(_unwrap(tool)) for tool in tools or ())


def violation_finder(schema: Mapping[str, Any]) -> FindViolation:
    """A function that describes how a value violates the schema; None if it does not."""
    return _violation_finder(json.dumps(schema, sort_keys=True))


def _unwrap(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = tool.get("function")
    return inner if isinstance(inner, Mapping) else tool


def _read_tool(tool: Mapping[str, Any]) -> ToolSchema:
    return ToolSchema(name=tool["name"], **{key: tool.get(key) for key in _KEYS[1:4]})


def _definition_problems(tool: Any) -> list[str]:
    if not isinstance(tool, Mapping):
        return [f"expected a mapping {{name, description, parameters}}, got {tool!r}"]
    definition = _unwrap(tool)
    problems = [f"unknown key {key!r}. Known: {', '.join(_KEYS)}" for key in definition if key not in _KEYS]
    name = definition.get("name")
    if not isinstance(name, str) or not name.strip():
        problems.append(f"name: expected the name of the tool, got {name!r}")
    for key in ("parameters", "output_schema"):
        problems += [f"{key}: {text}" for text in _schema_problems(definition.get(key))]
    return problems


def _schema_problems(schema: Any) -> list[str]:
    if schema is None:
        return []
    if not isinstance(schema, Mapping):
        return [f"expected a JSON Schema, got {schema!r}"]
    try:
        violation_finder(schema)
    except MissingExtra:
        raise
    except (UsageError, TypeError, ValueError) as error:  # the last two: json cannot write it
        return [str(error)]
    return []


@lru_cache(maxsize=1024)
def _violation_finder(text: str) -> FindViolation:
    """Cached: all scenarios of a suite have the same tools, and checking a schema takes milliseconds."""
    try:
        from jsonschema.exceptions import SchemaError, best_match
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry
        from referencing.exceptions import Unresolvable
    except ImportError:
        raise MissingExtra("schema", needed_for="checking tool calls against `tools:`") from None

    schema = json.loads(text)
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise UsageError(f"not a JSON Schema: {error.json_path}: {error.message}") from None
    # With an empty registry, references stay inside the schema and nothing is downloaded.
    schema, kind = limited_schema(schema, kind)
    validator = kind(schema, registry=Registry())

    def find_violation(value: Any) -> str | None:
        try:
            error = best_match(validator.iter_errors(value))
        except Unresolvable as unresolvable:
            message = f"a tool's JSON Schema refers to {unresolvable.ref!r}, which is not part of it"
            raise TrialError(ErrorKind.CONFIG, message, hint="put the definition under $defs") from unresolvable
        return None if error is None else f"{error.json_path.removeprefix('$.')}: {error.message}"

    return find_violation


def offer(mocks: Mapping[str, Mock], schemas: Mapping[str, ToolSchema]) -> Iterator[dict[str, Any]]:
    """A definition for each tool: from `tools:`, otherwise derived from its mock."""
    for schema in schemas.values():
        yield _definition(schema.name, schema.description, schema.parameters, schema.output_schema)
    for name, mock in mocks.items():
        if name not in schemas:
            yield _definition(name, _description(mock), _parameters(mock), None)


def _definition(name: str, description: str | None, parameters: Any, output_schema: Any) -> dict[str, Any]:
    given = {"description": description, "parameters": parameters, "output_schema": output_schema}
    return {"name": name, **{key: value for key, value in given.items() if value is not None}}


def _description(mock: Mock) -> str | None:
    """The first line of a Python mock's docstring."""
    if not isinstance(mock.answer, Calls):
        return None
    return next(iter((inspect.getdoc(mock.answer.function) or "").splitlines()), None) or None


def _parameters(mock: Mock) -> dict[str, Any]:
    """An object with the argument names of the mock's `when`, so that a model can guess them."""
    names = dict.fromkeys(_names(mock))
    return {"type": "object", "properties": {name: {} for name in names}} if names else {"type": "object"}


def _names(mock: Mock) -> Iterator[str]:
    for branch in mock.when:
        yield from branch.args
        yield from _names(branch.mock)
    for entry in mock.sequence:
        yield from _names(entry)
