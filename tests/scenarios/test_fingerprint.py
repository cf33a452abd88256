"""An edit that can change the verdict changes the fingerprint; any other does not."""

import functools
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from seatrial.evaluators.trajectory import Trajectory
from seatrial.model.scenario import Expect, Scenario, SuiteConfig, Turn
from seatrial.scenarios.fingerprint import fingerprints
from seatrial.scenarios.merge import Resolver

BASE = Scenario(name="a", input="x", expected_tool_args={"f": {"a": 1, "b": [1, 2]}}, metadata={"owner": "me"})


def fingerprint(scenario, agent, **more):
    return fingerprints(scenario, agent, **more)[0]


def _print(scenario: Scenario, agent: str = "agent", config: SuiteConfig | None = None, **more: Any) -> str:
    return fingerprint(Resolver(config or SuiteConfig()).resolve(scenario), agent, **more)


@pytest.mark.parametrize(
    "changes",
    [
        {"input": "y"},
        {"expected_output": ""},
        {"expected_tool_args": {"f": {"a": 1, "b": [2, 1]}}},
        {"trials": 2},
        {"threshold": 0.5},
        {"retries": 1},
        {"timeout_seconds": 31.0},
        {"scorers": ("exact",)},
        {"metadata": {"regex_pattern": "a"}},
        {"metadata": {"similarity_threshold": 0.5}},
        {"expect": Expect(reply_excludes=("a",))},
        {"trajectory": Trajectory(mode="within")},
        {"mocks": {"f": {"returns": 1}}},
        {"system": "s"},
        {"must_pass": True},
        {"xfail": "why"},
        {"setup": "pkg.mod:fn"},
    ],
    ids=str,
)
def test_what_decides_the_verdict_changes_the_fingerprint(changes):
    assert _print(replace(BASE, **changes)) != _print(BASE)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "b"},
        {"description": "d"},
        {"tags": ("t",)},
        {"metadata": {"owner": "you"}},
        {"metadata": None},
        {"source": "file:3"},
        {"expected_tool_args": {"f": {"b": (1, 2), "a": 1}}},
        {"threshold": 1.0},
    ],
    ids=str,
)
def test_what_does_not_decide_leaves_the_fingerprint(changes):
    assert _print(replace(BASE, **changes)) == _print(BASE)


def test_what_the_suite_sets_counts_as_if_the_scenario_did():
    assert _print(BASE, config=SuiteConfig(retries=2)) == _print(replace(BASE, retries=2))


def test_the_agent_counts():
    assert _print(BASE, "one") != _print(BASE, "two")


def test_two_scenarios_that_differ_only_in_where_a_text_stands_differ():
    one = Scenario(name="a", turns=(Turn(user="x", expect=Expect(reply_contains_any=("y",))),))
    two = Scenario(name="a", turns=(Turn(user="x", expect=Expect(reply_contains_all=("y",))),))
    assert _print(one) != _print(two)


def _mock(body: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(f"def mock(args, ctx):\n    {body}\n", namespace)
    return namespace["mock"]


def test_a_function_counts_by_what_it_does():
    def with_mock(function: Any) -> str:
        return _print(replace(BASE, mocks={"f": function}))

    assert with_mock(_mock("return 1")) == with_mock(_mock("return 1"))
    assert with_mock(_mock("return 1")) != with_mock(_mock("return 2"))
    assert with_mock(functools.partial(_mock("return 1"), 1)) != with_mock(functools.partial(_mock("return 1"), 2))


@pytest.mark.parametrize(
    "mock",
    [
        {"python": "my_mocks:answer"},
        {"returns": 1, "when": [{"args": {"a": 1}, "python": "my_mocks:answer"}]},
        {"sequence": [{"returns": 1}, {"python": "my_mocks:answer"}]},
    ],
)
def test_a_mock_that_names_a_function_counts_by_what_it_does(mock, monkeypatch):
    prints = []
    for number in (1, 1, 2):
        module = ModuleType("my_mocks")
        module.answer = _mock(f"return {number}")
        monkeypatch.setitem(sys.modules, "my_mocks", module)
        prints.append(_print(replace(BASE, mocks={"f": mock})))

    assert prints[0] == prints[1] != prints[2]


def test_what_a_function_closes_over_counts():
    def maker(value: int) -> Any:
        return lambda args, ctx: value

    assert _print(replace(BASE, mocks={"f": maker(1)})) != _print(replace(BASE, mocks={"f": maker(2)}))
    assert _print(replace(BASE, mocks={"f": maker(1)})) == _print(replace(BASE, mocks={"f": maker(1)}))


@dataclass
class _Check:
    limit: int

    async def evaluate(self, ctx: Any) -> Any: ...


class _Plain:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    async def evaluate(self, ctx: Any) -> Any: ...

    def method(self, ctx: Any) -> bool:
        return True


@pytest.mark.parametrize("make", [_Check, _Plain, lambda limit: _Plain(limit).method])
def test_an_evaluator_object_counts_by_its_state_and_never_by_its_address(make):
    def with_scorer(limit: int) -> str:
        return _print(replace(BASE, scorers=(make(limit),)))

    assert with_scorer(1) == with_scorer(1)
    assert with_scorer(1) != with_scorer(2)


def test_a_custom_evaluator_that_is_named_counts_by_its_source():
    named = replace(BASE, scorers=("mine",))
    one, two = ({"mine": _mock(f"return {number}")} for number in (1, 2))
    assert _print(named, evaluators=one) != _print(named, evaluators=two)
    assert _print(BASE, evaluators=one) == _print(BASE, evaluators=two)


@pytest.mark.parametrize("value", [{1: "a", "b": 2}, {"s": {3, 1}}, b"bytes", float("nan"), "\ud800", 10**400])
def test_any_value_has_a_stable_fingerprint(value):
    scenario = replace(BASE, mocks={"f": {"returns": value}})
    assert _print(scenario) == _print(scenario)


def test_an_object_that_contains_itself_has_a_fingerprint():
    loop: list[Any] = []
    loop.append(loop)
    assert _print(replace(BASE, mocks={"f": {"returns": loop}}))


def test_another_process_gives_the_same_fingerprint():
    code = (
        "from seatrial.scenarios.fingerprint import fingerprints\n"
        "from seatrial.model.scenario import Scenario\n"
        "print(*fingerprints(Scenario(name='a', input='x', mocks={'f': {'returns': {'a', 'b', 'c'}}}), 'agent'))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != ""


_TEXTS = st.text(st.characters(max_codepoint=0x7F) | st.characters(exclude_categories=()), max_size=8)
_VALUES = st.one_of(_TEXTS, st.integers(), st.booleans(), st.none(), st.floats(), st.lists(_TEXTS, max_size=2))


def test_numbers_that_are_equal_and_look_different_have_fingerprints_of_their_own():
    of_int, of_float = (fingerprint(replace(BASE, timeout_seconds=seconds), "agent") for seconds in (30, 30.0))
    assert of_int != of_float


def test_fingerprints_of_runs_that_are_stored_already_stay_the_same() -> None:
    """They were made when calls without a mock were errors by default, whether there were mocks or not."""
    mocks = {"mocks": {"a": {"returns": 1}}}
    found = [
        fingerprint(Resolver(SuiteConfig()).resolve(Scenario(name="a", input="x", **keys)), "agent")
        for keys in ({}, mocks, {**mocks, "unmocked_tools": "passthrough"})
    ]
    assert found == [
        "ce5eef4c149644074312f9ee93fa61ac",
        "23c1d30d266b18186b0818894b54ba8c",
        "e99eb1ddeee7ad1d6065acdbf22377bd",
    ]
    assert (
        fingerprint(Resolver(SuiteConfig()).resolve(Scenario(name="a", input="x", unmocked_tools="error")), "agent")
        not in found
    )
