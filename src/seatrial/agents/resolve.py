"""What somebody may have meant who named an object that is not there. Loaded only to explain a mistake."""

import importlib
import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.protocols import Agent

_FORM = "is not of the form 'package.module:attribute'"


def explain_kind(kind: str, required: Iterable[str]) -> str:
    """What stands beside the kind of an agent that was named alone."""
    return f"is a type, and needs its settings: {{type: {kind}, {', '.join(f'{key}: …' for key in required)}}}"


def explain_form(path: str) -> str:
    """Why a text names no object, and how it would."""
    if "://" in path:
        return f"{_FORM}. An address stands in settings: {{type: openai, base_url: …}}, or {{type: http, url: …}}"
    file = _module(path)
    if path.endswith(".py") and _is_dotted(file):
        return f"{_FORM}. Name what is in the file as well: '{file}:answer'"
    named, colon, inside = path.rpartition(":")
    if colon and named.endswith(".py") and _is_dotted(module := _module(named)):
        return f"{_FORM}. Did you mean '{module}:{inside}'?"
    module, dot, attribute = path.rpartition(".")
    if dot and _is_dotted(path):
        return f"{_FORM}. Did you mean '{module}:{attribute}'?"
    return f"{_FORM}. Name what is in the module as well: '{path}:answer'" if _is_dotted(path) else _FORM


def explain_missing(module: str) -> str:
    """Where a module is that is not in the current folder, or what is there instead."""
    here = Path.cwd()
    top = module.partition(".")[0]
    for place in (*list(here.parents)[:3], *_folders(here)):
        if (place / f"{top}.py").is_file() or (place / top / "__init__.py").is_file():
            there = os.path.relpath(place, here)
            return f". There is one in {there}; go there first: cd {there}"
    known = [file.stem for file in here.glob("*.py")] + [file.parent.name for file in here.glob("*/__init__.py")]
    close = get_close_matches(top, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("\\", "/").strip("./").replace("/", ".")


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _folders(place: Path) -> list[Path]:
    return sorted(folder for folder in place.iterdir() if folder.is_dir() and not folder.name.startswith("."))


def resolve_agent(spec: Any, *, name: str = "agent", isolated: bool = False) -> Agent:
    """The agent for a spec as in files (`pkg.mod:attr`, a mapping with a type) or for a Python object.

    `isolated` puts Python agents into processes of their own.
    """
    if isolated:
        from .process_isolation import resolve_isolated

        return resolve_isolated(spec, name=name)
    if isinstance(spec, str):
        return _python(import_attribute(spec, what="agent"), name=spec)
    if isinstance(spec, Mapping):
        return _from_mapping(spec, name)
    if _is_agent(spec):
        return spec  # type: ignore[no-any-return]
    return _python(spec, name=getattr(spec, "__name__", name))


def _is_agent(spec: Any) -> bool:
    """Whether it has the parts of one; a `Mock` has all parts that there are, and is a callable like others."""
    says = (getattr(spec, part, None) for part in ("answers_own_tools", "keeps_conversation"))
    return hasattr(spec, "open") and hasattr(spec, "close") and all(isinstance(answer, bool) for answer in says)


def _python(target: Any, *, name: str, scope: Any = "trial", all_wrapped: bool = False) -> Agent:
    from .python import CallableAgent, framework_of

    kind = framework_of(target)
    if kind is not None:
        return _recognised(target, kind=kind, name=name)
    return CallableAgent(target, name=name, scope=scope, all_wrapped=all_wrapped)


def _recognised(target: Any, *, kind: str, name: str) -> Agent:
    """The agent around an object of a framework that was given without its type."""
    from .frameworks.registry import adapt, mind_version

    mind_version(kind)
    try:
        return adapt(target, kind=kind, name=name)
    except UsageError as problem:
        raise UsageError(
            f"{problem}. It is an object of {type(target).__module__.partition('.')[0]}, so it is taken for "
            f"{{type: {kind}, target: {name}}}; give an agent of that type, or a function that calls the object"
        ) from None


def _python_mapping(spec: Mapping[str, Any], name: str) -> Agent:
    target = spec["target"]
    scope = spec.get("scope", "trial")
    if scope not in ("trial", "run"):
        raise UsageError(f"agent {name!r}: scope must be 'trial' or 'run', got {scope!r}")
    loaded = import_attribute(target, what="agent") if isinstance(target, str) else target
    given = target if isinstance(target, str) else name
    return _python(loaded, name=given, scope=scope, all_wrapped=spec.get("tools") == ALL_WRAPPED)


def _require_http(kind: str) -> None:
    """HTTP is no part of the core: its client brings a pytest plugin along that slows down every test session."""
    if find_spec("httpx2") is None:
        raise MissingExtra("http", needed_for=f"an agent of type {kind!r}")


def _openai(spec: Mapping[str, Any], name: str) -> Agent:
    _require_http("openai")
    from .openai import OpenAIChatAgent

    return OpenAIChatAgent(name=name, **spec)


def _http(spec: Mapping[str, Any], name: str) -> Agent:
    _require_http("http")
    from .http_json import HttpAgent

    return HttpAgent(name=name, **spec)


def _command(spec: Mapping[str, Any], name: str) -> Agent:
    from .command import CommandAgent

    return CommandAgent(name=name, **spec)


def _replay(spec: Mapping[str, Any], name: str) -> Agent:
    from .replay import ReplayAgent

    return ReplayAgent(name=name, **spec)


def _framework(kind: str) -> Callable[[Mapping[str, Any], str], Agent]:
    def make(spec: Mapping[str, Any], name: str) -> Agent:
        from .frameworks.registry import adapt, mind_version

        mind_version(kind)  # before the import of the target, which would say it less clearly
        target = spec["target"]
        loaded = import_attribute(target, what="agent") if isinstance(target, str) else target
        return adapt(loaded, kind=kind, name=target if isinstance(target, str) else name)

    return make


ALL_WRAPPED = "all_wrapped"
"""What `tools` of a Python agent may say: that it calls all its tools through ctx.call_tool or `@seatrial.tool`."""

FRAMEWORK_KINDS = (
    "langchain",
    "langgraph",
    "openai_agents",
    "pydantic_ai",
    "smolagents",
    "crewai",
    "google_adk",
    "llama_index",
)

KINDS: Mapping[str, tuple[Callable[[Mapping[str, Any], str], Agent], tuple[str, ...], tuple[str, ...]]] = {
    "python": (_python_mapping, ("target",), ("scope", "tools", "mcp")),
    "openai": (_openai, ("base_url",), ("model", "headers", "body", "stream", "tools", "api_key")),
    "http": (_http, ("url",), ("method", "headers", "body", "output", "tool_calls", "usage", "cost_usd", "mcp")),
    "command": (_command, ("argv",), ("env", "cwd", "mcp")),
    "replay": (_replay, ("path",), ("format",)),
    **{kind: (_framework(kind), ("target",), ()) for kind in FRAMEWORK_KINDS},
}
"""Type -> (how to make it, required keys, optional keys)."""


def _from_mapping(spec: Mapping[str, Any], name: str) -> Agent:
    settings = dict(spec)
    kind = settings.pop("type", "python" if "target" in settings else None)
    problems = check_agent_spec(spec)
    if problems:
        raise UsageError("\n".join(f"agent {name!r}: {problem}" for problem in problems))
    make, _, _ = KINDS[kind]
    serves_tools = settings.pop("mcp", False)
    return serve_tools(make(settings, name)) if serves_tools else make(settings, name)


def serve_tools(agent: Agent) -> Agent:
    """The agent with an MCP server beside it, where each trial finds its tools."""
    from .mcp_tools import McpAgent

    return McpAgent(agent)


def check_agent_spec(spec: Any) -> list[str]:
    """What is wrong with an agent's settings, found without importing or calling anything."""
    if isinstance(spec, str):
        return [] if _looks_importable(spec) else [f"{spec!r} {_explain_form(spec)}"]
    if not isinstance(spec, Mapping):
        return []
    kind = spec.get("type", "python" if "target" in spec else None)
    if kind is None:
        return [f"needs a type: {', '.join(KINDS)}"]
    if kind not in KINDS:
        close = get_close_matches(str(kind), KINDS, n=1)
        return [
            f"unknown type {kind!r}." + (f" Did you mean {close[0]!r}?" if close else f" Known: {', '.join(KINDS)}.")
        ]
    _, required, optional = KINDS[kind]
    problems = [f"type {kind!r} needs {key!r}" for key in required if key not in spec]
    for key in spec:
        if key not in ("type", *required, *optional):
            close = get_close_matches(str(key), (*required, *optional), n=1)
            problems.append(f"unknown key {key!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
    if kind == "python" and spec.get("tools", ALL_WRAPPED) != ALL_WRAPPED:
        problems.append(f"tools: expected {ALL_WRAPPED!r}, which says that all its tools are, got {spec['tools']!r}")
    return [*problems, *_mcp_problems(kind, spec)]


def _mcp_problems(kind: str, spec: Mapping[str, Any]) -> list[str]:
    """An address that nobody serves, or a server that nobody is told of."""
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


def _explain_form(path: str) -> str:

    return explain_kind(path, KINDS[path][1]) if path in KINDS else explain_form(path)


def _looks_importable(path: str) -> bool:
    module, colon, attribute = path.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *attribute.split(".")))


def import_attribute(path: str, *, what: str) -> Any:
    """The object at `package.module:attribute`. Raises UsageError that names the module and the real cause."""
    if not _looks_importable(path):
        raise UsageError(f"{what} {path!r} {_explain_form(path)}")
    module_name, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        raise UsageError(_not_found(what, path, module_name, missing)) from None
    except (Exception, SystemExit) as cause:
        raise UsageError(
            f"{what} {path!r}: importing {module_name!r} failed at {_place(cause)}: {type(cause).__name__}: {cause}"
        ) from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            close = get_close_matches(part, [name for name in dir(found) if not name.startswith("_")], n=1)
            raise UsageError(
                f"{what} {path!r}: {module_name!r} has no attribute {part!r}."
                + (f" Did you mean {close[0]!r}?" if close else "")
            )
        found = getattr(found, part)
    return found


def _place(cause: BaseException) -> str:
    if isinstance(cause, SyntaxError) and cause.filename:
        return f"{cause.filename}:{cause.lineno}"
    ours, *theirs = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in theirs if not _is_installed(frame.filename)]
    frame = (own or theirs or [ours])[-1]
    return f"{frame.filename}:{frame.lineno}"


def _is_installed(file: str) -> bool:
    """Whether code is Python's own, or of a package: whoever wrote the import will look for the mistake in theirs."""
    import sysconfig

    return file.startswith(
        ("<", *{sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")})
    )


def _not_found(what: str, path: str, module_name: str, missing: ModuleNotFoundError) -> str:
    if missing.name and (module_name == missing.name or module_name.startswith(missing.name + ".")):
        return (
            f"{what} {path!r}: there is no module {missing.name!r}; it is looked for in the current folder and on "
            f"the Python path{explain_missing(missing.name)}"
        )
    return f"{what} {path!r}: importing {module_name!r} failed, because it needs the module {missing.name!r}"
