"""Evaluators from `scorers:` and `expect:`, and the checks of scorers before the first trial."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from seatrial.errors import UsageError
from seatrial.evaluators.registry import EVALUATORS, build_evaluator, evaluator, keys_read_by
from seatrial.evaluators.said import Ended, Said
from seatrial.evaluators.text import Contains, GuardrailTriggered, ReplyJson
from seatrial.evaluators.tool_calls import ToolCalls
from seatrial.judges.rubric import Judge
from seatrial.model.keys import Key
from seatrial.model.protocols import Evaluator
from seatrial.model.scenario import Expect, Name, Scenario, Suite

from .keys import named_reader, struct_reader
from .models import RunModels
from .problems import KeyPath, Problems, did_you_mean, show
from .value_readers import Number

_EXPECTATIONS = ("expected_output", "expected_tools", "expected_tool_args")
OF_JUDGES = ("similarity", "judge")
"""Scorers of the package judges."""


class _Similarity(TypedDict, total=False):
    threshold: Annotated[Annotated[float, Meta(ge=0, le=1)], Key("the least similarity that passes", default=0.7)]
    expected: Annotated[Name, Key("the text to be near to, instead of expected_output")]


def check_scorers(scenario: Scenario, custom: Mapping[str, Any], where: KeyPath, problems: Problems) -> None:
    """Report scorers that do not exist, that lack what they compare with, and expectations that no scorer checks."""
    for index, scorer in enumerate(scenario.scorers or ()):
        place = (*where, "scorers", index)
        if isinstance(scorer, str):
            _check_scorer(scorer, None, scenario, custom, (place, problems))
        elif isinstance(scorer, Mapping):
            for name, parameters in scorer.items():
                _check_scorer(name, parameters, scenario, custom, ((*place, name), problems))
    read = set().union(*map(_keys_read, scenario.scorers or ()))
    for key in _EXPECTATIONS:
        if getattr(scenario, key) and key not in read:
            listed = ", ".join(scorer_names(scenario.scorers)) or "others"
            problems.add((*where, key), f"no scorer checks it: there is only {listed}", "Add passfail to scorers")


def _keys_read(scorer: Any) -> set[str]:
    if isinstance(scorer, str):
        named: Mapping[str, Any] = {scorer: None}
    elif isinstance(scorer, Mapping):
        named = scorer
    else:
        name = getattr(scorer, "name", "")
        named = {name: {key: getattr(scorer, key, None) for key in ("expected", *_EXPECTATIONS)}}
    if not all(map(is_built_in, named)):
        return set(_EXPECTATIONS)  # a custom evaluator may check anything
    return {key for name, parameters in named.items() for key in keys_read_by(name, parameters)}


def _check_scorer(
    name: str, parameters: Any, scenario: Scenario, custom: Mapping[str, Any], at: tuple[KeyPath, Problems]
) -> None:
    where, problems = at
    if name in custom:
        return
    if not is_built_in(name):
        known = (*EVALUATORS, *OF_JUDGES, *custom)
        problems.add(where, f"unknown scorer {name!r}", did_you_mean(name, known))
    elif name == "judge":
        _check_judge(parameters, where, problems)
    elif name == "similarity":
        _check_similarity(parameters, scenario, where, problems)
    elif name == "trajectory" and parameters:
        given = parameters if isinstance(parameters, Mapping) else {"expected": parameters}
        named_reader("Trajectory").read(given, where, problems)
    else:
        try:
            build_evaluator(name, parameters, scenario=scenario)
        except UsageError as error:
            problems.add(where, str(error))


def _check_judge(parameters: Any, where: KeyPath, problems: Problems) -> None:
    if isinstance(parameters, Mapping):
        named_reader("Judge").read(parameters, where, problems)
    elif not isinstance(parameters, str) or not parameters.strip():
        problems.add(where, f"the scorer 'judge' needs its rubric, got {show(parameters)}")


def _check_similarity(parameters: Any, scenario: Scenario, where: KeyPath, problems: Problems) -> None:
    expected = scenario.expected_output
    if isinstance(parameters, Mapping):
        struct_reader(_Similarity).read(parameters, where, problems)
        expected = parameters.get("expected", expected)
    elif parameters is not None:
        Number(ge=0, le=1).read(parameters, where, problems)
    if expected is None:
        problems.add(where, "the scorer 'similarity' needs 'expected_output' to compare with")


def is_built_in(name: str) -> bool:
    """Whether the scorer is part of Seatrial."""
    return name in EVALUATORS or name in OF_JUDGES


def scorer_names(scorers: Iterable[Any] | None) -> list[str]:
    """The names in a `scorers:` list; evaluator objects have none."""
    names: list[str] = []
    for scorer in scorers or ():
        if isinstance(scorer, str):
            names.append(scorer)
        elif isinstance(scorer, Mapping):
            names.extend(scorer)
    return names


def build_expectations(expect: Expect, scenario: Scenario, models: RunModels) -> list[Evaluator]:
    """One evaluator for each kind of expectation that is given."""
    found: list[Evaluator] = []
    texts = Contains(
        any_of=expect.reply_contains_any,
        all_of=expect.reply_contains_all,
        matches_any=expect.reply_matches_any,
        matches_all=expect.reply_matches_all,
        none_of=expect.reply_excludes,
    )
    if texts != _NO_TEXTS:
        found.append(texts)
    if any((expect.said_contains_all, expect.said_contains_any, expect.said_excludes, expect.said_matches_all)):
        found.append(
            Said(
                contains_all=expect.said_contains_all,
                contains_any=expect.said_contains_any,
                excludes=expect.said_excludes,
                matches_all=expect.said_matches_all,
                ignore=expect.said_ignore or "",
            )
        )
    if expect.ended:
        found.append(Ended())
    if expect.tool_calls_include or expect.tool_calls_exclude:
        found.append(
            ToolCalls(
                must_include=expect.tool_calls_include,
                must_exclude=expect.tool_calls_exclude,
                ordered=expect.tool_calls_ordered,
            )
        )
    found += [models.bind(entry, scenario) for entry in expect.tool_calls_args]
    if expect.reply_json is not None:
        found.append(ReplyJson(fields=expect.reply_json))
    if expect.guardrail is not None:
        found.append(GuardrailTriggered(guardrail=expect.guardrail))
    if expect.judge is not None:
        found.append(models.bind(expect.judge, scenario))
    return [*found, *(evaluator_object(each, scenario, models) for each in expect.evaluators)]


_NO_TEXTS = Contains()


def build_scorer(scorer: Any, scenario: Scenario, custom: Mapping[str, Any], models: RunModels) -> list[Evaluator]:
    """The evaluators of one entry of `scorers`: a name, `{name: parameters}`, or an object."""
    if isinstance(scorer, str):
        return [_named(scorer, None, scenario, custom, models)]
    if isinstance(scorer, Mapping):
        return [_named(name, parameters, scenario, custom, models) for name, parameters in scorer.items()]
    return [evaluator_object(scorer, scenario, models)]


def _named(name: str, parameters: Any, scenario: Scenario, custom: Mapping[str, Any], models: RunModels) -> Evaluator:
    if name in custom:
        return _custom(name, custom[name], parameters)
    if name in EVALUATORS:
        return build_evaluator(name, parameters, scenario=scenario)
    if name == "judge":
        rubric = {"rubric": parameters} if isinstance(parameters, str) else dict(parameters or {})
        return models.bind(Judge(**rubric), scenario)
    if name == "similarity":
        return _similarity(parameters, scenario)
    raise UsageError(f"scenario {scenario.name!r}: unknown scorer {name!r}")


def _similarity(parameters: Any, scenario: Scenario) -> Evaluator:
    from seatrial.judges.similarity import Similarity, require_embedding

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


def evaluator_object(given: Any, scenario: Scenario, models: RunModels) -> Evaluator:
    """The evaluator for a Python object: an evaluator, a class that needs no arguments, or a function."""
    if hasattr(given, "evaluate"):
        made = given() if isinstance(given, type) else given
        if isinstance(given, type) and getattr(made, "asserts_nothing", False):
            raise UsageError(
                f"scenario {scenario.name!r}: {given.__name__} is a class, and without arguments it asserts nothing; "
                f"say what it must look for: {given.__name__}(…)"
            )
        return models.bind(made, scenario)
    if callable(given):
        return evaluator(given)
    raise UsageError(f"scenario {scenario.name!r}: {given!r} is not an evaluator; it needs an async evaluate(ctx)")


def suite_invariants(suite: Suite, included: Any, where: KeyPath, problems: Problems) -> tuple[Any, ...]:
    """The rules of the suite and of included files, with those of `irreversible`. Reports names given twice."""
    rules: list[Any] = [*suite.invariants, *included.invariants]
    if suite.irreversible or included.irreversible:
        from seatrial.evaluators.invariants import irreversible

        rules += irreversible(tuple(dict.fromkeys((*suite.irreversible, *included.irreversible))))
    _check_titles(rules, (*where, "invariants"), problems)
    return tuple(rules)


def check_exemptions(made: Mapping[str, Any], of_suite: Sequence[Any], where: KeyPath, problems: Problems) -> None:
    """Report exemptions from rules that do not exist, and rules of the scenario whose name is taken."""
    known = [rule.title for rule in of_suite]
    for name in made.get("exempt") or ():
        if name not in known:
            hint = did_you_mean(name, known) if known else "The suite has no invariants"
            problems.add((*where, "exempt", name), f"the suite has no invariant {name!r}", hint)
    _check_titles([*of_suite, *made.get("invariants", ())], (*where, "invariants"), problems)


def _check_titles(rules: Sequence[Any], where: KeyPath, problems: Problems) -> None:
    titles = [rule.title for rule in rules]
    for title in dict.fromkeys(title for index, title in enumerate(titles) if title in titles[:index]):
        problems.add(where, f"two invariants have the name {title!r}", "Give each its own name")
