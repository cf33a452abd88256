import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.passfail import PassFail
from seatrial.evaluators.registry import EVALUATORS, build_evaluator
from seatrial.evaluators.text import Contains, Exact, Regex
from seatrial.evaluators.tool_calls import ToolCalls
from seatrial.evaluators.trajectory import Trajectory
from seatrial.model.protocols import TurnContext
from seatrial.model.scenario import ExpectedCall, Scenario
from seatrial.model.struct import InputStruct, field_names


def test_every_evaluator_of_files_is_known_by_its_own_name() -> None:
    for name, kind in EVALUATORS.items():
        assert kind.name == name
        assert issubclass(kind, InputStruct)


@pytest.mark.parametrize(
    ("name", "parameters", "built"),
    [
        ("passfail", None, PassFail()),
        ("passfail", {"expected_output": "x"}, PassFail(expected_output="x")),
        ("regex", r"ORD-\d+", Regex(r"ORD-\d+")),
        ("regex", {"pattern": "a"}, Regex("a")),
        ("exact", "yes", Exact("yes")),
        ("exact", {"normalize": False}, Exact(normalize=False)),
        ("contains", {"any_of": ["a"]}, Contains(any_of=["a"])),
        ("contains", ["a"], Contains(any_of=["a"])),
        ("tool_calls", ["a"], ToolCalls(must_include=["a"])),
        ("trajectory", ["a"], Trajectory(expected=[ExpectedCall(name="a")])),
        ("trajectory", {"mode": "strict"}, Trajectory(mode="strict")),
    ],
)
def test_what_stands_beside_a_name_becomes_its_arguments(name: str, parameters: Any, built: Any) -> None:
    assert build_evaluator(name, parameters) == built


@pytest.mark.parametrize(
    ("name", "parameters", "text"),
    [
        ("passfial", None, r"unknown evaluator 'passfial'\. Did you mean 'passfail'\? Known: passfail, exact, "),
        ("contains", {"any_off": ["a"]}, r"contains: unknown parameter 'any_off'\. Did you mean 'any_of'\?"),
        ("contains", "a", r"contains\.any_of: expected a list of strings, got the string 'a'\. Write \['a'\]"),
        ("limits", 5, r"limits: expected parameters by name, got 5"),
        ("contains", None, r"contains: nothing is asserted"),
        ("contains", {"case_sensitive": True}, r"contains: nothing is asserted"),
        ("contains", {"any_of": [], "all_of": ["a"]}, r"contains\.any_of: the list is empty"),
        ("tool_calls", {"ordered": True}, r"tool_calls: nothing is asserted"),
        ("limits", {}, r"limits: nothing is asserted"),
        ("trajectory", {"mode": "contains"}, r"trajectory: nothing is asserted"),
        ("regex", None, r"regex: needs 'pattern'"),
        (
            "tool_calls_args",
            {"tool": "a"},
            r"tool_calls_args: nothing is asserted of the arguments",
        ),
        ("json_schema", {"type": "object"}, r"json_schema: unknown parameter 'type'.* Known: schema"),
        ("passfail", True, r"passfail: expected parameters by name, got True"),
        ("regex", ["a"], r"regex\.pattern: expected a string"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, parameters: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        build_evaluator(name, parameters)


def test_the_scenario_gives_what_stands_there() -> None:
    scenario = Scenario(
        name="s",
        input="x",
        expected_output="Yes",
        expected_tools=["a"],
        metadata={"regex_pattern": "y", "exact_normalize": False},
    )

    assert build_evaluator("regex", scenario=scenario) == Regex("y")
    assert build_evaluator("regex", "z", scenario=scenario) == Regex("z")
    assert build_evaluator("exact", scenario=scenario) == Exact("Yes", normalize=False)
    assert build_evaluator("passfail", scenario=scenario) == PassFail(expected_output="Yes", expected_tools=["a"])


def test_exact_is_refused_for_a_scenario_without_a_text() -> None:
    with pytest.raises(UsageError, match="exact: there is no text to compare with"):
        build_evaluator("exact", scenario=Scenario(name="s", input="x"))


def test_an_evaluator_is_its_fields_and_keeps_no_result() -> None:
    for built in (build_evaluator("regex", "a"), build_evaluator("trajectory", ["a"])):
        before = {name: getattr(built, name) for name in field_names(built) or ()}
        asyncio.run(built.evaluate(TurnContext(reply="b", tool_calls=[])))
        assert type(built)(**before) == built
