"""From what users write for `agent` (an import path, settings, a Python object) to an Agent."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from seatrial.errors import MissingExtra, UsageError
from seatrial.foreign.call import describe
from seatrial.foreign.import_path import explain_form, import_attribute, is_import_path
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import Agent
from seatrial.model.results import TrialError
from seatrial.model.struct import Struct

from .frameworks.registry import FRAMEWORKS, check_version, framework_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "seatrial.agents"
"""Installed packages add agent types in this group of entry points."""
ALL_WRAPPED = "all_wrapped"
"""Value of `tools` of a Python agent: it calls all its tools through ctx.call_tool or `@seatrial.tool`."""


class AgentType(Struct, frozen=True, kw_only=True):
    """A built-in agent type."""

    make: Callable[[Mapping[str, Any], str], Agent]
    """(settings, name) -> agent."""
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


def resolve_agent(spec: Any, *, name: str = "agent", isolated: bool = False) -> Agent:
    """The agent for an import path, for settings with a `type`, or for a Python object.

    `isolated` runs Python agents in worker processes.
    """
    if isolated:
        from .process_isolation import resolve_isolated

        return resolve_isolated(spec, name=name)
    if isinstance(spec, str):
        return _python(_import(spec), name=spec)
    if isinstance(spec, Mapping):
        return _from_mapping(spec, name)
    if type(spec).__module__.startswith("seatrial.") and _is_agent(spec):
        return spec  # type: ignore[no-any-return]
    return _python(spec, name=getattr(spec, "__name__", name))


def _import(path: str) -> Any:
    if path in AGENT_TYPES:
        raise UsageError(f"agent {path!r} {_needs_settings(path)}")
    return import_attribute(path, what="agent")


def _is_agent(target: Any) -> bool:
    """Whether it implements the Agent protocol. A `Mock` has every attribute, but no bools: it is a callable."""
    answers = (getattr(target, part, None) for part in ("answers_own_tools", "keeps_conversation"))
    return hasattr(target, "open") and hasattr(target, "close") and all(isinstance(answer, bool) for answer in answers)


def _python(target: Any, *, name: str, scope: Any = "trial", all_wrapped: bool = False) -> Agent:
    from .python import CallableAgent, CustomAgent

    if _is_agent(target):
        return CustomAgent(target)
    kind = framework_of(target)
    if kind is None:
        return CallableAgent(target, name=name, scope=scope, all_wrapped=all_wrapped)
    check_version(kind)
    try:
        return _adapt(target, kind=kind, name=name)
    except UsageError as problem:
        raise UsageError(
            f"{problem}. It is an object of {type(target).__module__.partition('.')[0]}, so it is taken for "
            f"{{type: {kind}, target: {name}}}; give an agent of that type, or a function that calls the object"
        ) from None


def _from_python_settings(spec: Mapping[str, Any], name: str) -> Agent:
    scope = spec.get("scope", "trial")
    if scope not in ("trial", "run"):
        raise UsageError(f"agent {name!r}: scope must be 'trial' or 'run', got {scope!r}")
    target, name = _load_target(spec["target"], name)
    return _python(target, name=name, scope=scope, all_wrapped=spec.get("tools") == ALL_WRAPPED)


def _load_target(target: Any, name: str) -> tuple[Any, str]:
    """The object, and the name of its agent: the import path where it has one."""
    return (import_attribute(target, what="agent"), target) if isinstance(target, str) else (target, name)


def _from_class(kind: str, module: str, class_name: str, spec: Mapping[str, Any], name: str) -> Agent:
    # The HTTP client is an extra: it brings a pytest plugin that slows down every test session.
    if kind in _OVER_HTTP and find_spec("httpx2") is None:
        raise MissingExtra("http", needed_for=f"an agent of type {kind!r}")
    agent: Agent = getattr(import_module(module, __package__), class_name)(name=name, **spec)
    return agent


def _from_openai(spec: Mapping[str, Any], name: str) -> Agent:
    settings = dict(spec)
    api = settings.pop("api", "chat")
    if api not in _OPENAI_APIS:
        raise UsageError(f"agent {name!r}.api: expected one of {', '.join(_OPENAI_APIS)}, got {api!r}")
    return _from_class("openai", *_OPENAI_APIS[api], settings, name)


_OPENAI_APIS = {"chat": (".openai", "OpenAIChatAgent"), "responses": (".openai_responses", "OpenAIResponsesAgent")}
_OVER_HTTP = ("openai", "anthropic", "bedrock", "http", "a2a")
_ENDPOINT_KEYS = ("model", "headers", "body", "stream", "tools", "api_key")


def _from_framework(kind: str, spec: Mapping[str, Any], name: str) -> Agent:
    check_version(kind)  # before the import of the target, whose error would be less clear
    target, name = _load_target(spec["target"], name)
    given = {key: spec[key] for key in FRAMEWORKS[kind].inputs if key in spec}
    return _adapt(target, kind=kind, name=name, given=given)


class _TrialValue:
    """A value that an agent gets in a trial, such as its `deps`: the same for all trials, or made for each."""

    def __init__(self, given: Any, where: str) -> None:
        from .python import is_factory

        self._where = where
        self._value = import_attribute(given, what=where) if isinstance(given, str) else given
        plain = inspect.isroutine(self._value) or inspect.isclass(self._value) or isinstance(self._value, partial)
        self._makes = plain and is_factory(self._value)

    async def make(self) -> Any:
        """The value for a new trial. A factory that fails is not the agent's fault."""
        try:
            made = self._value() if self._makes else self._value
            return await made if self._makes and inspect.isawaitable(made) else made
        except (Exception, SystemExit) as cause:
            raise TrialError(ErrorKind.CONFIG, f"{self._where} cannot be made: {describe(cause)}") from None


def _adapt(target: Any, *, kind: str, name: str, given: Mapping[str, Any] | None = None) -> Agent:
    """The agent around a framework's object. A function without parameters makes a new object for each trial."""
    from .python import CallableAgent, is_factory

    adapter = import_module(f".frameworks.{kind}", __package__).Adapter
    plain = inspect.isroutine(target) or inspect.isclass(target) or isinstance(target, partial)
    makes = plain and is_factory(target)
    inputs = {key: _TrialValue(value, f"agent {name!r}.{key}") for key, value in (given or {}).items()}

    def adapted(made: Any, **values: Any) -> Any:
        try:
            return adapter(made, **values)
        except UsageError as problem:
            raise UsageError(f"agent {name!r}: {problem}") from None

    def adapted_in_trial(made: Any, **values: Any) -> Any:
        """A wrong object from the user's function shows only in the trial, and is not the agent's fault."""
        try:
            return adapted(made, **values)
        except UsageError as problem:
            raise TrialError(ErrorKind.CONFIG, str(problem)) from None

    def make() -> Any:
        return adapted_in_trial(target() if makes else target)

    async def make_on_loop() -> Any:
        made = target() if makes else target
        values = {key: await value.make() for key, value in inputs.items()}
        return adapted_in_trial(await made if inspect.isawaitable(made) else made, **values)

    tool_names = None if makes else adapted(target).tool_names  # refuses a wrong object before the first trial
    is_async = inspect.iscoroutinefunction(adapter.run) or inspect.iscoroutinefunction(target)
    agent = CallableAgent(make_on_loop if is_async else make, name=name)
    agent.tool_names = tool_names
    agent.takes_decisions = FRAMEWORKS[kind].decisions
    agent.hides_calls = False
    agent.continues = FRAMEWORKS[kind].continues
    agent.takes_attachments = FRAMEWORKS[kind].attachments
    return agent


AGENT_TYPES: Mapping[str, AgentType] = {
    "python": AgentType(make=_from_python_settings, required=("target",), optional=("scope", "tools", "mcp")),
    "openai": AgentType(
        make=_from_openai,
        required=("base_url",),
        optional=(*_ENDPOINT_KEYS, "api"),
    ),
    "anthropic": AgentType(
        make=partial(_from_class, "anthropic", ".anthropic", "AnthropicAgent"),
        required=("base_url",),
        optional=_ENDPOINT_KEYS,
    ),
    "bedrock": AgentType(
        make=partial(_from_class, "bedrock", ".bedrock", "BedrockAgent"),
        required=("base_url",),
        optional=_ENDPOINT_KEYS,
    ),
    "http": AgentType(
        make=partial(_from_class, "http", ".http_json", "HttpAgent"),
        required=("url",),
        optional=(
            "method",
            "headers",
            "body",
            "output",
            "tool_calls",
            "usage",
            "cost_usd",
            "remember",
            "stream",
            "mcp",
        ),
    ),
    "a2a": AgentType(make=partial(_from_class, "a2a", ".a2a", "A2AAgent"), required=("url",), optional=("headers",)),
    "command": AgentType(
        make=partial(_from_class, "command", ".command", "CommandAgent"),
        required=("argv",),
        optional=("env", "cwd", "mcp"),
    ),
    "replay": AgentType(
        make=partial(_from_class, "replay", ".replay", "ReplayAgent"),
        required=("path",),
        optional=("format", "messages", "conversation_name"),
    ),
    **{
        kind: AgentType(make=partial(_from_framework, kind), required=("target",), optional=framework.inputs)
        for kind, framework in FRAMEWORKS.items()
    },
}


def installed_types() -> dict[str, "EntryPoint"]:
    """The agent types that installed packages add. Built-in types keep their names."""
    from importlib.metadata import entry_points  # reading all entry points takes tens of milliseconds

    return {point.name: point for point in entry_points(group=ENTRY_POINTS) if point.name not in AGENT_TYPES}


def _from_installed(point: "EntryPoint", settings: Mapping[str, Any], name: str) -> Agent:
    """The agent that the entry point makes from the settings and the name, all given by keyword."""
    from .python import CustomAgent

    where = f"agent {name!r}: type {point.name!r} of {point.value}"
    try:
        made = point.load()(name=name, **settings)
    except UsageError:
        raise
    except (Exception, SystemExit) as cause:
        raise UsageError(f"{where} cannot be made: {describe(cause)}") from None
    if not _is_agent(made):
        raise UsageError(
            f"{where} made an object of type {type(made).__name__}, which is no agent; an agent has name, "
            "answers_own_tools, keeps_conversation, open and close"
        )
    return CustomAgent(made)


def _from_mapping(spec: Mapping[str, Any], name: str) -> Agent:
    problems = check_agent_spec(spec)
    if problems:
        raise UsageError("\n".join(f"agent {name!r}: {problem}" for problem in problems))
    settings = dict(spec)
    kind = settings.pop("type", "python")
    if kind not in AGENT_TYPES:
        return _from_installed(installed_types()[kind], settings, name)
    serves_tools = settings.pop("mcp", False)
    agent = AGENT_TYPES[kind].make(settings, name)
    return serve_tools(agent) if serves_tools else agent


def serve_tools(agent: Agent) -> Agent:
    """The agent with an MCP server that has the tools of each trial."""
    from .mcp_tools import McpAgent

    return McpAgent(agent)


def check_agent_spec(spec: Any) -> list[str]:
    """The problems of an agent's settings, found without importing or calling user code."""
    if isinstance(spec, str):
        if spec in AGENT_TYPES:
            return [f"{spec!r} {_needs_settings(spec)}"]
        return [] if is_import_path(spec) else [f"{spec!r} {explain_form(spec)}"]
    if not isinstance(spec, Mapping):
        return []
    kind = spec.get("type", "python" if "target" in spec else None)
    if kind not in AGENT_TYPES:
        return _unknown_type(kind)
    known = AGENT_TYPES[kind]
    problems = [f"type {kind!r} needs {key!r}" for key in known.required if key not in spec]
    keys = (*known.required, *known.optional)
    problems += [
        f"unknown key {key!r}.{_did_you_mean(key, keys) or _known(keys)}" for key in spec if key not in ("type", *keys)
    ]
    if kind == "python" and spec.get("tools", ALL_WRAPPED) != ALL_WRAPPED:
        problems.append(f"tools: expected {ALL_WRAPPED!r}, which says that all its tools are, got {spec['tools']!r}")
    return [*problems, *_mcp_problems(kind, spec)]


def _unknown_type(kind: Any) -> list[str]:
    installed = installed_types()
    if kind in installed:
        return []  # its settings are checked when the package is loaded
    known = (*AGENT_TYPES, *installed)
    if kind is None:
        return [f"needs a type: {', '.join(known)}"]
    return [f"unknown type {kind!r}.{_did_you_mean(kind, known)} Known: {', '.join(known)}."]


def _did_you_mean(given: Any, known: Sequence[str]) -> str:
    close = get_close_matches(str(given), known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _known(keys: Sequence[str]) -> str:
    return f" Known: {', '.join(keys)}."


def _needs_settings(kind: str) -> str:
    required = ", ".join(f"{key}: …" for key in AGENT_TYPES[kind].required)
    return f"is a type, and needs its settings: {{type: {kind}, {required}}}"


def _mcp_problems(kind: str, spec: Mapping[str, Any]) -> list[str]:
    """`{{mcp_url}}` without a server, or a server whose address the agent does not get."""
    from .placeholders import find_placeholders

    mcp, places = spec.get("mcp", False), {"http": ("url", "body"), "command": ("argv", "env")}.get(kind, ())
    named = any("mcp_url" in find_placeholders(spec.get(place)) for place in places)
    if not isinstance(mcp, bool):
        return [f"mcp: expected true or false, got {mcp!r}"]
    if named and not mcp:
        return ["{{mcp_url}} is filled only with 'mcp: true' beside it"]
    if mcp and kind == "http" and not named:
        return ["mcp: the API is not told where its tools are; put {{mcp_url}} into the body"]
    return []
