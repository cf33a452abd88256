"""Mocks that are Python functions: finding them, calling them, and telling their bugs from their answers."""

import inspect
import traceback
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from seatrial import foreign
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import ToolAnswer
from seatrial.model.trial_errors import TrialError


@dataclass(frozen=True, slots=True, kw_only=True)
class MockContext:
    """What a Python mock is told about the call it answers."""

    tool: str
    call_index: int
    """How often this tool was called before in this trial."""
    turn_index: int
    trial_id: str
    seed: int
    """The trial's seed, for mocks that want chance which can be repeated."""
    state: dict[str, Any]
    """Shared by all mocks of the trial, and by no other trial."""


def find_function(target: Any, *, where: str) -> Callable[..., Any]:
    """The function that `pkg.mod:name` names, or the function itself; it must take (args, ctx)."""
    function: Callable[..., Any] = _import_target(target, where=where) if isinstance(target, str) else target
    try:
        signature = inspect.signature(function)
    except ValueError:
        return function  # written in C without a signature: only calling it can tell
    try:
        signature.bind({}, None)
    except TypeError as error:
        shown = f"{_name(function)}{signature}"
        raise UsageError(f"{where}: {shown} cannot be called with (args, ctx): {error}.") from None
    return function


def _import_target(target: str, *, where: str) -> Callable[..., Any]:
    module_name, _, path = target.partition(":")
    try:
        found: Any = import_module(module_name)
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {error}"
        raise UsageError(f"{where}: cannot import {module_name!r} for the mock {target!r}. {cause}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{where}: {module_name!r} has no {path!r} for the mock {target!r}.")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{where}: {target!r} is {found!r}, no function. A mock is called with (args, ctx).")
    return cast("Callable[..., Any]", found)


async def answer_by_function(function: Callable[..., Any], arguments: Any, ctx: MockContext) -> ToolAnswer:
    """What the function returns, or its ToolError as the tool's error. Any other exception is a bug in the mock."""
    try:
        # A copy, since the mock may hand out something that it keeps in its state. Copying may call code of the user's.
        result = await foreign.call(function, arguments, ctx)
        return ToolAnswer(result=await foreign.call(deepcopy, result))
    except foreign.ForeignError as error:
        if isinstance(error.raised, ToolError):
            return ToolAnswer(error=str(error.raised))
        raise _bug(function, error.raised, ctx) from error.raised


def _bug(function: Callable[..., Any], error: BaseException, ctx: MockContext) -> TrialError:
    frames = traceback.extract_tb(error.__traceback__)
    code = getattr(inspect.unwrap(function), "__code__", None)
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    place = next(iter((own or frames)[-1:]), None)
    where = f" at {place.filename}:{place.lineno}" if place is not None else ""
    return TrialError(
        ErrorKind.TOOL,
        f"the mock of {ctx.tool!r}, {_name(function)}, raised {foreign.describe(error)}{where}",
        hint="an error that the agent should see is raised as seatrial.ToolError",
        traceback="".join(traceback.format_exception(error)),
    )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
