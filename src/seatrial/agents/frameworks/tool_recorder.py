"""What a framework's agent returns, as text."""

import functools
import json
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from seatrial.agents.context import AgentContext, under_way
from seatrial.errors import UsageError
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator


def as_text(value: Any) -> str | None:
    """An agent's output as the user would read it: text as it is, anything else as JSON."""
    plain = plain_value(value)
    return plain if plain is None or isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


Reads = Callable[[Any], ToolAnswer]
"""What a framework's tool returned, as a result or as an error that the model is told."""

Pauses = type[BaseException] | tuple[type[BaseException], ...]

_installing = Lock()


def stand_before(owner: Any, method: str, make: Callable[[Any], Any]) -> None:
    """Put a function of ours, made from the original, in the place of a framework's method; once for the process."""
    with _installing:
        original = vars(owner).get(method)
        if original is None:
            raise UsageError(f"{owner.__name__} has no {method!r}; this version is not known to Seatrial")
        if not hasattr(original, "stands_before"):
            ours: Any = functools.wraps(original)(make(original))
            ours.stands_before = original
            setattr(owner, method, ours)


def as_result(value: Any) -> ToolAnswer:
    return ToolAnswer(result=plain_value(value))


async def watch(
    ctx: AgentContext,
    name: str,
    arguments: Any,
    real: Callable[[], Awaitable[Any]],
    *,
    read: Reads = as_result,
    unless: Pauses = (),
    control: bool = False,
) -> Any:
    """What the tool answers: the mock, or the real tool where it may run. Raises ToolError where the mock does, and
    TrialError where there is neither.

    `unless` names exceptions that only put the call off: it will be made again, and is kept then. `control` is a tool
    that only directs the agents, such as a handoff: it needs no mock.
    """
    if answers(ctx, name, control=control):
        return await ctx.ask(name, arguments)
    with _kept(ctx, name, arguments, unless, control=control) as keep:
        value = await real()
        keep(read(value))
        return value


def watch_blocking(
    ctx: AgentContext,
    name: str,
    arguments: Any,
    real: Callable[[], Any],
    *,
    read: Reads = as_result,
    unless: Pauses = (),
    control: bool = False,
) -> Any:
    """The same for sync tools, in a thread that may wait."""
    if answers(ctx, name, control=control):
        return ctx.ask_blocking(name, arguments)
    with _kept(ctx, name, arguments, unless, control=control) as keep:
        value = real()
        keep(read(value))
        return value


def answers(ctx: AgentContext, name: str, *, control: bool = False) -> bool:
    """Whether Seatrial answers the call in the place of the real tool: by its mock, or by ending the trial."""
    return ctx.knows_tool(name) if control else not ctx.lets_tool_run(name)


@contextmanager
def _kept(
    ctx: AgentContext, name: str, arguments: Any, unless: Pauses, *, control: bool
) -> "Iterator[Callable[[ToolAnswer], None]]":
    """Keep the call however it ends."""
    call = ctx.begin_call(name, arguments, real=not control)
    answers: list[ToolAnswer] = []
    token = under_way.set(name)
    try:
        yield answers.append
    except unless:
        raise
    except BaseException as raised:
        answers.append(ToolAnswer(error=f"{type(raised).__name__}: {raised}"))
        raise
    finally:
        under_way.reset(token)
        ctx.end_call(call, answers[0] if answers else None)
