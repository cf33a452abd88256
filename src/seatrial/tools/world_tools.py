"""The tools of a world: functions that take the state first, with schemas from their signatures and docstrings."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, get_type_hints

import msgspec

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

_CTX = "ctx"
"""The parameter that gets a ToolContext."""
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples)\s*:\s*$")
_ARGUMENT = re.compile(r"^\s+\**(\w+)\s*(?:\([^)]*\))?\s*:\s*(.+)$")


class WorldTool(Struct, frozen=True, kw_only=True):
    """One tool: its function, and what its signature says about the arguments."""

    name: str
    function: Callable[..., Any]
    """Called with the state, then with arguments by name."""
    description: str | None = None
    parameters: Mapping[str, Any]
    """The JSON Schema of the arguments."""
    types: Mapping[str, Any]
    """The types of the arguments; Any where none is declared."""
    required: frozenset[str]
    takes_others: bool = False
    """It has `**kwargs`."""
    takes_ctx: bool = False
    owner: type | None = None
    """The class whose method it is. Each trial makes its own object of it."""

    def read_arguments(self, arguments: Any) -> dict[str, Any]:
        """The arguments as the function takes them. Raises ValueError with what the agent sees."""
        if not isinstance(arguments, Mapping):
            raise ValueError(f"arguments are not a JSON object: {arguments!r:.200}")
        missing = [name for name in self.required if name not in arguments]
        unknown = [name for name in arguments if name not in self.types] if not self.takes_others else []
        if missing or unknown:
            texts = [f"{name!r} is missing" for name in sorted(missing)] + [f"unknown argument {n!r}" for n in unknown]
            raise ValueError(f"invalid arguments for {self.name!r}: {'; '.join(texts)}")
        return {name: self._convert(name, value) for name, value in arguments.items()}

    def _convert(self, name: str, value: Any) -> Any:
        kind = self.types.get(name, Any)
        if kind is Any:
            return value
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as problem:
            text = str(problem).replace(" - at `$", f" - at `{name}")
            place = "" if f"`{name}" in text else f"{name}: "
            raise ValueError(f"invalid arguments for {self.name!r}: {place}{text}") from None


def read_world_tools(given: Any, *, where: str = "world.tools") -> dict[str, WorldTool]:
    """The tools of a module, a class, an object, a list of these and of functions, or a mapping of names to functions.

    In modules, classes and objects, the public functions whose first parameter is `state` are tools. Raises UsageError
    for anything that cannot be a tool.
    """
    tools: dict[str, WorldTool] = {}
    for name, function, owner in _functions(given, where):
        if name in tools:
            raise UsageError(f"{where}: there are two tools named {name!r}. Rename one of them.")
        tools[name] = _read_tool(name, function, owner, where)
    if not tools:
        raise UsageError(f"{where}: {given!r:.200} has no tools. A tool is a public function def f(state, ...).")
    return tools


_Found = tuple[str, Callable[..., Any], type | None]


def _functions(given: Any, where: str) -> Iterator[_Found]:
    if isinstance(given, Mapping):
        for name, function in given.items():
            if not isinstance(name, str) or not callable(function):
                raise UsageError(f"{where}: expected a name and a function, got {name!r}: {function!r:.200}.")
            yield name, function, None
    elif isinstance(given, list | tuple | set | frozenset):
        for each in given:
            yield from _functions(each, where)
    elif isinstance(given, ModuleType):
        # Functions that the module imports are not its tools.
        yield from _public(given, lambda each: inspect.isfunction(each) and each.__module__ == given.__name__)
    elif isinstance(given, type):
        yield from _methods(given)
    elif inspect.isroutine(given):
        yield given.__name__, given, None
    elif isinstance(given, str | int | float | None):
        raise UsageError(f"{where}: expected a module, a class, a function or a list of these, got {given!r}.")
    else:
        yield from _public(given, inspect.isroutine)


def _public(holder: Any, is_tool: Callable[[Any], bool]) -> Iterator[_Found]:
    for name in dir(holder):
        if not name.startswith("_") and is_tool(found := getattr(holder, name)) and _takes_state(found, 0):
            yield name, found, None


def _takes_state(function: Callable[..., Any], place: int) -> bool:
    try:
        names = [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        return False
    return len(names) > place and names[place] == "state"


def _methods(kind: type) -> Iterator[_Found]:
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        if name.startswith("_"):
            continue
        if isinstance(found, staticmethod | classmethod):
            if _takes_state(getattr(kind, name), 0):
                yield name, getattr(kind, name), None
        elif inspect.isfunction(found) and _takes_state(found, 1):
            yield name, found, kind


def _read_tool(name: str, function: Callable[..., Any], owner: type | None, where: str) -> WorldTool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise UsageError(f"{where}: {name!r} has no signature that Python can read. Write it in Python.") from None
    parameters = parameters[1:] if owner is not None else parameters
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise UsageError(f"{where}: {name!r} takes no state. A tool is a function def {name}(state, ...).")
    hints = _hints(function)
    named = [each for each in parameters[1:] if each.kind in _NAMED and each.name != _CTX]
    types = {each.name: _usable(hints.get(each.name, Any)) for each in named}
    required = frozenset(each.name for each in named if each.default is inspect.Parameter.empty)
    takes_others = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    description, arguments = _read_docstring(inspect.getdoc(function) or "")
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: _schema(types[each.name], each, arguments) for each in named},
        "additionalProperties": takes_others,
    }
    if required:
        schema["required"] = [each.name for each in named if each.name in required]
    return WorldTool(
        name=name,
        function=function,
        description=description or None,
        parameters=schema,
        types=types,
        required=required,
        takes_others=takes_others,
        takes_ctx=any(each.name == _CTX for each in parameters[1:]),
        owner=owner,
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(inspect.unwrap(function), include_extras=True)
    except Exception:  # annotations are user code; names that only type checkers import cannot be resolved
        return {}


def _usable(kind: Any) -> Any:
    """The type if JSON values can be converted to it, else Any: the tool then gets what the agent sent."""
    try:
        msgspec.json.schema(kind)
    except Exception:  # a type of the user, or one that JSON does not have
        return Any
    return kind


def _schema(kind: Any, parameter: inspect.Parameter, described: Mapping[str, str]) -> dict[str, Any]:
    if kind is Any:
        schema: dict[str, Any] = {}
    else:
        [schema], components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
        schema = {**schema, **({"$defs": components} if components else {})}
    if parameter.name in described:
        schema["description"] = described[parameter.name]
    default = parameter.default
    if isinstance(default, str | int | float | bool):
        schema["default"] = default
    return schema


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and the descriptions of arguments in a section `Args:`."""
    description: list[str] = []
    arguments: dict[str, str] = {}
    section = None
    for line in text.splitlines():
        found = _SECTION.match(line)
        if found is not None:
            section = found[1]
        elif section is None:
            description.append(line)
        elif section in ("Args", "Arguments", "Parameters") and (argument := _ARGUMENT.match(line)):
            arguments[argument[1]] = argument[2].strip()
    return "\n".join(description).strip(), arguments


def definitions(tools: Iterable[WorldTool]) -> Iterator[dict[str, Any]]:
    """The tools as they are offered to agents: name, description, parameters."""
    for tool in tools:
        described = {} if tool.description is None else {"description": tool.description}
        yield {"name": tool.name, **described, "parameters": dict(tool.parameters)}
