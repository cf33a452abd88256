"""Which evaluators a suite's `scorers:` may name, and whether what they need is there."""

from collections.abc import Iterable, Mapping
from typing import Any

from seatrial.errors import UsageError
from seatrial.evaluators.registry import EVALUATORS, build_evaluator, keys_read_by
from seatrial.model.scenario import Scenario

from .expectations import JUDGE, NAME, TRAJECTORY
from .problems import Complaints, Where, did_you_mean, show
from .schema_types import Key, Record
from .settings import SHARE

_EXPECTATIONS = ("expected_output", "expected_tools", "expected_tool_args")
OF_JUDGES = ("similarity", "judge")
"""Scorers that ask a model; the judges room builds them."""
_SIMILARITY = Record(
    "similarity",
    {
        "threshold": Key(kind=SHARE, means="the least similarity that passes (0.7)"),
        "expected": Key(kind=NAME, means="the text to be near to, instead of expected_output"),
    },
    make=dict,
)


def check_scorers(scenario: Scenario, custom: Mapping[str, Any], where: Where, complaints: Complaints) -> None:
    """Complain of scorers that do not exist, or that lack what they compare with."""
    for index, scorer in enumerate(scenario.scorers or ()):
        place = (*where, "scorers", index)
        if isinstance(scorer, str):
            _check_scorer(scorer, None, scenario, custom, (place, complaints))
        elif isinstance(scorer, Mapping):
            for name, parameters in scorer.items():
                _check_scorer(name, parameters, scenario, custom, ((*place, name), complaints))
    _check_that_all_is_read(scenario, where, complaints)


def _check_that_all_is_read(scenario: Scenario, where: Where, complaints: Complaints) -> None:
    """Complain of expectations that none of the scorers looks at: whatever the agent does, they would hold."""
    read: set[str] = set()
    for scorer in scenario.scorers or ():
        read |= _keys_read(scorer)
    for key in _EXPECTATIONS:
        if getattr(scenario, key) and key not in read:
            listed = ", ".join(scorer_names(scenario.scorers)) or "others"
            complaints.add((*where, key), f"no scorer looks at it: there is only {listed}", "Add passfail to scorers")


def _keys_read(scorer: Any) -> set[str]:
    if isinstance(scorer, str):
        named: Mapping[str, Any] = {scorer: None}
    elif isinstance(scorer, Mapping):
        named = scorer
    else:
        name = getattr(scorer, "name", "")
        named = {name: {key: getattr(scorer, key, None) for key in ("expected", *_EXPECTATIONS)}}
    if not all(map(is_built_in, named)):
        return set(_EXPECTATIONS)  # what an evaluator of the user's own looks at, nobody can say
    return {key for name, parameters in named.items() for key in keys_read_by(name, parameters)}


def _check_scorer(
    name: str, parameters: Any, scenario: Scenario, custom: Mapping[str, Any], at: tuple[Where, Complaints]
) -> None:
    where, complaints = at
    if name in custom:
        return
    if not is_built_in(name):
        known = (*EVALUATORS, *OF_JUDGES, *custom)
        complaints.add(where, f"unknown scorer {name!r}", did_you_mean(name, known))
    elif name == "judge":
        _check_judge(parameters, where, complaints)
    elif name == "similarity":
        _check_similarity(parameters, scenario, where, complaints)
    elif name == "trajectory" and parameters:
        given = parameters if isinstance(parameters, Mapping) else {"expected": parameters}
        TRAJECTORY.read(given, where, complaints)
    else:
        try:
            build_evaluator(name, parameters, scenario=scenario)
        except UsageError as error:
            complaints.add(where, str(error))


def _check_judge(parameters: Any, where: Where, complaints: Complaints) -> None:
    if isinstance(parameters, Mapping):
        JUDGE.read(parameters, where, complaints)
    elif not isinstance(parameters, str) or not parameters.strip():
        complaints.add(where, f"the scorer 'judge' needs its rubric, got {show(parameters)}")


def _check_similarity(parameters: Any, scenario: Scenario, where: Where, complaints: Complaints) -> None:
    expected = scenario.expected_output
    if isinstance(parameters, Mapping):
        _SIMILARITY.read(parameters, where, complaints)
        expected = parameters.get("expected", expected)
    elif parameters is not None:
        SHARE.read(parameters, where, complaints)
    if expected is None:
        complaints.add(where, "the scorer 'similarity' needs 'expected_output' to compare with")


def is_built_in(name: str) -> bool:
    """Whether the scorer comes with Seatrial."""
    return name in EVALUATORS or name in OF_JUDGES


def scorer_names(scorers: Iterable[Any] | None) -> list[str]:
    """The names in a `scorers:` list; evaluators given as objects have none here."""
    names: list[str] = []
    for scorer in scorers or ():
        if isinstance(scorer, str):
            names.append(scorer)
        elif isinstance(scorer, Mapping):
            names.extend(scorer)
    return names
