import json
from collections import OrderedDict
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.store.marks import read, write

TEXTS = st.text(st.characters(exclude_categories=()))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary() | st.integers(2**2040, 2**2060)
KEYS = TEXTS | st.integers() | st.floats() | st.none() | st.booleans() | st.tuples(TEXTS, st.integers())
MARKS = st.sampled_from(["$marked", "parts", "$tuple", "$repr", "$part", "$content", "$str", "$", "$float"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS | MARKS, inner, max_size=4)
        | st.dictionaries(MARKS, inner, max_size=2)
    ),
    max_leaves=20,
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = ["bottom"]
    for _ in range(depth):
        value = [value]
    return value


class Foreign:
    def __repr__(self) -> str:
        return "a foreign object"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


@settings(deadline=None)
@given(VALUES)
def test_every_value_comes_back_exactly(value: Any) -> None:
    written = write(value)
    assert written.isascii()
    assert repr(read(written)) == repr(value)


@settings(deadline=None)
@given(VALUES)
def test_what_is_written_is_json_that_any_parser_reads(value: Any) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(write(value), parse_constant=refuse)


@pytest.mark.parametrize("depth", [10, 49, 50, 51, 101, 5_000])
def test_nesting_of_any_depth_comes_back(depth: int) -> None:
    back = read(write({"value": nested(depth)}))["value"]
    for _ in range(depth):
        (back,) = back
    assert back == ["bottom"]


def test_a_plain_value_is_plain_json() -> None:
    assert write({"a": [1, 2.5, None, True, "é"]}) == '{"a":[1,2.5,null,true,"\\u00e9"]}'


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Foreign(), {"$repr": "a foreign object"}),
        ({"deep": [Foreign()]}, {"deep": [{"$repr": "a foreign object"}]}),
        ({Foreign()}, {"$repr": "{a foreign object}"}),
        ({Foreign(): 1, Foreign(): 2}, {"a foreign object": 1, "a foreign object (2)": 2}),
        (1 + 2j, {"$repr": "(1+2j)"}),
    ],
)
def test_a_foreign_object_is_kept_as_its_repr(value: Any, back: Any) -> None:
    assert read(write(value)) == back


def test_the_repr_of_a_foreign_object_stays_what_it_is_when_saved_again() -> None:
    once = read(write([Foreign(), (1,)]))
    assert read(write(once)) == once == [{"$repr": "a foreign object"}, (1,)]


def test_an_object_whose_repr_fails_is_kept_all_the_same() -> None:
    assert "Broken, whose repr raised RuntimeError" in read(write(Broken()))["$repr"]


def test_a_value_that_contains_itself_is_cut_where_it_does() -> None:
    loop: dict[str, Any] = {"name": "loop"}
    loop["self"] = loop
    assert read(write(loop)) == {"name": "loop", "self": {"$repr": "{'name': 'loop', 'self': {...}}"}}


def test_a_value_that_occurs_twice_is_no_loop() -> None:
    twice = [float("inf")]
    assert read(write([twice, twice])) == [twice, twice]


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": (1,)}), {"a": (1,)}),
        (bytearray(b"x"), b"x"),
    ],
)
def test_a_kind_of_text_number_or_mapping_comes_back_as_the_plain_one(value: Any, back: Any) -> None:
    read_back = read(write(value))
    assert (type(read_back), read_back) == (type(back), back)


def test_a_value_that_looks_like_a_document_of_ours_comes_back() -> None:
    for value in ({"$marked": 1, "parts": []}, {"$marked": 1}, [{"$marked": {"$tuple": []}, "parts": [(1,)]}]):
        assert read(write(value)) == value


def test_an_unknown_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown mark '\\$later'"):
        read('{"$marked":{"$later":1},"parts":[]}')
