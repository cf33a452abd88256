"""Which scenarios a run takes."""

from seatrial.model.scenario import Scenario
from seatrial.scenarios.loaded_suite import select

SCENARIOS = (
    Scenario(name="Order lookup", input="x", tags=("read",)),
    Scenario(name="order cancel", input="x", tags=("write", "slow")),
    Scenario(name="greeting", input="x"),
)


def _names(**chosen):
    return [scenario.name for scenario in select(SCENARIOS, **chosen)]


def test_without_a_choice_all_are_taken():
    assert _names() == ["Order lookup", "order cancel", "greeting"]


def test_a_part_of_the_name_is_enough_whatever_the_case():
    assert _names(scenario_text=("ORDER",)) == ["Order lookup", "order cancel"]
    assert _names(scenario_text=("look", "greet")) == ["Order lookup", "greeting"]


def test_one_of_the_tags_is_enough():
    assert _names(tags=("slow", "read")) == ["Order lookup", "order cancel"]


def test_name_and_tag_must_both_fit():
    assert _names(scenario_text=("order",), tags=("slow",)) == ["order cancel"]


def test_a_single_text_is_not_taken_letter_by_letter():
    assert _names(scenario_text="greet") == ["greeting"]
    assert _names(tags="read") == ["Order lookup"]


def test_what_fits_nothing_selects_nothing():
    assert _names(tags=("none",)) == []
