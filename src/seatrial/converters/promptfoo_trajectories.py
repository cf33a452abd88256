"""promptfoo's assertions about the tools an agent used."""

from collections.abc import Callable, Mapping
from typing import Any

from .target_suite import DraftScenario

Carry = Callable[[DraftScenario, Any, Mapping[str, Any]], str | None]


def _has_wildcard(name: str) -> bool:
    return any(char in name for char in "*?[")


def _names(value: Any) -> list[str] | None:
    """The names of tools; None where one is a pattern or no name."""
    entries = value if isinstance(value, list) else [value]
    names = [entry.get("name") if isinstance(entry, Mapping) else entry for entry in entries]
    return [str(name) for name in names] if all(isinstance(n, str) and not _has_wildcard(n) for n in names) else None


def _used(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping):
        name = value.get("name") or value.get("pattern")
        if not isinstance(name, str) or _has_wildcard(name):
            return f"it looks for tools by the pattern {name!r}"
        least, most = value.get("min"), value.get("max")
        return _used_so_often(scenario, name, 1 if least is None else least, most)
    names = _names(value)
    if not names:
        return f"it looks for tools by the pattern {value!r}"
    expected = [{"name": name, "min": 1} for name in names]
    scenario.score({"trajectory": {"mode": "contains", "expected": expected}})
    return None


def _used_so_often(scenario: DraftScenario, name: str, least: int, most: int | None) -> str | None:
    if most == 0:
        scenario.score({"trajectory": {"mode": "contains", "forbidden": [{"name": name}]}})
        return None
    if least == 0 and most is None:
        return "it asks for nothing: any number of calls will do"
    often = {"min": least} if most is None else {"min": least, "max": most}
    scenario.score({"trajectory": {"mode": "contains", "expected": [{"name": name, **often}]}})
    return None


def _not_used(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    given = [value.get("name") or value.get("pattern")] if isinstance(value, Mapping) else value
    names = _names(given)
    if not names or (isinstance(value, Mapping) and ({"min", "max"} & set(value))):
        return f"it looks for tools by {value!r}"
    scenario.score({"trajectory": {"mode": "contains", "forbidden": [{"name": name} for name in names]}})
    return None


def _arguments(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    tool = (value.get("name") or value.get("tool")) if isinstance(value, Mapping) else None
    arguments = value.get("args") or value.get("arguments") if isinstance(value, Mapping) else None
    if not isinstance(tool, str) or _has_wildcard(tool) or not isinstance(arguments, Mapping):
        return "it names no tool with arguments"
    special = [key for key in ("defaults", "ignore") if value.get(key)]
    if special:
        return f"it uses {special[0]!r}"
    if value.get("mode") == "exact":
        entry = {"tool": tool, "args": dict(arguments), "mode": "exact"}
    else:  # there, mappings may hold more at any depth
        args = {key: {"$subset": dict(arg)} if isinstance(arg, Mapping) else arg for key, arg in arguments.items()}
        entry = {"tool": tool, "args": args}
    scenario.expect("tool_calls_args", [entry])
    return None


def _sequence(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    steps = value.get("steps") if isinstance(value, Mapping) else value
    names = _names(steps) if steps else None
    if not names:
        return "its steps are patterns, or there are none"
    mode = "strict" if isinstance(value, Mapping) and value.get("mode") == "exact" else "in_order"
    scenario.score({"trajectory": {"mode": mode, "expected": [{"name": name} for name in names]}})
    return None


def _steps(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    given = value if isinstance(value, Mapping) else {}
    if given.get("type") != "tool" or "max" not in given or given.keys() & {"min", "name", "pattern"}:
        return "only a maximum of all tool calls can be asked for: limits.tool_calls"
    scenario.limit("tool_calls", given["max"])
    return None


def _goal(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    goal = value.get("goal") if isinstance(value, Mapping) else value
    if not isinstance(goal, str) or not goal.strip():
        return "it names no goal"
    scenario.outcome(goal)
    return None


TRAJECTORIES: Mapping[str, Carry] = {
    "trajectory:tool-used": _used,
    "not-trajectory:tool-used": _not_used,
    "trajectory:tool-args-match": _arguments,
    "trajectory:tool-sequence": _sequence,
    "trajectory:step-count": _steps,
    "trajectory:goal-success": _goal,
}
