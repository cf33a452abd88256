"""Values are frozen, slotted, keyword-only dataclasses in all that can be seen from outside."""

import copy
import inspect
import pickle
from dataclasses import field, fields, is_dataclass, replace

import pytest

from seatrial.vocabulary.run import Interval
from seatrial.vocabulary.value import Value, Written, field_names


class Point(Value):
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Named(Point):
    name: str = ""


class Checked(Value):
    share: float

    def __post_init__(self) -> None:
        if self.share > 1:
            raise ValueError("share is above 1")


def test_fields_are_given_by_name_only() -> None:
    with pytest.raises(TypeError, match="positional"):
        Point(1)  # type: ignore[misc]


def test_a_missing_field_is_named_in_the_error_of_the_first_object_too() -> None:
    class Fresh(Value):
        needed: int

    with pytest.raises(TypeError, match="'needed'"):
        Fresh()  # type: ignore[call-arg]


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="'z'"):
        Point(x=1, z=2)  # type: ignore[call-arg]


def test_a_plain_subclass_of_a_value_is_as_frozen_as_the_value() -> None:
    class Marked(Point):
        pass

    point = Marked(x=1, tags=["a"])
    assert (type(point), point.x, point.y, point.tags) == (Marked, 1, 0, ["a"])
    with pytest.raises(AttributeError, match="immutable"):
        point.x = 2  # type: ignore[misc]


def test_a_value_cannot_be_changed() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match="immutable"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        del point.x


def test_a_value_has_no_room_for_other_attributes() -> None:
    assert not hasattr(Point(x=1), "__dict__")


def test_equal_fields_make_equal_values_of_one_class() -> None:
    assert Point(x=1) == Point(x=1, y=0)
    assert Point(x=1) != Point(x=2)
    assert Point(x=1) != Named(x=1)


def test_values_are_hashed_by_their_fields() -> None:
    assert hash(Checked(share=0.5)) == hash(Checked(share=0.5))


def test_default_factories_make_a_fresh_value_each_time() -> None:
    assert Point(x=1).tags is not Point(x=1).tags


def test_a_derived_value_has_the_fields_of_both() -> None:
    assert field_names(Named) == ("x", "y", "tags", "name")
    assert Named(x=1, name="a") == Named(x=1, y=0, name="a")


def test_post_init_is_called() -> None:
    with pytest.raises(ValueError, match="above 1"):
        Checked(share=2.0)


def test_dataclass_tools_work() -> None:
    assert is_dataclass(Point)
    assert [part.name for part in fields(Point)] == ["x", "y", "tags"]
    assert replace(Point(x=1), y=5) == Point(x=1, y=5)


def test_values_survive_copying_and_pickling() -> None:
    point = Checked(share=0.25)
    assert copy.deepcopy(point) == point
    assert copy.copy(point) == point
    interval = Interval(low=0.1, high=0.9)
    assert pickle.loads(pickle.dumps(interval)) == interval


def test_the_signature_names_the_fields_before_any_object_was_made() -> None:
    class Fresh(Value):
        needed: int
        given: str = "a"

    assert str(inspect.signature(Fresh)) == "(*, needed: int, given: str = 'a')"


def test_repr_shows_the_fields() -> None:
    assert repr(Checked(share=0.5)) == "Checked(share=0.5)"


class Order(Written):
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
    with pytest.raises(TypeError) as raised:
        Order(*given, **named)  # type: ignore[misc,arg-type]
    assert str(raised.value) == told


def test_what_people_write_is_a_value_like_any_other() -> None:
    order = Order(number="A-1", quantity=2)
    assert replace(order, quantity=3) == Order(number="A-1", quantity=3)
    assert pickle.loads(pickle.dumps(order)) == copy.deepcopy(order) == order
    assert list(inspect.signature(Order).parameters) == ["number", "quantity"]
