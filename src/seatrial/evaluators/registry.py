"""A function of the user's as an evaluator."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, overload

from msgspec import NODEFAULT

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.protocols import Evaluator
from seatrial.model.results import EvalResult
from seatrial.model.scenario import Scenario
from seatrial.model.struct import field_defaults

from .matchers import shown
from .validation import did_you_mean

_MAY_RETURN = "Return a bool, a number from 0 to 1, (passed, reason) or an EvalResult."


@dataclass(frozen=True, slots=True)
class FunctionEvaluator:
    """A function that was marked with `@evaluator`. It can still be called as the function it is."""

    function: Callable[[Any], Any]
    name: str
    threshold: float

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __wrapped__(self) -> Callable[[Any], Any]:
        """The function itself, where tools such as inspect look for it."""
        return self.function

    def __call__(self, ctx: Any) -> Any:
        return self.function(ctx)

    async def evaluate(self, ctx: Any) -> EvalResult:
        returned = self.function(ctx)
        if hasattr(returned, "__await__"):
            returned = await returned
        return self.read_result(returned)

    def read_result(self, returned: Any) -> EvalResult:
        """What the function returned, as a result."""
        if isinstance(returned, EvalResult):
            return returned
        verdict, reason = returned, ""
        if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], str):
            verdict, reason = returned
        if isinstance(verdict, bool):
            return EvalResult(passed=verdict, reasoning=reason or f"{self.name} returned {verdict}")
        if isinstance(verdict, (int, float)) and 0 <= verdict <= 1:
            reasoning = reason or f"{self.name} returned {verdict} (threshold: {self.threshold})"
            return EvalResult(passed=verdict >= self.threshold, reasoning=reasoning, score=float(verdict))
        message = f"evaluator {self.name!r} returned {shown(returned)}"
        error = ErrorInfo(kind=ErrorKind.EVALUATOR, message=message, hint=_MAY_RETURN)
        return EvalResult(passed=False, reasoning=f"{message}. {_MAY_RETURN}", error=error)


@overload
def evaluator(function: Callable[[Any], Any], /) -> FunctionEvaluator: ...


@overload
def evaluator(
    *, name: str | None = None, threshold: float = 0.5
) -> Callable[[Callable[[Any], Any]], FunctionEvaluator]: ...


def evaluator(
    function: Callable[[Any], Any] | None = None, /, *, name: str | None = None, threshold: float = 0.5
) -> FunctionEvaluator | Callable[[Callable[[Any], Any]], FunctionEvaluator]:
    """The function as an evaluator. It takes ctx, may be async, and returns a bool, a number, (passed, reason) or more.

    A number from 0 to 1 is the score, and passes from `threshold` upwards.
    """
    if not 0 <= threshold <= 1:
        raise UsageError(f"@evaluator: threshold must be between 0 and 1, got {threshold!r}.")

    def mark(marked: Callable[[Any], Any]) -> FunctionEvaluator:
        return FunctionEvaluator(marked, name or str(getattr(marked, "__name__", type(marked).__name__)), threshold)

    return mark if function is None else mark(function)


class _Catalog(Mapping[str, type[Evaluator]]):
    """Classes by name; each is loaded when it is asked for, since most runs use one or two."""

    _WHERE: Final = {
        "passfail": ("passfail", "PassFail"),
        "exact": ("text", "Exact"),
        "regex": ("text", "Regex"),
        "contains": ("text", "Contains"),
        "tool_calls": ("tool_calls", "ToolCalls"),
        "tool_calls_args": ("tool_calls", "ToolArgs"),
        "trajectory": ("trajectory", "Trajectory"),
        "json_schema": ("text", "JsonSchema"),
        "limits": ("limits", "Limits"),
    }

    def __getitem__(self, name: str) -> type[Evaluator]:
        file, kind = self._WHERE[name]
        found: type[Evaluator] = getattr(import_module(f".{file}", __package__), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._WHERE

    def __iter__(self) -> Iterator[str]:
        return iter(self._WHERE)

    def __len__(self) -> int:
        return len(self._WHERE)


EVALUATORS: Mapping[str, type[Evaluator]] = _Catalog()

_MAIN_PARAMETER = {"exact": "expected", "regex": "pattern", "tool_calls": "must_include", "trajectory": "expected"}
"""Where a value goes that is no mapping: `{regex: "ORD-\\\\d+"}`."""

_FROM_METADATA = {"exact": ("exact_normalize", "normalize"), "regex": ("regex_pattern", "pattern")}
"""Keys of a scenario's metadata that AgenticAssure's files use for parameters."""

_FROM_SCENARIO = {
    "passfail": {key: key for key in ("expected_tools", "expected_tool_args", "expected_output")},
    "exact": {"expected": "expected_output"},
    "similarity": {"expected": "expected_output"},
}
"""Parameters that a scenario gives by keys of its own: parameter -> key."""

_SILENT_WHEN_EMPTY = {
    "contains": ("any_of", "all_of", "matches_any", "matches_all", "none_of"),
    "tool_calls": ("must_include", "must_exclude"),
    "limits": ("latency_ms", "cost_usd", "tokens", "tool_calls", "turns"),
}
"""Evaluators that assert nothing unless one of these is given: allowed in Python, refused in files."""

_LOOK_FOR_TEXTS = ("contains", "regex", "tool_calls")
"""Evaluators whose parameters are texts to look for. An empty one is found in every reply, and names no tool."""


def build_evaluator(name: str, parameters: Any = None, *, scenario: Scenario | None = None) -> Evaluator:
    """The evaluator that a file names, with the parameters that stand beside the name.

    Given the scenario, parameters that stand there (expected_output, metadata.regex_pattern, …) are taken from it and
    checked with the rest.
    """
    kind = EVALUATORS.get(name)
    if kind is None:
        raise UsageError(f"unknown evaluator {name!r}.{did_you_mean(name, EVALUATORS)}")
    defaults = field_defaults(kind)
    known = list(defaults)
    given = _by_name(name, parameters)
    for key in given:
        if key not in known:
            raise UsageError(f"{name}: unknown parameter {key!r}.{did_you_mean(key, known)}")
    if scenario is not None:
        given = {**_scenario_parameters(name, scenario), **given}
    needed = [key for key, default in defaults.items() if default is NODEFAULT and key not in given]
    if needed:
        raise UsageError(f"{name}: needs {' and '.join(map(repr, needed))}. Write {{{name}: {{{needed[0]}: …}}}}.")
    _refuse_silence(name, given)
    if name == "exact" and scenario is not None and given["expected"] is None:
        raise UsageError("exact: there is no text to compare with. Give the scenario an expected_output.")
    return kind(**given)


def asserts_nothing(kind: type) -> bool:
    """Whether it is one of these evaluators that, made without arguments, passes whatever happens."""
    name = getattr(kind, "name", None)
    return name in (*_SILENT_WHEN_EMPTY, "trajectory") and EVALUATORS[name] is kind


def keys_read_by(name: str, parameters: Any = None) -> set[str]:
    """Which keys of the scenario itself the evaluator looks at, given these parameters."""
    given = parameters if isinstance(parameters, Mapping) else {_MAIN_PARAMETER.get(name): parameters}
    return {key for parameter, key in _FROM_SCENARIO.get(name, {}).items() if given.get(parameter) is None}


def _by_name(name: str, parameters: Any) -> dict[str, Any]:
    if parameters is None:
        return {}
    if isinstance(parameters, Mapping):
        return dict(parameters)
    main = _MAIN_PARAMETER.get(name)
    if main is None:
        raise UsageError(f"{name}: expected parameters by name, got {shown(parameters)}.")
    return {main: parameters}


def _scenario_parameters(name: str, scenario: Scenario) -> dict[str, Any]:
    found = {parameter: getattr(scenario, key) for parameter, key in _FROM_SCENARIO.get(name, {}).items()}
    key, parameter = _FROM_METADATA.get(name, ("", ""))
    if key and scenario.metadata and key in scenario.metadata:
        found[parameter] = scenario.metadata[key]
    return found


def _refuse_silence(name: str, given: Mapping[str, Any]) -> None:
    """Refuse what would pass whatever the agent does."""
    one_of = _SILENT_WHEN_EMPTY.get(name, ())
    if one_of and not any(given.get(key) not in (None, [], ()) for key in one_of):
        raise UsageError(f"{name}: nothing is asserted. Give at least one of: {', '.join(one_of)}.")
    if one_of:
        for key in given:
            if given[key] in ([], ()):
                raise UsageError(f"{name}.{key}: the list is empty, so nothing is asserted. Fill it or leave it out.")
    for key, value in given.items() if name in _LOOK_FOR_TEXTS else ():
        if value == "" or (isinstance(value, (list, tuple)) and "" in value):
            raise UsageError(f"{name}.{key}: an empty text tells nothing. Fill it or leave it out.")
    allows_all = name == "trajectory" and given.get("mode", "in_order") in ("contains", "in_order")
    if allows_all and not given.get("expected") and not given.get("forbidden"):
        raise UsageError("trajectory: nothing is asserted. Give expected calls, forbidden ones, or both.")
