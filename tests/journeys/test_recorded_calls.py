"""Record real tools once; later runs answer from the file."""

import json
from typing import Any

import pytest
import yaml

AGENT = """
    import os, pathlib
    import seatrial

    @seatrial.tool
    def lookup_order(order_id: str, note: str = "") -> dict:
        with open("real_calls.txt", "a") as log:
            log.write(f"lookup_order {order_id}\\n")
        if order_id == "W9":
            raise ValueError("no such order")
        return {"status": pathlib.Path("status.txt").read_text().strip(), "key": os.environ.get("SHOP_API_KEY")}

    @seatrial.tool
    def queue_place() -> int:
        places = pathlib.Path("places.txt")
        left = int(places.read_text())
        places.write_text(str(left - 1))
        return left

    def answer(input):
        if input == "queue":
            return f"{queue_place()} then {queue_place()}"
        try:
            return f"It is {lookup_order(input)['status']}."
        except Exception as error:
            return f"Sorry: {error}"
"""
SUITE = """
    suite: {{agent: "agent:answer", config: {{{config}}}}}
    scenarios:
      - {{name: finds it, input: W1, expected_output: shipped}}
      - {{name: refuses, input: W9, expected_output: no such order}}
      - {{name: waits, input: queue, expected_output: 5 then 4}}
"""
SECRET = "sk-live-0123456789abcdef"


@pytest.fixture
def shop(folder: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    folder.write("agent.py", AGENT)
    folder.write("suite.yaml", SUITE.format(config=""))
    folder.write("status.txt", "shipped")
    folder.write("places.txt", "5")
    return folder


def recorded(shop: Any) -> Any:
    ended = shop.seatrial("run", "suite.yaml", "--record", "calls.yaml", "--set", "concurrency=1")
    assert (ended.code, "recorded 3 calls in calls.yaml\n" in ended.err) == (0, True), ended
    shop.write("suite.yaml", SUITE.format(config="mocks_from: calls.yaml"))
    (shop.path / "real_calls.txt").unlink()
    (shop.path / "places.txt").unlink()
    return shop


def test_recorded_calls_answer_instead_of_the_real_tools_with_the_same_verdicts(shop: Any) -> None:
    ended = recorded(shop).seatrial("run", "suite.yaml", "--trials", "2")
    assert ended.code == 0, ended.out
    assert not (shop.path / "real_calls.txt").exists()


def test_after_the_prompt_is_edited_the_same_calls_are_answered_from_the_file(shop: Any) -> None:
    shop.write(
        "prompted.py",
        """
        import agent

        def answer(messages):
            return f"{messages[0]['content']}: {agent.answer(messages[-1]['content'])}"
        """,
    )
    scenario = {"name": "is polite", "input": "W1", "expected_output": "Dear customer: It is shipped"}
    rude = {"name": "is rude", "input": "W1", "expected_output": "Go away"}

    def write(prompt: str, **config: str) -> None:
        suite = {"agent": "prompted:answer", "config": {"system": prompt, **config}}
        shop.write("prompted.yaml", json.dumps({"suite": suite, "scenarios": [scenario, rude]}))

    write("Dear customer")
    first = shop.seatrial("run", "prompted.yaml", "--record", "calls.yaml")
    (shop.path / "real_calls.txt").unlink()
    write("Hello and Dear customer", mocks_from="calls.yaml")
    second = shop.seatrial("run", "prompted.yaml")
    for ended in (first, second):
        assert ("✓ is polite" in ended.out, "✗ is rude" in ended.out) == (True, True), ended
    assert not (shop.path / "real_calls.txt").exists()


def test_a_recording_is_readable_with_date_schema_and_sequence_and_without_secrets(shop: Any) -> None:
    recorded(shop)
    text = (shop.path / "calls.yaml").read_text()
    assert SECRET not in text
    tools = yaml.safe_load(text)["tools"]
    assert tools["lookup_order"]["calls"] == [
        {"args": {"order_id": "W1"}, "returns": {"status": "shipped", "key": "[redacted]"}},
        {"args": {"order_id": "W9"}, "raises": "ValueError: no such order"},
    ]
    assert tools["lookup_order"]["schema"] == {
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "note": {"type": "string"}},
        "required": ["order_id"],
    }
    assert len(tools["lookup_order"]["recorded"]) == len("2026-05-01")
    assert tools["queue_place"]["calls"] == [{"args": {}, "sequence": [{"returns": 5}, {"returns": 4}]}]


def test_a_call_that_is_not_recorded_is_errored_with_the_nearest_one(shop: Any) -> None:
    recorded(shop)
    shop.write(
        "other.yaml",
        """
        suite: {agent: "agent:answer", config: {mocks_from: calls.yaml}}
        scenarios: [{name: new, input: W12}]
        """,
    )
    ended = shop.seatrial("run", "other.yaml")
    assert ended.code == 1
    assert (
        """Tool 'lookup_order' was called with {"order_id": "W12"}, which is not recorded in calls.yaml""" in ended.out
    )
    assert """the nearest recorded call is lookup_order({"order_id": "W1"})""" in ended.out


def test_an_edited_recording_changes_the_answer_and_the_fingerprint(shop: Any) -> None:
    recorded(shop)
    assert shop.seatrial("run", "suite.yaml", "--scenario", "finds").code == 0
    file = shop.path / "calls.yaml"
    file.write_text(file.read_text().replace("status: shipped", "status: cancelled"))
    ended = shop.seatrial("run", "suite.yaml", "--scenario", "finds")
    assert ended.code == 1
    assert "It is cancelled." in ended.out


def test_a_tool_without_a_recording_never_runs_for_real(shop: Any) -> None:
    recorded(shop)
    file = shop.path / "calls.yaml"
    document = yaml.safe_load(file.read_text())
    del document["tools"]["lookup_order"]
    file.write_text(yaml.safe_dump(document))
    ended = shop.seatrial("run", "suite.yaml", "--scenario", "finds")
    assert (ended.code, "Tool 'lookup_order' was called but no mock is defined" in ended.out) == (1, True)
    assert not (shop.path / "real_calls.txt").exists()


def test_recording_again_keeps_the_calls_that_were_not_made_again(shop: Any) -> None:
    recorded(shop)
    shop.write("status.txt", "delivered")
    ended = shop.seatrial("run", "suite.yaml", "--record", "calls.yaml", "--scenario", "finds")
    assert "recorded 1 call in calls.yaml" in ended.err
    calls = yaml.safe_load((shop.path / "calls.yaml").read_text())["tools"]["lookup_order"]["calls"]
    assert [(call["args"], call.get("returns", {}).get("status")) for call in calls] == [
        ({"order_id": "W9"}, None),
        ({"order_id": "W1"}, "delivered"),
    ]


def test_verify_mocks_lists_what_the_real_tools_answer_differently(shop: Any) -> None:
    recorded(shop)
    shop.write("places.txt", "5")
    same = shop.seatrial("run", "suite.yaml", "--verify-mocks")
    assert (same.code, same.out) == (0, "3 calls checked, 0 differences\n")
    assert same.err == "calling real tools again: 3 calls\n"
    shop.write("places.txt", "1")
    drifted = shop.seatrial("run", "suite.yaml", "--verify-mocks")
    assert drifted.code == 1
    assert drifted.out == (
        "✗ queue_place({})\n    recorded: returns 4\n    now:      returns 1\n3 calls checked, 1 difference\n"
    )


def test_verify_mocks_never_passes_without_a_check(shop: Any) -> None:
    assert "no scenario has `mocks_from`" in shop.seatrial("run", "suite.yaml", "--verify-mocks").err
    recorded(shop)
    shop.write("agent.py", "def answer(input): return 'It is shipped.'")
    ended = shop.process("run", "suite.yaml", "--verify-mocks")
    assert (ended.code, "lookup_order: cannot be called again" in ended.out) == (1, True)


def test_nothing_recorded_is_an_error(shop: Any) -> None:
    mocks = "mocks: {lookup_order: {returns: {status: shipped}}}"
    shop.write("suite.yaml", f"suite: {{agent: 'agent:answer'}}\nscenarios: [{{name: x, input: W1, {mocks}}}]")
    ended = shop.seatrial("run", "suite.yaml", "--record", "calls.yaml")
    assert (ended.code, "no real tool ran, so nothing was recorded" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot be read: No such file or directory. Record it: seatrial run --record"),
        ("[1]", "calls.yaml: expected a mapping with `tools`"),
        ("tools: {a: {calls: [{args: {}}]}}", "tools.a.calls[0]: expected one of `returns`, `raises` and `sequence`"),
        ("tools: {a: {calls: [{return: 1, raises: x}]}}", "tools.a.calls[0]: unknown key 'return'"),
        ("tools: {a: {calls: [{sequence: []}]}}", "tools.a.calls[0]: sequence: expected a list of answers"),
        ("tools: {", "calls.yaml: is not YAML"),
    ],
)
def test_a_broken_recording_is_refused_before_the_first_trial(shop: Any, text: str | None, problem: str) -> None:
    shop.write("suite.yaml", SUITE.format(config="mocks_from: calls.yaml"))
    if text is not None:
        shop.write("calls.yaml", text)
    ended = shop.seatrial("run", "suite.yaml")
    assert ended.code == 2
    assert problem in ended.err
