"""A scenario that is made ready by the example of another is as ready as one that is made by itself."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from seatrial.scenarios import Cast, Preparer, resolve
from seatrial.vocabulary.scenario import Expect, Scenario, SuiteConfig, Turn


class _Agent:
    name = "agent"
    keeps_conversation = True
    answers_own_tools = True


def _cast() -> Cast:
    return Cast(suite="s", agent=_Agent(), agent_key="agents:one")  # type: ignore[arg-type]


SHARED_HISTORY = ({"role": "user", "content": "hello"},)
CHANGES: list[dict[str, Any]] = [
    {"name": "b"},
    {"name": "b", "input": "y", "tags": ("t",), "source": "file:2", "description": "d"},
    {"expected_output": "z", "expected_tools": ("f",), "expected_tool_args": {"f": {"a": 1}}},
    {"trials": 3},
    {"threshold": 0.5},
    {"skip": "later"},
    {"xfail": "known"},
    {"must_pass": True},
    {"retries": 2},
    {"timeout_seconds": 1.0},
    {"history": SHARED_HISTORY},
    {"metadata": {"regex_pattern": "a"}},
    {"scorers": ("exact",), "expected_output": "x"},
    {"input": None, "turns": (Turn(user="hi", expect=Expect(reply_contains_any=("a",))),)},
    {"expect": Expect(reply_contains_any=("a",))},
    {"mocks": {"f": {"returns": 1}}},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_what_follows_an_example_is_made_as_if_it_came_first(changes: dict[str, Any]) -> None:
    first = Scenario(name="a", input="x", expected_output="o", tags=("s",), source="file:1")
    kept = {field: getattr(first, field) for field in ("name", "input", "expected_output", "tags", "source")}
    second = resolve(Scenario(**{**kept, **changes}), SuiteConfig())
    cast = _cast()
    preparer = Preparer(cast)
    preparer.prepare(resolve(first, SuiteConfig()), position=0)
    after, alone = preparer.prepare(second, position=7), Preparer(cast).prepare(second, position=7)
    assert after.entry == alone.entry
    assert after.scenario is second
    for field in ("turn_evaluators", "every_turn_evaluators", "trial_evaluators", "judge", "history", "scripted"):
        assert getattr(after, field) == getattr(alone, field)
    for field in ("max_turns", "timeout_seconds", "trial_timeout_seconds", "retries", "setup", "teardown"):
        assert getattr(after, field) == getattr(alone, field)


def test_each_says_its_own_text():
    preparer = Preparer(_cast())
    shared = resolve(Scenario(name="a", input="x"), SuiteConfig())
    prepared = [preparer.prepare(replace(shared, name=text, input=text), position=0) for text in ("one", "two")]
    moves = [asyncio.run(each.make_user(0, 0).next(())) for each in prepared]
    assert [move.message for move in moves] == ["one", "two"]


def test_an_evaluator_that_was_made_for_one_scenario_is_not_given_to_the_next():
    preparer = Preparer(_cast())
    first = resolve(Scenario(name="a", input="x", expected_output="one", scorers=("exact",)), SuiteConfig())
    second = replace(first, name="b", expected_output="two")
    evaluators = [preparer.prepare(each, position=0).trial_evaluators for each in (first, second)]
    assert evaluators[1] == Preparer(_cast()).prepare(second, position=0).trial_evaluators != evaluators[0]
