"""How a Python object is entered as an agent: which function is called, and which of its parameters gets what."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

_MEANING = {
    "input": "input",
    "prompt": "input",
    "text": "input",
    "question": "input",
    "query": "input",
    "message": "input",
    "user_input": "input",
    "messages": "messages",
    "history": "messages",
    "conversation": "messages",
    "ctx": "ctx",
}
"""Parameter names and what they are given."""


_FRAMEWORKS = {
    "langgraph": "langgraph",
    "langchain": "langchain",
    "langchain_core": "langchain",
    "agents": "openai_agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
    "crewai": "crewai",
    "google.adk": "google_adk",
    "llama_index": "llama_index",
}
"""Packages of frameworks, and the type of an agent that is made with them."""


def framework_of(target: Any) -> str | None:
    """The type of agent that an object of a framework is; None for functions, classes and objects of the user's own.

    Found by the modules of its classes: the framework is not imported for it. A subclass with a `run` or a `__call__`
    of its own is the user's.
    """
    if inspect.isclass(target) or inspect.isroutine(target):
        return None
    classes = type(target).__mro__
    kind = next(filter(None, map(_framework_of_class, classes)), None)
    entered = [_framework_of_class(each) for each in classes if {"run", "__call__"} & vars(each).keys()]
    return None if entered and entered[0] is None else kind


def _framework_of_class(kind: type) -> str | None:
    module = kind.__module__ or ""
    package = ".".join(module.split(".")[:2]) if module.startswith("google.") else module.partition(".")[0]
    if package == "agents" and not hasattr(sys.modules.get(package), "function_tool"):
        return None  # a package of the user's with the name of OpenAI's
    return _FRAMEWORKS.get(package)


class Door(Struct, frozen=True, kw_only=True):
    """How one callable is entered: which of its parameters gets what."""

    function: Callable[..., Any]
    parameters: tuple[tuple[str, str], ...]
    is_async: bool
    streams: bool
    sees_conversation: bool
    """Whether it is given more than the latest message."""


def is_factory(target: Any) -> bool:
    """A class, or a function without required parameters and without any that we would fill."""
    if inspect.isclass(target):
        return True
    if hasattr(target, "run") or not callable(target):
        return False
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty and p.name not in _MEANING for p in parameters)


def require_no_arguments(target: type, name: str) -> None:
    """A class is made anew per trial, so it must be makeable without arguments."""
    try:
        inspect.signature(target).bind()
    except ValueError:
        return
    except TypeError as problem:
        raise UsageError(
            f"agent {name!r}: the class {target.__qualname__} cannot be made without arguments ({problem}); "
            "give a factory without parameters that makes it"
        ) from None


def find_door(target: Any, name: str) -> Door:
    """How to call the agent. Raises UsageError when it cannot be called as one."""
    of_class = inspect.isclass(target)
    function = getattr(target, "run", None)
    if not callable(function):
        function = getattr(target, "__call__", None) if of_class else target  # noqa: B004
    if not callable(function) or (of_class and not _defines_call(target)):
        raise UsageError(
            f"agent {name!r}: {_called(target)} is neither callable nor has a run() method; "
            "give a function, an object or class with run(input), or a factory without parameters"
        )
    behind = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    streams = inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(behind)
    parameters = _read_parameters(function, name, skip_self=of_class and _is_bound_later(target))
    return Door(
        function=function,
        parameters=parameters,
        is_async=streams or inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(behind),
        streams=streams,
        sees_conversation=any(meaning != "input" for _, meaning in parameters),
    )


def _is_bound_later(target: type) -> bool:
    """Whether the class's `run` gets a `self` only from an instance; static and class methods do not."""
    return inspect.isfunction(inspect.getattr_static(target, "run", None) or inspect.getattr_static(target, "__call__"))


def _defines_call(target: type) -> bool:
    return callable(getattr(target, "run", None)) or "__call__" in {k for c in target.__mro__[:-1] for k in vars(c)}


def _read_parameters(function: Callable[..., Any], name: str, *, skip_self: bool) -> tuple[tuple[str, str], ...]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return (("input", "input"),)
    found: list[tuple[str, str]] = []
    for parameter in parameters[1:] if skip_self else parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        meaning = _MEANING.get(parameter.name)
        if meaning is None and parameter.default is parameter.empty:
            if parameter.name == "context":
                raise _unknown_parameter(name, parameter.name, "give it a default of None, or name it ctx")
            raise _unknown_parameter(name, parameter.name, "name it input (latest user text), messages or ctx")
        if meaning is not None:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise _unknown_parameter(name, parameter.name, "parameters are given by name; remove the `/`")
            found.append((parameter.name, meaning))
    if not found:
        raise UsageError(f"agent {name!r}: takes none of input, messages, ctx; give it one of them as a parameter")
    return tuple(found)


def _unknown_parameter(name: str, parameter: str, remedy: str) -> UsageError:
    return UsageError(f"agent {name!r}: cannot fill its parameter {parameter!r}; {remedy}")


def _called(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__name__
