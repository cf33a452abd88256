"""Which tools may run in a trial, and names of tools that are misspelt."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import Scenario

# A folder of a user's, from the neighbouring conftest.
Folder = Any

WRAPPED = """
    from pathlib import Path
    import seatrial

    @seatrial.tool
    def lookup_order(order_id):
        return {"status": "shipped"}

    @seatrial.tool
    def send_email(to):
        Path("sent.txt").write_text(to)
        return "sent"

    def answer(messages):
        lookup_order("A-1")
        return send_email("ada@example.com")
    """
CTX = """
    def answer(ctx):
        return str(ctx.call_tool("lookup_order", {"order_id": "A-1"}))
    """
FRAMEWORK = """
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    def lookup_order(order_id: str) -> str:
        return "shipped"

    def send_email(to: str) -> str:
        raise SystemError("the real tool ran")

    def make():
        return agent

    agent = Agent(TestModel(call_tools=["lookup_order"]), tools=[lookup_order, send_email])
    sender = Agent(TestModel(), tools=[lookup_order, send_email])
    other = Agent(TestModel(call_tools=[]), tools=[])
    """
NOTE = "never called in 2 trials: lookup_ordr. Did you mean lookup_order (called 2 times)?"


def write(folder: Folder, agent: str, scenario: str, *, target: str = "agent:answer") -> None:
    folder.write("agent.py", agent)
    folder.write(
        "shop.yaml", f'suite: {{name: shop, agent: "{target}"}}\nscenarios:\n  - {{name: a, input: hi, {scenario}}}'
    )


# Tools without a mock


def test_beside_mocks_a_real_tool_never_runs_and_the_error_shows_the_mock_to_add(folder: Folder) -> None:
    write(folder, WRAPPED, "mocks: {lookup_order: {returns: 1}, send_mail: {returns: ok}}")
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 1
    assert "ERROR tool: Tool 'send_email' was called but no mock is defined" in ended.out
    assert "is it 'send_mail' under another name?" in ended.out
    assert "send_email: {returns: {}}" in ended.out
    assert not folder.exists("sent.txt")


def test_beside_mocks_a_real_tool_never_runs_in_a_process_of_its_own(folder: Folder) -> None:
    folder.write("agent.py", WRAPPED)
    folder.write(
        "shop.yaml",
        """
        suite: {name: shop, agent: "agent:answer", config: {isolation: process}}
        scenarios:
          - {name: a, input: hi, mocks: {lookup_order: {returns: 1}}}
        """,
    )
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 1
    assert "Tool 'send_email' was called but no mock is defined" in ended.out
    assert not folder.exists("sent.txt")


def test_without_mocks_real_tools_run_and_every_report_lists_them(folder: Folder) -> None:
    write(folder, WRAPPED, "trials: 3, expected_tools: [send_email]")
    ended = folder.seatrial("run", "shop.yaml", "--report", "markdown=out.md", "--report", "json=out.json")
    assert ended.code == 0, ended.out
    note = "real tools ran: lookup_order 3 times, send_email 3 times"
    assert f"note: {note}" in ended.out
    assert f"note: {note}" in folder.seatrial("show", "latest").out
    assert folder.results()["notes"] == [note]
    assert "real tools ran: lookup\\_order 3 times" in (folder.path / "out.md").read_text()
    assert folder.exists("sent.txt")


def test_passthrough_beside_mocks_lists_only_the_real_tools(folder: Folder) -> None:
    write(folder, WRAPPED, "mocks: {lookup_order: {returns: 1}}, unmocked_tools: passthrough")
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 0, ended.out
    assert "note: real tools ran: send_email 1 time\n" in ended.out
    calls = folder.results()["scenarios"][0]["trials"][0]["turns"][0]["tool_calls"]
    assert [(call["name"], call["real"]) for call in calls] == [("lookup_order", False), ("send_email", True)]


def test_a_tool_of_a_framework_without_a_mock_never_runs_beside_mocks(folder: Folder) -> None:
    write(folder, FRAMEWORK, "mocks: {lookup_order: {returns: late}}", target="agent:sender")
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 1
    assert "ERROR tool: Tool 'send_email' was called but no mock is defined" in ended.out
    assert "the real tool ran" not in ended.out


# Names that the agent is known not to have


@pytest.mark.parametrize(
    ("scenario", "key"),
    [
        ("mocks: {lookup_ordr: {returns: 1}}", "mocks"),
        ("expected_tools: [lookup_ordr]", "expected_tools"),
        ("expected_tool_args: {lookup_ordr: {order_id: a}}", "expected_tool_args"),
        ("expect: {tool_calls_include: [lookup_ordr]}", "tool_calls_include"),
        ("expect: {tool_calls_exclude: [lookup_ordr]}", "tool_calls_exclude"),
        ("expect: {tool_calls_args: [{tool: lookup_ordr, args: {order_id: a}}]}", "tool_calls_args"),
        ("trajectory: {expected: [{any_of: [send_email, lookup_ordr]}]}", "trajectory.expected"),
        ("trajectory: {expected: [lookup_order], forbidden: [lookup_ordr]}", "trajectory.forbidden"),
        ("scorers: [{tool_calls: {must_exclude: [lookup_ordr]}}]", "must_exclude"),
    ],
)
def test_a_tool_that_the_agent_does_not_have_is_refused_before_the_first_trial(
    folder: Folder, scenario: str, key: str
) -> None:
    write(folder, FRAMEWORK, scenario, target="agent:agent")
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 2, ended.out
    place = f"shop.yaml:3: scenario 'a': {key}: the agent has no tool 'lookup_ordr'"
    assert f"{place}. Did you mean 'lookup_order'? It has: lookup_order, send_email." in ended.err
    assert not folder.exists(".seatrial/runs.db")


def test_a_tool_that_only_a_nested_agent_has_is_named_under_tools(folder: Folder) -> None:
    write(folder, FRAMEWORK, "expect: {tool_calls_exclude: [charge]}, tools: [{name: charge}]", target="agent:agent")
    assert folder.seatrial("run", "shop.yaml").code == 0


def test_with_several_agents_a_tool_of_one_of_them_is_known(folder: Folder) -> None:
    folder.write("agent.py", FRAMEWORK)
    folder.write(
        "shop.yaml",
        """
        suite: {name: shop, agents: {one: "agent:agent", two: "agent:other"}}
        scenarios:
          - {name: a, input: hi, expect: {tool_calls_exclude: [send_email]}}
          - {name: b, input: hi, expect: {tool_calls_exclude: [send_mail]}}
        """,
    )
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 2
    assert (
        "scenario 'b': tool_calls_exclude: the agent has no tool 'send_mail'. Did you mean 'send_email'?" in ended.err
    )
    assert "scenario 'a'" not in ended.err


def test_a_name_that_is_not_offered_to_an_endpoint_is_refused(folder: Folder) -> None:
    folder.write(
        "shop.yaml",
        """
        suite: {name: shop, agent: {type: openai, base_url: "http://127.0.0.1:9/v1"}}
        scenarios:
          - name: a
            input: hi
            tools: [{name: lookup_order}]
            mocks: {lookup_order: {returns: 1}, refund: {returns: 1}}
            expect: {tool_calls_exclude: [refund, lookup_ordr]}
        """,
    )
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 2
    assert ended.err.count("the agent has no tool") == 1
    assert "the agent has no tool 'lookup_ordr'. Did you mean 'lookup_order'?" in ended.err


def test_under_pytest_such_a_name_is_an_error_of_the_test(folder: Folder) -> None:
    write(folder, FRAMEWORK, "expect: {tool_calls_exclude: [send_mail]}", target="agent:agent")
    (folder.path / "shop.yaml").rename(folder.path / "shop.trial.yaml")
    ended = run_pytest(folder.path)
    assert "the agent has no tool 'send_mail'. Did you mean 'send_email'?" in ended
    assert "1 passed" not in ended


def run_pytest(path: Path) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=path, capture_output=True, text=True, timeout=120, check=False).stdout


# Names that are like those of tools that were called


@pytest.mark.parametrize(
    "scenario",
    [
        "mocks: {lookup_order: {returns: 1}}, expect: {tool_calls_exclude: [lookup_ordr]}",
        "mocks: {lookup_order: {returns: 1}}, trajectory: {forbidden: [lookup_ordr]}",
    ],
)
def test_a_forbidden_name_like_one_that_was_called_is_noted_by_every_report(folder: Folder, scenario: str) -> None:
    write(folder, CTX, f"trials: 2, {scenario}")
    ended = folder.seatrial("run", "shop.yaml", "--report", "markdown=out.md")
    assert f"note: {NOTE}" in ended.out
    assert f"note: {NOTE}" in folder.seatrial("show", "latest").out
    assert folder.results()["notes"] == [NOTE]
    assert "never called in 2 trials" in (folder.path / "out.md").read_text()


def test_a_mock_like_a_tool_that_was_called_is_noted(folder: Folder) -> None:
    write(folder, WRAPPED, "trials: 2, mocks: {lookup_ordr: {returns: 1}}, unmocked_tools: passthrough")
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 0, "a note does not change the verdict"
    assert f"note: {NOTE}" in ended.out


def test_the_note_is_part_of_what_the_python_api_returns() -> None:
    def answer(ctx: Any) -> str:
        return str(ctx.call_tool("lookup_order"))

    asked = Scenario(
        name="a",
        input="hi",
        mocks={"lookup_order": {"returns": 1}},
        trials=2,
        expect={"tool_calls_exclude": ["lookup_ordr"]},
    )
    assert seatrial.run(asked, agent=answer, store=None).outcome.notes == (NOTE,)


def test_under_pytest_the_note_stands_in_the_summary(folder: Folder) -> None:
    write(folder, CTX, "trials: 2, mocks: {lookup_order: {returns: 1}}, expect: {tool_calls_exclude: [lookup_ordr]}")
    (folder.path / "shop.yaml").rename(folder.path / "shop.trial.yaml")
    assert f"note: {NOTE}" in run_pytest(folder.path)


@pytest.mark.parametrize(
    "scenario",
    [
        "mocks: {lookup_order: {returns: 1}}, expect: {tool_calls_exclude: [delete_order, send_email]}",
        "mocks: {lookup_order: {returns: 1}, lookup_orders: {returns: []}}",
        "mocks: {lookup_order: {returns: 1}, lookup_orders: {returns: 1}}, trajectory: {forbidden: [lookup_orders]}",
        "mocks: {lookup_order: {returns: 1}}, tools: [{name: lookups_order}], trajectory: {forbidden: [lookups_order]}",
    ],
)
def test_a_tool_that_was_simply_not_called_is_not_noted(folder: Folder, scenario: str) -> None:
    write(folder, CTX, scenario)
    folder.seatrial("run", "shop.yaml")
    assert folder.results()["notes"] == []


# Objects of frameworks without a type


def test_an_object_of_a_framework_needs_no_type(folder: Folder) -> None:
    write(folder, FRAMEWORK, "mocks: {lookup_order: {returns: late}}, expected_output: late", target="agent:agent")
    assert folder.seatrial("run", "shop.yaml").code == 0


def test_a_function_that_makes_such_an_object_is_told_the_type_to_write(folder: Folder) -> None:
    write(folder, FRAMEWORK, "expected_output: late", target="agent:make")
    ended = folder.seatrial("run", "shop.yaml")
    assert ended.code == 1
    assert "write the agent as {type: pydantic_ai, target: agent:make}" in ended.out


# Scenarios that ask for no more than a reply


def test_a_scenario_with_only_an_input_says_that_a_reply_was_checked(folder: Folder) -> None:
    folder.write("agent.py", "def answer(input):\n    return input")
    folder.write(
        "shop.yaml",
        """
        suite: {name: shop, agent: "agent:answer"}
        scenarios:
          - {name: a, input: hi}
          - {name: b, input: hi, expected_output: hi}
        """,
    )
    ended = folder.seatrial("run", "shop.yaml", "-v")
    assert ended.code == 0
    assert ended.out.count("checked: a reply") == 1
    assert [each["trials"][0]["checked"] for each in folder.results()["scenarios"]] == ["a reply", None]
