"""Evaluators from functions (`@evaluator`), and evaluators by name, as files give them."""

from collections.abc import Callable, Mapping
from typing import Any, cast, overload

from msgspec import NODEFAULT

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.protocols import Evaluator
from seatrial.model.results import EvalResult
from seatrial.model.scenario import Scenario
from seatrial.model.struct import Struct, field_defaults

from .built_in import BuiltInEvaluator, did_you_mean
from .limits import Limits
from .matchers import shown
from .passfail import PassFail
from .text import Contains, Exact, JsonSchema, Regex
from .tool_calls import ToolArgs, ToolCalls
from .trajectory import Trajectory

_MAY_RETURN = "Return a bool, a number from 0 to 1, (passed, reason) or an EvalResult."


class FunctionEvaluator(Struct, frozen=True):
    """A function marked with `@evaluator`. You can still call it like the function."""

    function: Callable[[Any], Any]
    name: str
    threshold: float

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __wrapped__(self) -> Callable[[Any], Any]:
        """The function, for tools such as inspect."""
        return self.function

    def __call__(self, ctx: Any) -> Any:
        return self.function(ctx)

    async def evaluate(self, ctx: Any) -> EvalResult:
        returned = self.function(ctx)
        if hasattr(returned, "__await__"):
            returned = await returned
        return self.read_result(returned)

    def read_result(self, returned: Any) -> EvalResult:
        """The result for what the function returned."""
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
    """Make an evaluator of a function. The function takes ctx, may be async, and returns a bool, a number from 0 to 1,
    (passed, reason) or an EvalResult. A number is the score; it passes if it is at least `threshold`.
    """
    if not 0 <= threshold <= 1:
        raise UsageError(f"@evaluator: threshold must be between 0 and 1, got {threshold!r}.")

    def mark(marked: Callable[[Any], Any]) -> FunctionEvaluator:
        return FunctionEvaluator(marked, name or str(getattr(marked, "__name__", type(marked).__name__)), threshold)

    return mark if function is None else mark(function)


EVALUATORS: Mapping[str, type[BuiltInEvaluator]] = {
    kind.name: kind for kind in (PassFail, Exact, Regex, Contains, ToolCalls, ToolArgs, Trajectory, JsonSchema, Limits)
}
"""The evaluators that `scorers:` may name and that ask no model, by name."""


def build_evaluator(name: str, parameters: Any = None, *, scenario: Scenario | None = None) -> Evaluator:
    """The evaluator with this name and these parameters, as in `scorers: [{regex: "ORD-.*"}]`.

    If a scenario is given, missing parameters come from it (expected_output, metadata.regex_pattern, ...).
    """
    kind = EVALUATORS.get(name)
    if kind is None:
        raise UsageError(f"unknown evaluator {name!r}.{did_you_mean(name, EVALUATORS)}")
    defaults = field_defaults(kind)
    given = _by_name(kind, parameters)
    for key in given:
        if key not in defaults:
            raise UsageError(f"{name}: unknown parameter {key!r}.{did_you_mean(key, defaults)}")
    if scenario is not None:
        given = {**_scenario_parameters(kind, scenario), **given}
    needed = [key for key, default in defaults.items() if default is NODEFAULT and key not in given]
    if needed:
        raise UsageError(f"{name}: needs {' and '.join(map(repr, needed))}. Write {{{name}: {{{needed[0]}: …}}}}.")
    if name == "exact" and scenario is not None and given["expected"] is None:
        raise UsageError("exact: there is no text to compare with. Give the scenario an expected_output.")
    made = kind(**given)
    _refuse_empty(made, given)
    return cast(Evaluator, made)


def keys_read_by(name: str, parameters: Any = None) -> set[str]:
    """The keys of the scenario that the evaluator reads, given these parameters."""
    if name not in EVALUATORS:
        return {"expected_output"} if name == "similarity" else set()
    kind = EVALUATORS[name]
    given = parameters if isinstance(parameters, Mapping) else dict.fromkeys(kind.__match_args__[:1], parameters)
    return {key for parameter, key in kind.from_scenario.items() if given.get(parameter) is None}


def _by_name(kind: type[BuiltInEvaluator], parameters: Any) -> dict[str, Any]:
    """The parameters by name. A value that is no mapping is the first argument: `{regex: "ORD-.*"}`."""
    if parameters is None:
        return {}
    if isinstance(parameters, Mapping):
        return dict(parameters)
    if not kind.__match_args__:
        raise UsageError(f"{kind.name}: expected parameters by name, got {shown(parameters)}.")
    return {kind.__match_args__[0]: parameters}


def _scenario_parameters(kind: type[BuiltInEvaluator], scenario: Scenario) -> dict[str, Any]:
    metadata = scenario.metadata or {}
    found = {parameter: getattr(scenario, key) for parameter, key in kind.from_scenario.items()}
    return found | {parameter: metadata[key] for parameter, key in kind.from_metadata.items() if key in metadata}


def _refuse_empty(made: BuiltInEvaluator, given: Mapping[str, Any]) -> None:
    """Refuse what passes whatever the agent does."""
    name = made.name
    if made.asserts_nothing:
        raise UsageError(f"{name}: nothing is asserted. Give at least one of: {', '.join(made.needs_one_of)}.")
    for key, value in given.items():
        if value in ([], ()) and key in made.needs_one_of and name != "trajectory":
            raise UsageError(f"{name}.{key}: the list is empty, so nothing is asserted. Fill it or remove it.")
        if made.searches_texts and (value == "" or (isinstance(value, (list, tuple)) and "" in value)):
            raise UsageError(f"{name}.{key}: an empty text is found everywhere. Fill it or remove it.")
