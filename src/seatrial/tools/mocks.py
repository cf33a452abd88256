"""The parts of a mock: answers, faults, branches, and Python functions that answer."""

import inspect
import traceback
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from seatrial import foreign
from seatrial.errors import ToolError, UsageError
from seatrial.foreign.import_path import import_attribute
from seatrial.model.conversation import ErrorKind
from seatrial.model.faults import Fault
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError
from seatrial.model.struct import Struct

MISSING: Any = object()
"""`returns` is missing; None would be a result."""


class Returns(Struct, frozen=True, kw_only=True):
    value: Any


class Raises(Struct, frozen=True, kw_only=True):
    text: str


class Faulty(Struct, frozen=True, kw_only=True):
    fault: Fault
    value: Any = None
    """The complete result; for `truncated`, `empty` and `slow`."""


class Calls(Struct, frozen=True, kw_only=True):
    function: Callable[..., Any]


Answer = Returns | Raises | Faulty | Calls


class Branch(Struct, frozen=True, kw_only=True):
    """An entry of `when`: the mock that answers calls with these arguments."""

    args: Mapping[str, Any]
    mock: "Mock"


class Mock(Struct, frozen=True, kw_only=True):
    """A tool's mock, or an entry of its `sequence` or `when`. It tries `when`, then `sequence`, then the answer."""

    path: str
    """Its place under `mocks:`; a trial counts the position in its sequence by this name."""
    delay_ms: float | None = None
    when: tuple[Branch, ...] = ()
    sequence: tuple["Mock", ...] = ()
    answer: Answer | None = None
    """None: only `when` and `sequence` answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MockContext:
    """What a Python mock gets to know about the call."""

    tool: str
    call_index: int
    """The number of earlier calls of this tool in this trial."""
    turn_index: int
    trial_id: str
    seed: int
    """The trial's seed, for repeatable random answers."""
    state: dict[str, Any]
    """Shared by all mocks of the trial."""


def find_function(target: Any, *, where: str) -> Callable[..., Any]:
    """The function at an import path, or the given function. It must take (args, ctx)."""
    function: Callable[..., Any] = (
        import_attribute(target, what=f"{where}: mock") if isinstance(target, str) else target
    )
    if not callable(function):
        raise UsageError(f"{where}: {target!r} is {function!r}, no function. A mock is called with (args, ctx).")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return function  # written in C, without a signature
    try:
        signature.bind({}, None)
    except TypeError as error:
        shown = f"{_name(function)}{signature}"
        raise UsageError(f"{where}: {shown} cannot be called with (args, ctx): {error}.") from None
    return function


async def answer_by_function(function: Callable[..., Any], arguments: Any, ctx: MockContext) -> ToolAnswer:
    """What the function returns, or its ToolError as the tool's error. Any other exception is a bug of the mock."""
    try:
        # A copy, since the mock may return a part of its state. Copying may call user code.
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
