"""From a framework's object, or a function that makes one, to an agent."""

import inspect
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from seatrial.agents.call_signature import is_factory
from seatrial.agents.callables import CallableAgent
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.trial_errors import TrialError


def adapt(target: Any, *, kind: str, name: str) -> CallableAgent:
    """The agent around a framework's object. A function without parameters makes the object anew for each trial."""
    adapter = import_module(f".{kind}", __package__).Adapter
    made = None
    if not _is_maker(target):
        made = _adapted(adapter, target, name)  # to refuse now what would be refused in every trial
    agent = CallableAgent(_maker(adapter, target, name), name=name)
    agent.tool_names = None if made is None else made.tool_names
    return agent


def _is_maker(target: Any) -> bool:
    plain = inspect.isroutine(target) or inspect.isclass(target) or isinstance(target, partial)
    return plain and is_factory(target)


def _maker(adapter: Callable[[Any], Any], target: Any, name: str) -> Callable[[], Any]:
    """What makes the adapter of one trial, where the agent itself will run: on a loop, or in a thread."""
    makes = _is_maker(target)

    def make() -> Any:
        return _adapted_in_trial(adapter, target() if makes else target, name)

    async def make_on_loop() -> Any:
        made = target() if makes else target
        return _adapted_in_trial(adapter, await made if inspect.isawaitable(made) else made, name)

    runs_on_loop = inspect.iscoroutinefunction(getattr(adapter, "run", None))
    return make_on_loop if runs_on_loop or inspect.iscoroutinefunction(target) else make


def _adapted(adapter: Callable[[Any], Any], target: Any, name: str) -> Any:
    try:
        return adapter(target)
    except UsageError as problem:
        raise UsageError(f"agent {name!r}: {problem}") from None


def _adapted_in_trial(adapter: Callable[[Any], Any], target: Any, name: str) -> Any:
    """What a function makes is known no sooner: a mistake of the user's ends the trial, and is not the agent's."""
    try:
        return _adapted(adapter, target, name)
    except UsageError as problem:
        raise TrialError(ErrorKind.CONFIG, str(problem)) from None
