"""The frameworks that Seatrial has an adapter for, and the versions it was tested with."""

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from seatrial.agents.python import CallableAgent, is_factory
from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.results import TrialError
from seatrial.model.struct import Struct


class Framework(Struct, frozen=True, kw_only=True):
    """A framework's package on PyPI, and the versions that its contract was run with."""

    package: str
    since: str
    """The oldest version that is known to work."""
    below: str
    """The first one that nobody has tried."""

    @property
    def requirement(self) -> str:
        """As the extra states it."""
        return f"{self.package}>={self.since},<{self.below}"

    def covers(self, installed: str) -> bool:
        return _numbers(self.since) <= _numbers(installed) < _numbers(self.below)


FRAMEWORKS: Mapping[str, Framework] = {
    "langchain": Framework(package="langchain", since="1.0", below="2"),
    "langgraph": Framework(package="langgraph", since="1.1.10", below="2"),
    "openai_agents": Framework(package="openai-agents", since="0.22", below="0.25"),
    "pydantic_ai": Framework(package="pydantic-ai-slim", since="2.20", below="3"),
    "smolagents": Framework(package="smolagents", since="1.23", below="2"),
    "crewai": Framework(package="crewai", since="1.15.22", below="1.16"),
    "google_adk": Framework(package="google-adk", since="2.0", below="3"),
    "llama_index": Framework(package="llama-index-core", since="0.14.12", below="0.15"),
}
"""Type of an agent -> its framework. The extras of the package say the same, which a test holds them to."""


def find_version(kind: str) -> str:
    """The installed version of the framework. Raises MissingExtra when there is none."""
    try:
        return version(FRAMEWORKS[kind].package)
    except PackageNotFoundError:
        raise MissingExtra(kind.replace("_", "-"), needed_for=f"an agent of type {kind!r}") from None


def mind_version(kind: str) -> None:
    """Warn where the installed version is not one that was tested. Raises MissingExtra when there is none."""
    framework, installed = FRAMEWORKS[kind], find_version(kind)
    if not framework.covers(installed):
        warnings.warn(
            f"{framework.package} {installed} is installed, but agents of type {kind!r} were tested with "
            f"{framework.requirement}; look whether tool calls are recorded as they should",
            stacklevel=3,
        )


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers a version begins with: (1, 2) for "1.2rc1"."""
    leading = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


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
