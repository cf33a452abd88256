"""What all adapters share: recording tool calls, answering them from mocks, replacing methods of a framework."""

import functools
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec import convert

from seatrial.agents.context import AgentContext, recorded_tool
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, Message
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import AgentFailure, TrialError
from seatrial.model.scenario import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator


MISSING: Any = object()
"""An input that the settings do not have."""


def missing_input(key: str, what: str, kind: str) -> TrialError:
    """The error of an agent that needs an input."""
    return TrialError(
        ErrorKind.CONFIG,
        f"{what}, and the agent's settings have no {key!r}",
        hint=f'write {{type: {kind}, target: ..., {key}: "package.module:make_{key}"}}: a value, or a function that '
        "makes one for each trial",
    )


def decision_in(messages: Sequence[Message]) -> Decision | None:
    """The person's decision in the last message; None if the user said something."""
    found = messages[-1].get("decision") if messages else None
    return None if found is None else convert(found, Decision)


def split_messages(messages: Sequence[Message]) -> tuple[Sequence[Message], Message | None]:
    """The messages before the user's last one, and that; None if a forked conversation ends with a tool's result."""
    return (messages[:-1], messages[-1]) if messages and messages[-1].get("role") == "user" else (messages, None)


def decide(waiting: Sequence[str], decision: Decision) -> list[bool]:
    """For each waiting call, by the name of its tool: whether the person approves it."""
    for name in (*decision.approve, *decision.reject):
        if name not in waiting:
            raise not_waiting(name, waiting)
    undecided = [name for name in waiting if name not in (*decision.approve, *decision.reject)]
    if undecided:
        raise TrialError(
            ErrorKind.CONFIG,
            f"the agent waits for a person to approve {', '.join(sorted(set(undecided)))}",
            hint="the turn must name it, too, under approve or reject",
        )
    return [name in decision.approve for name in waiting]


def not_waiting(name: str, waiting: Iterable[str]) -> AgentFailure:
    """The failure of an agent that did not ask for the decision."""
    shown = ", ".join(sorted(set(waiting))) or "nothing"
    return AgentFailure(f"a person decides about {name!r}, but the agent waits for {shown}", final=True)


def waiting_reply(names: Sequence[str]) -> str:
    """The reply of a turn in which the agent waits for a person."""
    return f"(waits for approval: {', '.join(sorted(names))})"


@contextmanager
def noting_failures(ctx: AgentContext) -> "Iterator[None]":
    """Report a missing input instead of the exception that it causes."""
    try:
        yield
    except Exception as raised:
        ctx.note_failure(raised)
        if ctx.fatal is not None:
            raise ctx.fatal from None
        raise


def as_text(value: Any) -> str | None:
    """An agent's output as text: a text as it is, any other value as JSON."""
    plain = plain_value(value)
    return plain if plain is None or isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


ReadResult = Callable[[Any], ToolAnswer]
"""From the return value of a framework's tool to a result, or to an error that the model sees."""

ExceptionTypes = type[BaseException] | tuple[type[BaseException], ...]

_installing = Lock()


def replace_method(owner: Any, method: str, make: Callable[[Any], Any]) -> None:
    """Replace a framework's method by `make(original)`, once per process."""
    with _installing:
        original = vars(owner).get(method)
        if original is None:
            raise UsageError(f"{owner.__name__} has no {method!r}; this version is not known to Seatrial")
        if not hasattr(original, "replaces"):
            ours: Any = functools.wraps(original)(make(original))
            ours.replaces = original
            setattr(owner, method, ours)


def as_result(value: Any) -> ToolAnswer:
    return ToolAnswer(result=plain_value(value))


async def record_call(
    ctx: AgentContext,
    name: str,
    arguments: Any,
    real: Callable[[], Awaitable[Any]],
    *,
    read: ReadResult = as_result,
    unless: ExceptionTypes = (),
    control: bool = False,
) -> Any:
    """The answer of the mock, or of the real tool if it may run; the call is recorded.

    Raises ToolError if the mock does, and TrialError if there is neither. `unless` are exceptions that postpone the
    call: it is made and recorded later. `control` marks a tool that only directs agents, such as a handoff: it needs
    no mock.
    """
    if seatrial_answers(ctx, name, control=control):
        return await ctx.ask(name, arguments)
    with _recorded(ctx, name, arguments, unless, control=control) as record:
        value = await real()
        record(read(value))
        return value


def record_call_blocking(
    ctx: AgentContext,
    name: str,
    arguments: Any,
    real: Callable[[], Any],
    *,
    read: ReadResult = as_result,
    unless: ExceptionTypes = (),
    control: bool = False,
) -> Any:
    """The same for sync tools. Blocks the thread."""
    if seatrial_answers(ctx, name, control=control):
        return ctx.ask_blocking(name, arguments)
    with _recorded(ctx, name, arguments, unless, control=control) as record:
        value = real()
        record(read(value))
        return value


def seatrial_answers(ctx: AgentContext, name: str, *, control: bool = False) -> bool:
    """Whether Seatrial answers the call instead of the real tool: from a mock, or with an error that ends the trial."""
    return ctx.knows_tool(name) if control else not ctx.lets_tool_run(name)


@contextmanager
def _recorded(
    ctx: AgentContext, name: str, arguments: Any, unless: ExceptionTypes, *, control: bool
) -> "Iterator[Callable[[ToolAnswer], None]]":
    """Record the call, however it ends."""
    call = ctx.begin_call(name, arguments, real=not control)
    answers: list[ToolAnswer] = []
    token = recorded_tool.set(name)
    try:
        yield answers.append
    except unless:
        raise
    except BaseException as raised:
        answers.append(ToolAnswer(error=f"{type(raised).__name__}: {raised}"))
        ctx.note_failure(raised)
        raise
    finally:
        recorded_tool.reset(token)
        ctx.end_call(call, answers[0] if answers else None)
