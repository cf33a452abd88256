"""The first minute: init, run, list, show."""

import json
import re
from typing import Any

import pytest


def test_what_init_writes_passes_at_once(folder: Any) -> None:
    begun = folder.process("init")
    ended = folder.process("run")

    assert begun.code == 0
    assert "seatrial run" in begun.out
    assert ended.code == 0, ended.out
    assert "3/3 scenarios passed\nPASS\n" in ended.out


def test_init_makes_the_folder_and_says_how_to_get_there(folder: Any) -> None:
    ended = folder.seatrial("init", "trials/shop")

    assert ended.code == 0
    assert "wrote trials/shop/agent.py\nwrote trials/shop/scenarios/first.yaml\n" in ended.out
    assert "cd trials/shop\n" in ended.out


def test_init_overwrites_nothing(folder: Any) -> None:
    folder.write("agent.py", "mine")

    ended = folder.seatrial("init")

    assert ended.code == 2
    assert "agent.py is there already. Nothing was written" in ended.err
    assert (folder.path / "agent.py").read_text() == "mine"
    assert not folder.exists("scenarios")


def test_init_overwrites_by_force(folder: Any) -> None:
    folder.write("agent.py", "mine")

    assert folder.seatrial("init", "--force").code == 0
    assert "def answer(messages)" in (folder.path / "agent.py").read_text()


def test_what_init_wrote_is_valid_and_listed(folder: Any) -> None:
    folder.seatrial("init")

    assert folder.seatrial("validate").out == "scenarios/first.yaml: ok, 3 scenarios\n"
    lines = folder.seatrial("list").out.splitlines()
    assert [re.split(r"  +", line) for line in lines] == [
        ["suite", "scenario", "kind", "trials", "tags"],
        ["first", "explains the return policy", "input", "1", "policy"],
        ["first", "looks up the order", "input", "1", "tools"],
        ["first", "stays polite after the answer", "2 turns", "3"],
    ]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--tag", "tools"], ["looks up the order"]),
        (["--scenario", "RETURN"], ["explains the return policy"]),
        (["--tag", "tools", "--tag", "policy"], ["explains the return policy", "looks up the order"]),
    ],
)
def test_list_takes_the_filters_of_run(folder: Any, flags: list[str], names: list[str]) -> None:
    folder.seatrial("init")

    listed = json.loads(folder.seatrial("list", "--json", *flags).out)

    assert [one["scenario"] for one in listed] == names


def test_list_of_nothing_is_a_mistake(folder: Any) -> None:
    folder.seatrial("init")

    ended = folder.seatrial("list", "--tag", "nope")

    assert (ended.code, ended.out) == (2, "")
    assert "no scenario matches --tag 'nope'" in ended.err


def test_list_needs_no_agent_and_no_secret(folder: Any) -> None:
    folder.write(
        "suite.yaml",
        """
        suite: {agent: {type: openai, base_url: "${NOT_SET}"}}
        scenarios: [{name: a, input: x, skip: later}]
        """,
    )

    ended = folder.seatrial("list", "suite.yaml")

    assert ended.code == 0
    assert "(skip: later)" in ended.out


def test_runs_are_listed_newest_first(folder: Any) -> None:
    folder.seatrial("init")
    folder.seatrial("run", "--name", "before")
    folder.seatrial("run", "--name", "after", "--set", "timeout_seconds=5", "--agent", "agent:ORDERS.get")

    runs = json.loads(folder.seatrial("list", "runs", "--json").out)
    newest = json.loads(folder.seatrial("list", "runs", "--json", "--limit", "1").out)
    table = folder.seatrial("list", "runs").out.splitlines()

    assert [run["name"] for run in runs][-1] == "before"
    assert newest == runs[:1]
    assert re.split(r"  +", table[0]) == ["id", "name", "when", "passed", "verdict", "state"]
    assert re.split(r"  +", table[-1])[-3:] == ["5/5 trials", "passed", "finished"]


@pytest.mark.parametrize("args", [["list", "runs"], ["show"], ["run", "--failed"]])
def test_looking_into_a_store_that_is_not_there_makes_none(folder: Any, args: list[str]) -> None:
    folder.seatrial("init")

    ended = folder.seatrial(*args)

    assert ended.code == 2
    assert ".seatrial/runs.db: no run is stored there yet. Run something first: seatrial run" in ended.err
    assert not folder.exists(".seatrial")


BROKEN = """
    from seatrial import AgentResult
    def answer(messages): return AgentResult("Order ORD-789 was shipped.", tool_calls=[])
"""


@pytest.fixture
def broken(folder: Any) -> Any:
    """A folder in which the latest run failed."""
    folder.seatrial("init")
    folder.write("broken.py", BROKEN)
    assert folder.seatrial("run", "--agent", "broken:answer", "--name", "broken", "--report", "json=all.json").code == 1
    return folder


def test_show_prints_the_run_again(broken: Any) -> None:
    shown = broken.seatrial("show")

    assert shown.code == 0, "show has shown it, whatever it shows"
    assert "✗ looks up the order  (1 turn)" in shown.out
    assert "FAIL: 3 scenarios failed" in shown.out
    assert shown.out == broken.seatrial("show", "latest").out == broken.seatrial("show", "broken").out


def test_show_of_a_scenario_has_the_conversations_that_failed(broken: Any) -> None:
    shown = broken.seatrial("show", "latest", "looks up")

    assert "user: What is the status of order ORD-789?" in shown.out
    assert "agent: Order ORD-789 was shipped." in shown.out
    assert "Expected tools called: FAIL (missing: lookup_order)." in shown.out


def test_show_of_a_trial_has_that_trial_alone(broken: Any) -> None:
    shown = broken.seatrial("show", "latest", "stays polite after the answer", "2")

    assert "trial-2" in shown.out
    assert "trial-1" not in shown.out
    assert "user: Thank you!" in shown.out


def test_show_verbose_has_everything(broken: Any) -> None:
    assert "user: Thank you!" in broken.seatrial("show", "--verbose").out


def test_show_for_programs_has_the_form_of_results_json(broken: Any) -> None:
    whole = json.loads(broken.seatrial("show", "--json").out)
    scenario = json.loads(broken.seatrial("show", "latest", "stays", "--json").out)
    trial = json.loads(broken.seatrial("show", "latest", "stays", "trial-2", "--json").out)

    broken.seatrial("run", "--report", "json")
    written = json.loads((broken.path / ".seatrial" / "results.json").read_text("utf-8"))
    assert whole.keys() == written.keys()
    assert [one.keys() for one in whole["scenarios"]] == [one.keys() for one in written["scenarios"]]
    assert scenario == whole["scenarios"][2]
    assert trial == scenario["trials"][1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["brokne"], "no run has the id or name 'brokne'. Did you mean 'broken'?"),
        (["looks up the order"], "is not a run, but a scenario of the latest run. Try: seatrial show latest"),
        (["latest", "looks up the ordre"], "has no scenario 'looks up the ordre'. Did you mean 'looks up the order'?"),
        (["latest", "the"], "'the' matches several scenarios: 'explains the return policy', 'looks up the order'"),
        (["latest", "looks", "2"], "scenario 'looks up the order': has no trial '2'. There are: trial-1."),
    ],
)
def test_show_of_what_is_not_there_says_what_is(broken: Any, args: list[str], said: str) -> None:
    ended = broken.seatrial("show", *args)

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
