"""The tools of a scenario as they are offered to an agent that asks which there are."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from .mock_spec import Calls, Mock
from .tool_schemas import ToolSchema


def offer(mocks: Mapping[str, Mock], schemas: Mapping[str, ToolSchema]) -> Iterator[dict[str, Any]]:
    """A definition for each tool: as `tools:` has it, else derived from its mock."""
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
    """An object that may hold anything, with the names that the mock looks at, so that a model can guess them."""
    names = dict.fromkeys(_names(mock))
    return {"type": "object", "properties": {name: {} for name in names}} if names else {"type": "object"}


def _names(mock: Mock) -> Iterator[str]:
    for branch in mock.when:
        yield from branch.args
        yield from _names(branch.mock)
    for entry in mock.sequence:
        yield from _names(entry)
