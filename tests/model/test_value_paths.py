"""Paths into JSON values."""

import pytest

from seatrial.errors import UsageError
from seatrial.model.value_paths import parse_path, show_location

SHOP = {
    "orders": {
        "W1": {"status": "sent", "items": [{"price": 1}, {"price": 2}]},
        "W.2": {"status": "new", "items": []},
    },
    "tags": ["a", "b"],
    "odd": {'say "a\\b"': {"x": 1}},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("orders.W1.status", ["sent"]),
        ("orders.*.status", ["sent", "new"]),
        ("orders.*.items[].price", [1, 2]),
        ("orders.W1.items[1].price", [2]),
        ("orders.W1.items.1.price", [2]),
        ("orders.W1.items.*.price", [1, 2]),
        ('orders."W.2".status', ["new"]),
        ('orders["W.2"].status', ["new"]),
        ("tags[]", ["a", "b"]),
        ("tags.*", ["a", "b"]),
        ("orders[]", []),
        ("orders.W9.status", []),
        ("tags.a", []),
    ],
)
def test_a_path_leads_to_these_values(path, values):
    assert [value for _, value in parse_path(path).find(SHOP)] == values


@pytest.mark.parametrize(
    "path", ["", ".", "a..b", "a.", "a b[", "a[x]", 'a."b', "a]b", 'a"b"', 'a."b"]', 'a["b"', "a[]b"]
)
def test_a_path_that_cannot_be_read_is_refused(path):
    with pytest.raises(UsageError, match="path"):
        parse_path(path)


def test_a_path_covers_its_values_and_what_they_contain():
    path = parse_path("orders.*.items[]")

    assert path.covers(("orders", "W1", "items", 0))
    assert path.covers(("orders", "W1", "items", 0, "price"))
    assert not path.covers(("orders", "W1", "items"))
    assert not path.covers(("orders", "W1", "items", "x"))


def test_a_shown_location_leads_back_to_its_value():
    for location, value in parse_path("*.*.*").find(SHOP):
        assert list(parse_path(show_location(location)).find(SHOP)) == [(location, value)]
