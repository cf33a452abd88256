"""The frameworks that Seatrial has an adapter for: their packages, tested versions and modules.

A new framework needs an entry here, a file with its `Adapter`, and an extra in pyproject.toml.
"""

import inspect
import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from seatrial.errors import MissingExtra
from seatrial.model.struct import Struct


class Framework(Struct, frozen=True, kw_only=True):
    """A framework's package on PyPI, and the versions that its contract tests ran with."""

    package: str
    since: str
    """The oldest version that is known to work."""
    below: str
    """The first version that was not tested."""
    modules: tuple[str, ...] = ()
    """Its Python packages. An object of a class from one of them is an agent of this framework."""
    inputs: tuple[str, ...] = ()
    """Settings with values that the framework gives to tools and prompts: its word for them, such as `deps`."""
    decisions: bool = False
    """Its agents can wait for a person, and turns with `approve`, `reject` or `resume` answer them."""

    attachments: bool = True
    """Its agents get the images and files of the user's message."""
    continues: bool = False
    """Its agents can continue a stored conversation (`seatrial fork`)."""

    @property
    def requirement(self) -> str:
        """As the extra states it."""
        return f"{self.package}>={self.since},<{self.below}"

    def covers(self, installed: str) -> bool:
        return _numbers(self.since) <= _numbers(installed) < _numbers(self.below)


FRAMEWORKS: Mapping[str, Framework] = {
    "langchain": Framework(
        package="langchain",
        since="1.0",
        below="2",
        modules=("langchain", "langchain_core"),
        inputs=("context", "config"),
        decisions=True,
    ),
    "langgraph": Framework(
        package="langgraph",
        since="1.1.10",
        below="2",
        modules=("langgraph",),
        inputs=("context", "config"),
        decisions=True,
        continues=True,
    ),
    "openai_agents": Framework(
        package="openai-agents",
        since="0.22",
        below="0.25",
        modules=("agents",),
        inputs=("context", "config"),
        decisions=True,
        continues=True,
    ),
    "pydantic_ai": Framework(
        package="pydantic-ai-slim",
        since="2.20",
        below="3",
        modules=("pydantic_ai",),
        inputs=("deps",),
        decisions=True,
        continues=True,
    ),
    "smolagents": Framework(package="smolagents", since="1.23", below="2", modules=("smolagents",), attachments=False),
    "crewai": Framework(package="crewai", since="1.15.22", below="1.16", modules=("crewai",), attachments=False),
    "google_adk": Framework(package="google-adk", since="2.0", below="3", modules=("google.adk",), decisions=True),
    "llama_index": Framework(package="llama-index-core", since="0.14.12", below="0.15", modules=("llama_index",)),
    "strands": Framework(
        package="strands-agents",
        since="1.62",
        below="2",
        modules=("strands",),
        inputs=("invocation_state",),
        decisions=True,
    ),
    "agent_framework": Framework(
        package="agent-framework-core",
        since="1.23",
        below="2",
        modules=("agent_framework",),
        inputs=("function_invocation_kwargs",),
        decisions=True,
    ),
    "claude_agent_sdk": Framework(
        package="claude-agent-sdk", since="0.2.183", below="0.3", modules=("claude_agent_sdk",), decisions=True
    ),
}
"""Agent type -> framework. A test compares the extras in pyproject.toml with it."""

_KIND_BY_MODULE = {module: kind for kind, framework in FRAMEWORKS.items() for module in framework.modules}


def framework_of(target: Any) -> str | None:
    """The agent type of a framework's object; None for functions, classes and objects of the user's own classes.

    It goes by the modules of the object's classes and imports no framework. A subclass that has its own `run` or
    `__call__` belongs to the user.
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
    return _KIND_BY_MODULE.get(package)


def find_version(kind: str) -> str:
    """The installed version of the framework. Raises MissingExtra when there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(FRAMEWORKS[kind].package)
    except PackageNotFoundError:
        raise MissingExtra(kind.replace("_", "-"), needed_for=f"an agent of type {kind!r}") from None


def check_version(kind: str) -> None:
    """Warn if the installed version was not tested. Raises MissingExtra when there is none."""
    framework, installed = FRAMEWORKS[kind], find_version(kind)
    if not framework.covers(installed):
        warnings.warn(
            f"{framework.package} {installed} is installed, but agents of type {kind!r} were tested with "
            f"{framework.requirement}; check that tool calls are recorded",
            stacklevel=3,
        )


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers a version begins with: (1, 2) for "1.2rc1"."""
    leading = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()
