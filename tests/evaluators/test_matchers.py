import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.evaluators.built_in import check_arguments, check_expected
from seatrial.evaluators.matchers import matches, mismatch

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abx", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def canonical(value: Any) -> Any:
    """A value that Python compares as JSON does: bools apart from numbers."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    return [canonical(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(json_values, json_values)
def test_plain_values_match_when_they_are_equal_as_json(expected: Any, actual: Any) -> None:
    assert matches(expected, actual) == (canonical(expected) == canonical(actual))
    assert matches(expected, expected)
    assert check_expected(expected) == []


@settings(deadline=None)
@given(json_values, json_values)
def test_not_is_the_opposite_and_any_and_one_of_hold(expected: Any, actual: Any) -> None:
    assert matches({"$not": expected}, actual) != matches(expected, actual)
    assert matches({"$any": True}, actual)
    assert matches({"$one_of": [expected, actual]}, actual)


@settings(deadline=None)
@given(
    st.dictionaries(st.text("ab", max_size=2), json_values, max_size=3),
    st.dictionaries(st.text("cd", min_size=1, max_size=2), json_values),
)
def test_a_mapping_includes_each_of_its_parts(part: dict[str, Any], more: dict[str, Any]) -> None:
    assert matches({"$subset": part}, {**part, **more})


@settings(deadline=None)
@given(json_values, json_values)
def test_a_mismatch_is_described_exactly_when_there_is_one(expected: Any, actual: Any) -> None:
    assert (mismatch(expected, actual) is None) == matches(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual", "wanted"),
    [
        (2, 2.0, True),
        (1, True, False),
        (True, 1, False),
        (0, False, False),
        ("1", 1, False),
        (None, 0, False),
        (float("nan"), float("nan"), False),
        ([1, 2], (1, 2), True),
        ([1, 2], [2, 1], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"$regex": "^a"}, "ba", False),
        ({"$regex": "a$"}, "ba", True),
        ({"$contains": "a"}, ["a", "b"], True),
        ({"$contains": {"$gt": 2}}, [1, 3], True),
        ({"$contains": "a"}, {"a": 1}, False),
        ({"$contains": 1}, "1", False),
        ({"$gt": 5}, 5, False),
        ({"$gte": 5}, True, False),
        ({"$lte": 5}, "4", False),
        ({"$lt": "2024-06-01"}, "2024-05-31", True),
        ({"$type": "integer"}, 5.0, True),
        ({"$type": "integer"}, 5.5, False),
        ({"$type": "number"}, True, False),
        ({"$type": "array"}, [], True),
        ({"$type": "null"}, None, True),
        ({"$subset": {"a": {"b": 1}}}, {"a": {"b": 1, "c": 2}, "d": 3}, True),
        ({"$subset": {"a": {"b": {"$gt": 0}}}}, {"a": {"b": 0}}, False),
        ({"$not": None}, 1, True),
        ({"$not": {"$one_of": [{"$lt": 1}, {"$gt": 9}]}}, 5, True),
        ({"$not": {"$one_of": [{"$lt": 1}, {"$gt": 9}]}}, 10, False),
        ({"$filter": 1, "x": 2}, {"$filter": 1, "x": 2}, True),
    ],
)
def test_a_matcher_asks_for_what_its_name_says(expected: Any, actual: Any, wanted: bool) -> None:
    assert matches(expected, actual) is wanted


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ({"k": {"$regx": "a"}}, "k.$regx: unknown matcher '$regx'. Did you mean '$regex'? Known: "),
        ({"k": {"$regex": "["}}, "k.$regex: '[' is not a regular expression: "),
        ({"k": {"$regex": 5}}, "k.$regex: expected a string, got 5."),
        ({"k": [1, {"$type": "strin"}]}, "k[1].$type: unknown type 'strin'. Did you mean 'string'?"),
        ({"k": {"$one_of": "ab"}}, "k.$one_of: expected a list of values, got 'ab'."),
        ({"k": {"$one_of": []}}, "k.$one_of: expected a list of values, got []."),
        ({"k": {"$any": False}}, "k.$any: expected true, got False."),
        ({"k": {"$gt": True}}, "k.$gt: expected a number or a string, got True."),
        ({"k": {"$subset": [1]}}, "k.$subset: expected a mapping, got [1]."),
        ({"k": {"$not": {"$nope": 1}}}, "k.$not.$nope: unknown matcher '$nope'."),
        ({"k": {"$gt": 1, "$lt": 9}}, "k: several matchers in one mapping"),
        ({"$one_of": [1, {"$lte": None}]}, "$one_of[1].$lte: expected a number or a string, got None."),
    ],
)
def test_a_wrong_matcher_is_found_with_its_path(expected: Any, problem: str) -> None:
    problems = check_expected(expected)

    assert len(problems) == 1
    assert re.match(re.escape(problem), problems[0])


def test_all_wrong_matchers_are_found_at_once() -> None:
    assert len(check_expected({"a": {"$x": 1}, "b": [{"$y": 1}], "c": {"$any": True}})) == 2


def test_an_argument_may_have_a_dollar_in_its_name() -> None:
    assert check_arguments({"$filter": "x"}) == []
    assert check_arguments({"$filter": "x", "$top": 5}) == []


def test_a_huge_value_is_shortened_in_words() -> None:
    text = mismatch("x", "y" * 100_000)

    assert text is not None
    assert len(text) < 1000


NUMERIC = [{"$gt": 1}, {"$gte": 1}, {"$lt": 9}, {"$lte": 9}, {"$between": [1, 9]}]
NOT_NUMBERS = ["abc", "5", None, True, [5], {"a": 5}, float("nan")]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
@pytest.mark.parametrize("matcher", NUMERIC, ids=repr)
def test_a_numeric_matcher_never_holds_for_what_is_no_number(matcher: Any, value: Any) -> None:
    assert not matches(matcher, value)
    assert not matches({"$not": matcher}, value)
    assert not matches({"$not": {"$not": matcher}}, value)
    assert not matches({"$not": {"$one_of": [matcher, "x"]}}, value)
    assert not matches({"$not": {"$contains": matcher}}, [value])
    assert not matches({"$not": {"$subset": {"a": matcher}}}, {"a": value, "b": 1})
    assert not matches({"$not": {"a": [matcher]}}, {"a": [value]})


@pytest.mark.parametrize("value", ["abc", None, float("nan")], ids=repr)
def test_a_range_by_negation_accepts_no_value_that_is_no_number(value: Any) -> None:
    range_ = {"$not": {"$one_of": [{"$lte": 1}, {"$gte": 9}]}}
    assert not matches(range_, value)
    assert matches(range_, 5)
    assert not matches(range_, 9)


@pytest.mark.parametrize(
    ("bounds", "value", "holds"),
    [
        ([1, 9], 1, True),
        ([1, 9], 9.0, True),
        ([1, 9], 9.1, False),
        ([1, 9], 0, False),
        ([1, 1], 1, True),
        ([1, 9], float("inf"), False),
        (["2026-01-01", "2026-12-31"], "2026-05-01", True),
        (["2026-01-01", "2026-12-31"], "2027-05-01", False),
    ],
)
def test_between_includes_its_bounds(bounds: Any, value: Any, holds: bool) -> None:
    assert matches({"$between": bounds}, value) is holds
    assert matches({"$not": {"$between": bounds}}, value) is not holds


@pytest.mark.parametrize(
    "bounds", [5, [1], [1, 2, 3], [1, "9"], [True, 2], [None, 2], [9, 1], [float("nan"), 1], {"a": 1}, "19"], ids=repr
)
def test_bounds_that_nothing_is_between_are_refused(bounds: Any) -> None:
    (problem,) = check_expected({"$between": bounds}, path="seats")
    assert problem.startswith("seats.$between: expected ")
