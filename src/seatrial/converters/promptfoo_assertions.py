"""Assertions of promptfoo as scorers, expectations and limits."""

from collections.abc import Callable, Mapping
from typing import Any

from seatrial.patterns import problem as pattern_problem

from . import regexes
from .promptfoo_prompts import Unfilled, fill
from .promptfoo_tests import DEFAULT, Test
from .promptfoo_trajectories import TRAJECTORIES
from .source_file import Where
from .target_suite import DraftScenario

CODE = ("javascript", "python", "ruby", "webhook")
_BESIDE_THE_OUTPUT = ("latency", "cost", "trajectory:", "not-trajectory:")
"""Assertions that do not look at the output, so that nothing done to it concerns them."""
_READ = {"type", "value", "threshold", "weight", "transform", "metric", "$ref"}
Carry = Callable[[DraftScenario, Any, Mapping[str, Any]], str | None]
"""Adds the check to the scenario; or says why it cannot."""


def carry_assertions(test: Test, scenario: DraftScenario) -> None:
    for where, assertion in test.assertions:
        scenario.shared = where[0] == DEFAULT
        _carry(assertion, where, test, scenario)


def _carry(assertion: Mapping[str, Any], where: Where, test: Test, scenario: DraftScenario) -> None:
    kind = str(assertion.get("type", "equals"))
    if kind == "assert-set":
        _carry_set(assertion, where, test, scenario)
        return
    problem = _why_not(assertion, kind, test)
    if problem is None:
        try:
            value = _filled(assertion.get("value"), test.variables)
        except Unfilled as unfilled:
            problem = f"its value is a template: {unfilled}"
        else:
            problem = _add(kind, value, assertion, scenario)
    if problem is not None:
        scenario.lose_check(where, f"assertion {kind!r}: {problem}")
        return
    for key in assertion:
        if key not in _READ:
            scenario.lose((*where, key), f"assertion {kind!r}: its {key}")


def _why_not(assertion: Mapping[str, Any], kind: str, test: Test) -> str | None:
    value = assertion.get("value")
    if assertion.get("weight") == 0:
        return "it has the weight 0, so it never fails"
    transform = assertion.get("transform") or test.transform
    if transform and not kind.startswith(_BESIDE_THE_OUTPUT):
        return f"it looks at the output changed by {transform!r}"
    if kind.removeprefix("not-") in CODE:
        return f"it is code: {value!r:.80}; write it in Python, as an evaluator"
    if isinstance(value, str) and value.startswith("file://"):
        return f"its value is the file {value!r}"
    return None


def _carry_set(assertion: Mapping[str, Any], where: Where, test: Test, scenario: DraftScenario) -> None:
    threshold = assertion.get("threshold", 1)
    for index, inner in enumerate(assertion.get("assert") or ()):
        place = (*where, "assert", index)
        if threshold == 1:
            _carry(inner, place, test, scenario)
        else:
            scenario.lose_check(place, f"assertion {inner.get('type')!r} of a set of which {threshold} must hold")


def _add(kind: str, value: Any, assertion: Mapping[str, Any], scenario: DraftScenario) -> str | None:
    carry = _KNOWN.get(kind) or TRAJECTORIES.get(kind)
    if carry is None:
        return "has no counterpart here"
    return carry(scenario, value, assertion)


def _filled(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return fill(value, variables)
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    if isinstance(value, Mapping):
        return {key: _filled(item, variables) for key, item in value.items()}
    return value


def _text(value: Any) -> str:
    """A value as JavaScript writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(value: Any) -> list[str]:
    """A list as it is; a text is divided at its commas, as promptfoo does."""
    given = value if isinstance(value, list) else str(value).split(",")
    return [_text(item).strip() if isinstance(value, str) else _text(item) for item in given if _text(item).strip()]


def _unusable(value: Any, *, several: bool) -> str | None:
    """Why the value cannot be looked for in a reply. A mapping's text is in none, so its `not-` would hold always."""
    items = value if several and isinstance(value, list) else [value]
    if any(isinstance(item, Mapping | list) for item in items):
        return f"{value!r:.80} is no text"
    return None if value is not None and (_texts(value) if several else _text(value)) else "it has no value"


def _pattern(make: Callable[[Any], str], *, several: bool = False) -> Carry:
    """A check of the reply by a regular expression made from the value."""

    def carry(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
        problem = _unusable(value, several=several)
        if problem is not None:
            return problem
        pattern = make(_texts(value) if several else _text(value))
        wrong = pattern_problem(pattern)
        if wrong is not None:
            return f"{value!r} is no regular expression of Python's: {wrong}"
        scenario.score({"regex": pattern})
        return None

    return carry


def _contains_all(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    problem = _unusable(value, several=True)
    for text in _texts(value) if problem is None else ():
        scenario.score({"regex": regexes.contains(text)})
    return problem


def _expected(key: str, *, several: bool) -> Carry:
    def carry(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
        problem = _unusable(value, several=several)
        if problem is None:
            scenario.expect(key, _texts(value) if several else [_text(value)])
        return problem

    return carry


def _equals(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping | list) or value is None:
        return "it compares with JSON; give `json_schema` with const"
    scenario.score({"exact": {"expected": _text(value), "normalize": False}})
    return None


def _is_json(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    if value is not None and not isinstance(value, Mapping):
        return "its schema is no mapping"
    scenario.score({"json_schema": {"schema": dict(value) if value else True}})
    return None


def _limit(key: str) -> Carry:
    def carry(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
        threshold = assertion.get("threshold")
        if not isinstance(threshold, int | float):
            return "it has no threshold"
        scenario.limit(key, threshold)
        return None

    return carry


def _similar(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "it has no text to compare with"
    threshold = assertion.get("threshold", 0.75)
    scenario.score({"similarity": {"expected": value, "threshold": threshold}})
    scenario.change(scenario.where, f"similar, by another embedding: look at the threshold {threshold}")
    return None


def _judge(wording: str = "{}") -> Carry:
    def carry(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
        rubrics = value if isinstance(value, list) else [value]
        if not value or not all(isinstance(rubric, str) and rubric.strip() for rubric in rubrics):
            return "it has no rubric that is a text"
        if assertion.get("threshold") not in (None, 1):
            scenario.change(scenario.where, f"a rubric that must score {assertion['threshold']}: here it holds or not")
        for rubric in rubrics:
            scenario.score({"judge": wording.replace("{}", rubric)})
        return None

    return carry


def _refusal(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    scenario.score({"judge": "The reply refuses to do what was asked."})
    return None


_FACTS = "The reply agrees with these facts, and contradicts none of them: {}"
_NOT = "The following is not true of the reply: {}"
_KNOWN: Mapping[str, Carry] = {
    "equals": _equals,
    "not-equals": _pattern(lambda text: rf"\A(?!{regexes.contains(text)}\Z)"),
    "contains": _pattern(regexes.contains),
    "not-contains": _pattern(lambda text: regexes.none_of([text])),
    "contains-any": _pattern(regexes.any_of, several=True),
    "not-contains-any": _pattern(regexes.none_of, several=True),
    "contains-all": _contains_all,
    "icontains": _expected("reply_contains_all", several=False),
    "icontains-all": _expected("reply_contains_all", several=True),
    "icontains-any": _pattern(lambda texts: regexes.any_of(texts, ignore_case=True), several=True),
    "not-icontains": _expected("reply_excludes", several=False),
    "not-icontains-any": _expected("reply_excludes", several=True),
    "starts-with": _pattern(regexes.starts_with),
    "not-starts-with": _pattern(lambda text: rf"\A(?!{regexes.contains(text)})"),
    "regex": _pattern(str),
    "not-regex": _pattern(regexes.does_not_match),
    "is-json": _is_json,
    "latency": _limit("latency_ms"),
    "cost": _limit("cost_usd"),
    "similar": _similar,
    "llm-rubric": _judge(),
    "agent-rubric": _judge(),
    "not-llm-rubric": _judge(_NOT),
    "model-graded-closedqa": _judge(),
    "g-eval": _judge(),
    "factuality": _judge(_FACTS),
    "model-graded-factuality": _judge(_FACTS),
    "is-refusal": _refusal,
}
