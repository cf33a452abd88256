"""Which tool a file comes from, and the native file that it becomes."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

from .source_file import Source
from .target_suite import Draft, Note
from .yaml_writer import write

TOOLS = {
    "agentest": "Agentest",
    "promptfoo": "promptfoo",
    "pydantic-evals": "pydantic-evals",
    "deepeval": "DeepEval",
}


class Converted(Struct, frozen=True, kw_only=True):
    """A native file, and what of the other is not in it."""

    tool: str
    text: str
    scenarios: int
    skipped: int
    """Scenarios of which no check was left."""
    notes: tuple[Note, ...]


def convert(path: Path, *, tool: str | None = None) -> Converted:
    """The native file for a file of another tool. Raises UsageError where it cannot be read or is of no known tool."""
    source = Source(path)
    known = tool or _detect(source)
    draft = Draft(source, TOOLS[known])
    read: Callable[[Draft], None] = import_module(f".{known.replace('-', '_')}", __package__).read
    try:
        read(draft)
    except (LookupError, TypeError, AttributeError, ValueError, StopIteration) as problem:
        # Nobody has checked the file: any part of it may be of another kind than the tool allows.
        said = f"{type(problem).__name__}: {problem}"
        raise UsageError(f"{path}: cannot be read as a file of {draft.tool}: {said}") from problem
    if not draft.scenarios:
        raise UsageError(f"{path}: holds no scenario that could be converted")
    for scenario in draft.scenarios:
        scenario.finish()
    return Converted(
        tool=draft.tool,
        text=write(draft),
        scenarios=len(draft.scenarios),
        skipped=sum("skip" in scenario.keys for scenario in draft.scenarios),
        notes=tuple(draft.all_notes()),
    )


def _detect(source: Source) -> str:
    looks_like = [tool for tool, marks in _MARKS.items() if marks(source.data)]
    if len(looks_like) == 1:
        return looks_like[0]
    known = ", ".join(TOOLS)
    why = f"it looks like a file of {' and of '.join(looks_like)}" if looks_like else "it is of no tool that is known"
    raise UsageError(f"{source.path}: {why}. Say which: --from {known.replace(', ', '|')}")


def _has(data: Any, *keys: str) -> bool:
    return isinstance(data, Mapping) and any(key in data for key in keys)


def _first(data: Any, *names: str) -> Any:
    """The first entry of the list that the file is, or has under one of the names."""
    if isinstance(data, Mapping):
        data = next((data[name] for name in names if name in data), None)
    return data[0] if isinstance(data, list) and data else None


def _is_pydantic_evals(data: Any) -> bool:
    return _has(data, "cases") and _has(_first(data, "cases"), "inputs")


def _is_deepeval(data: Any) -> bool:
    golden = _first(data, "goldens", "conversational_goldens", "conversationalGoldens")
    if isinstance(data, Mapping) and golden is None:
        return False
    marks = ("expected_output", "actual_output", "expected_tools", "expected_outcome", "context", "expectedOutput")
    return _has(golden, "input", "scenario") and _has(golden, *marks)


def _is_promptfoo(data: Any) -> bool:
    if _has(data, "prompts", "providers", "targets", "defaultTest") and not _has(data, "agent"):
        return True
    return _has(_first(data, "tests"), "vars", "assert")


def _is_agentest(data: Any) -> bool:
    config = ("conversationsPerScenario", "failOnErrorSeverity", "unmockedTools", "requestTimeoutMs", "providerOptions")
    if _has(data, *config):
        return True
    if _has(data, "agent") and _has(data["agent"], "endpoint", "handler"):
        return True
    scenario = _first(data, "scenarios") if _has(data, "scenarios") else data
    turns = scenario.get("turns") if isinstance(scenario, Mapping) else None
    return _has(scenario, "profile") or _has(_first(turns), "userMessage")


_MARKS: Mapping[str, Callable[[Any], bool]] = {
    "agentest": _is_agentest,
    "promptfoo": _is_promptfoo,
    "pydantic-evals": _is_pydantic_evals,
    "deepeval": _is_deepeval,
}
