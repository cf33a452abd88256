"""Structs are frozen, and those that people write say what was probably meant."""

import copy
import inspect
import pickle
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.run import Interval
from seatrial.model.struct import InputStruct, field_names


def test_a_struct_cannot_be_changed() -> None:
    interval = Interval(low=0.1, high=0.9)
    with pytest.raises(AttributeError, match="immutable"):
        interval.low = 0.0  # type: ignore[misc]


def test_a_struct_survives_pickling() -> None:
    interval = Interval(low=0.1, high=0.9)
    assert pickle.loads(pickle.dumps(interval)) == interval


def test_structs_and_dataclasses_have_field_names_and_others_have_none() -> None:
    @dataclass
    class Point:
        x: int

    assert field_names(Interval) == ("low", "high")
    assert field_names(Interval(low=0.1, high=0.9)) == ("low", "high")
    assert field_names(Point(1)) == ("x",)
    assert field_names("text") is None


class Order(InputStruct, frozen=True, kw_only=True):
    number: str
    quantity: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.quantity, int):
            raise TypeError("quantity must be a whole number")


@pytest.mark.parametrize(
    ("given", "named", "told"),
    [
        ((), {"number": "A-1", "quantty": 2}, "Order has no 'quantty'. Did you mean 'quantity'?"),
        ((), {"number": "A-1", "colour": "red"}, "Order has no 'colour'. It has: number, quantity"),
        ((), {}, "Order: Missing required argument 'number'"),
        (("A-1",), {}, "Order: Extra positional arguments provided. Its fields are given by name"),
        ((), {"number": "A-1", "quantity": "2"}, "quantity must be a whole number"),
    ],
    ids=str,
)
def test_what_people_write_tells_their_mistakes_with_its_name(
    given: tuple[object, ...], named: dict[str, object], told: str
) -> None:
    with pytest.raises((UsageError, TypeError)) as raised:
        Order(*given, **named)  # type: ignore[misc,arg-type]
    assert str(raised.value) == told


def test_what_people_write_is_a_value_like_any_other() -> None:
    order = Order(number="A-1", quantity=2)
    assert replace(order, quantity=3) == Order(number="A-1", quantity=3)
    assert pickle.loads(pickle.dumps(order)) == copy.deepcopy(order) == order
    assert list(inspect.signature(Order).parameters) == ["number", "quantity"]
