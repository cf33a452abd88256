"""Whatever an agent hands over becomes plain data, once: a second look changes nothing, and the store keeps it."""

import json
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.json_values import plain_arguments, plain_value
from seatrial.store.codec import decode, encode


class Text(str):
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return False


class Color(Enum):
    RED = "red"
    SIZE = (1, 2)


@dataclass
class Order:
    total: Any


class Model:
    def __init__(self, held: Any) -> None:
        self.held = held

    def model_dump(self) -> Any:
        return self.held


TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | TEXTS.map(Text) | st.binary(max_size=3)
    | st.decimals() | st.dates() | st.times() | st.datetimes() | st.uuids() | st.fractions() | st.complex_numbers()
    | st.sampled_from(Color) | st.builds(object) | TEXTS.map(PurePosixPath)
)  # fmt: skip
KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, TEXTS.map(Text), st.dates())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=4),
        st.dictionaries(TEXTS, inner, max_size=3).map(MappingProxyType),
        st.frozensets(KEYS | st.uuids() | st.binary(max_size=3), max_size=3),
        inner.map(Order),
        inner.map(Model),
    ),
    max_leaves=12,
)


def is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and is_plain(item) for key, item in value.items())
    if type(value) is list:
        return all(map(is_plain, value))
    return value is None or type(value) in (str, int, float, bool)


@settings(deadline=None)
@given(VALUES)
def test_a_plain_value_is_plain_and_stays_what_it_is(value: Any) -> None:
    plain = plain_value(value)

    assert is_plain(plain)
    assert repr(plain_value(plain)) == repr(plain)


@settings(deadline=None)
@given(VALUES)
def test_a_plain_value_comes_back_from_the_store_and_from_a_worker_as_it_was(value: Any) -> None:
    plain = plain_value(value)
    turn = PlayedTurn(index=0, user="", reply="", tool_calls=(ToolCall("t", plain, plain),))
    transcript = Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED, state={"s": plain}, recorded=plain)

    assert repr(decode(Transcript, encode(transcript))) == repr(transcript)
    assert repr(json.loads(json.dumps(plain))) == repr(plain)


@settings(deadline=None)
@given(st.dictionaries(KEYS, st.integers(), max_size=6))
def test_no_entry_of_a_mapping_is_lost(value: dict[Any, int]) -> None:
    assert list(plain_value(value).values()) == list(value.values())


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Text("a"), "a"),
        (Decimal("1.10"), 1.1),
        (Decimal("100"), 100),
        (Decimal("Infinity"), float("inf")),
        (Fraction(1, 4), 0.25),
        (date(2026, 5, 1), "2026-05-01"),
        (time(12, 30), "12:30:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        (Color.RED, "red"),
        (Color.SIZE, [1, 2]),
        (Order([Decimal("2.5")]), {"total": [2.5]}),
        (Model({"day": date(2026, 5, 1)}), {"day": "2026-05-01"}),
        (Model([1]), [1]),
        (Model(object()), "[Model object]"),
        ({3, 1, 2}, [1, 2, 3]),
        (object(), "[object object]"),
        (Order, "[type object]"),
        (len, "[builtin_function_or_method object]"),
        (b"ab", "[bytes object]"),
        ([10**5000], [float("inf")]),
        ([-(10**5000)], [float("-inf")]),
        ("a\0\ud800", "a\0\ud800"),
        ({1: "a", "1": "b", 1.5: "c", False: "d"}, {"1 (2)": "a", "1": "b", "1.5": "c", "false": "d"}),
        ({None: 1, "null": 2, (1, 2): 3}, {"null (2)": 1, "null": 2, "[1, 2]": 3}),
    ],
)
def test_what_a_value_becomes(value: Any, plain: Any) -> None:
    found = plain_value(value)
    assert found == plain
    assert type(found) is type(plain)


def test_a_value_that_contains_itself_is_marked_there() -> None:
    held: dict[str, Any] = {"a": 1}
    held["both"] = [held, held]
    assert plain_value(held) == {"a": 1, "both": ["[contains itself]", "[contains itself]"]}
    assert plain_value([[1], [1]]) == [[1], [1]]


def test_a_value_that_is_nested_too_deeply_is_cut_there() -> None:
    deep: Any = "bottom"
    for _ in range(3000):
        deep = [deep]
    plain = plain_value(deep)
    for _ in range(100):
        (plain,) = plain
    assert plain == "[nested too deeply]"


def test_an_object_whose_own_code_breaks_is_marked() -> None:
    class Shy(Order):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError

    assert plain_value({"a": Shy(1)}) == {"a": "[Shy object that cannot be read]"}


@pytest.mark.parametrize(
    ("arguments", "plain"),
    [
        ('{"a": {"b": 1}}', {"a": {"b": 1}}),
        (Text(' {"a": 1}\n'), {"a": 1}),
        ("{}", {}),
        ("[1]", "[1]"),
        ('"a"', '"a"'),
        ('{"a": NaN}', '{"a": NaN}'),
        ("{'a': 1}", "{'a': 1}"),
        ("", ""),
        (None, None),
        ({"a": Decimal(1)}, {"a": 1}),
        (["a"], ["a"]),
    ],
)
def test_arguments_that_are_a_text_of_a_json_object_become_it(arguments: Any, plain: Any) -> None:
    assert plain_arguments(arguments) == plain
