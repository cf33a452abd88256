"""Evaluators from what a scenario says: `expect` keys and `scorers` entries."""

from collections.abc import Mapping
from typing import Any

from seatrial.errors import UsageError
from seatrial.evaluators.passfail import PassFail
from seatrial.evaluators.registry import EVALUATORS, asserts_nothing, build_evaluator
from seatrial.evaluators.text import ContainsEvaluator
from seatrial.model.protocols import Evaluator
from seatrial.model.scenario import Expect, Judge, Scenario

from .models import ModelCast

_PASSFAIL = PassFail()


def build_expectations(expect: Expect, scenario: Scenario, models: ModelCast) -> list[Evaluator]:
    """One evaluator for each kind of expectation that is given."""
    found: list[Evaluator] = []
    texts = ContainsEvaluator(
        any_of=expect.reply_contains_any,
        all_of=expect.reply_contains_all,
        matches_any=expect.reply_matches_any,
        matches_all=expect.reply_matches_all,
        none_of=expect.reply_excludes,
    )
    if texts != _NO_TEXTS:
        found.append(texts)
    if expect.tool_calls_include or expect.tool_calls_exclude:
        from seatrial.evaluators.tool_calls import ToolCallEvaluator

        found.append(
            ToolCallEvaluator(
                must_include=expect.tool_calls_include,
                must_exclude=expect.tool_calls_exclude,
                ordered=expect.tool_calls_ordered,
            )
        )
    for entry in expect.tool_calls_args:
        if entry.args is not None:
            from seatrial.evaluators.tool_calls import ToolCallArgsEvaluator

            found.append(ToolCallArgsEvaluator(entry.tool, entry.args, mode=entry.mode, calls=entry.calls))
        if entry.judge is not None:
            found.append(models.tool_args_judge(entry.tool, entry.judge, scenario))
    if expect.judge is not None:
        found.append(models.rubric_judge(expect.judge, scenario))
    return [*found, *(evaluator_object(each, scenario, models) for each in expect.evaluators)]


_NO_TEXTS = ContainsEvaluator()


def build_scorer(scorer: Any, scenario: Scenario, custom: Mapping[str, Any], models: ModelCast) -> list[Evaluator]:
    """The evaluators of one entry of `scorers`: a name, `{name: parameters}`, or an object."""
    if scorer == "passfail":
        return [_PASSFAIL]
    if isinstance(scorer, str):
        return [_named(scorer, None, scenario, custom, models)]
    if isinstance(scorer, Mapping):
        return [_named(name, parameters, scenario, custom, models) for name, parameters in scorer.items()]
    return [evaluator_object(scorer, scenario, models)]


def _named(name: str, parameters: Any, scenario: Scenario, custom: Mapping[str, Any], models: ModelCast) -> Evaluator:
    if name in custom:
        return _custom(name, custom[name], parameters)
    if name in EVALUATORS:
        return build_evaluator(name, parameters, scenario=scenario)
    if name == "judge":
        rubric = {"rubric": parameters} if isinstance(parameters, str) else dict(parameters or {})
        return models.rubric_judge(Judge(**rubric), scenario)
    if name == "similarity":
        return _similarity(parameters, scenario)
    raise UsageError(f"scenario {scenario.name!r}: unknown scorer {name!r}")


def _similarity(parameters: Any, scenario: Scenario) -> Evaluator:
    from seatrial.judges.similarity import Similarity
    from seatrial.llm.embedding import require_embedding

    require_embedding()  # before the first trial, like any model
    given: dict[str, Any] = {}
    threshold = (scenario.metadata or {}).get("similarity_threshold")
    if threshold is not None:
        given["threshold"] = threshold
    if isinstance(parameters, Mapping):
        given.update(parameters)
    elif parameters is not None:
        given["threshold"] = parameters
    given.setdefault("expected", scenario.expected_output)
    return Similarity(**given)


def _custom(name: str, found: Any, parameters: Any) -> Evaluator:
    """A class is built with the parameters; an object made by @evaluator takes none."""
    if isinstance(found, type):
        try:
            return found(**(parameters or {}))  # type: ignore[no-any-return]
        except TypeError as problem:
            raise UsageError(f"evaluator {name!r}: {problem}") from None
    if parameters:
        raise UsageError(f"evaluator {name!r} takes no parameters, got {parameters!r}")
    return found  # type: ignore[no-any-return]


def evaluator_object(given: Any, scenario: Scenario, models: ModelCast) -> Evaluator:
    """The evaluator that somebody gave in Python: an object, a class that needs no arguments, or a function."""
    if isinstance(given, type) and asserts_nothing(given):
        raise UsageError(
            f"scenario {scenario.name!r}: {given.__name__} is a class, and without arguments it asserts nothing; "
            f"say what it shall look for: {given.__name__}(…)"
        )
    if callable(getattr(given, "bound", None)):
        return models.bind(given, scenario)
    if hasattr(given, "evaluate"):
        return given() if isinstance(given, type) else given  # type: ignore[no-any-return]
    if callable(given):
        from seatrial.evaluators.function import evaluator

        return evaluator(given)
    raise UsageError(
        f"scenario {scenario.name!r}: {given!r} is no evaluator; it needs an async evaluate(ctx), or be a function"
    )
