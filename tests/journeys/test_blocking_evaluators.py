"""An evaluator or a hook that blocks holds the runner up. Agents that answer meanwhile have answered in time."""

from typing import Any

import pytest

AGENT = """
    import pathlib, time

    def wait_for(name):
        while not pathlib.Path(name).exists():
            time.sleep(0.01)

    def answer(input):
        if input == "slow":
            pathlib.Path("asked").touch()
            wait_for("held")
        wait_for("asked")
        return "ok"
"""
PROGRAM = """
    import json, sys
    from agent import answer

    for line in sys.stdin:
        print(json.dumps({"type": "reply", "content": answer(json.loads(line)["input"])}), flush=True)
"""
CHECKS = """
    import pathlib, time
    from seatrial import evaluator

    @evaluator
    def blocks(ctx):
        pathlib.Path("held").touch()
        time.sleep(2.5)  # longer than agents have
        return True
"""
SUITE = """
    suite:
      agent: {agent}
      evaluators: [checks]
      config: {{timeout_seconds: 2, isolation: {isolation}}}
    scenarios:
      - {{name: held up, input: fast, scorers: [blocks]}}
      - {{name: answers in time, input: slow, expected_output: ok}}
"""


@pytest.mark.parametrize(
    ("agent", "isolation"),
    [
        ("agent:answer", "thread"),
        ("agent:answer", "process"),
        ("{type: command, argv: [python, program.py]}", "thread"),
    ],
    ids=["thread", "process", "command"],
)
def test_an_answer_that_could_not_be_heard_is_in_time(folder: Any, agent: str, isolation: str) -> None:
    folder.write("agent.py", AGENT)
    folder.write("program.py", PROGRAM)
    folder.write("checks.py", CHECKS)
    folder.write("suite.yaml", SUITE.format(agent=agent, isolation=isolation))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 0, ended.out


@pytest.mark.parametrize("agent", ["agent:answer", "{type: command, argv: [python, program.py]}"])
def test_an_agent_that_does_not_answer_at_all_is_not_waited_for(folder: Any, agent: str) -> None:
    folder.write("agent.py", AGENT)
    folder.write("program.py", PROGRAM)
    folder.write("checks.py", CHECKS.replace('pathlib.Path("held").touch()', ""))
    folder.write("suite.yaml", SUITE.format(agent=agent, isolation="thread"))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "ERROR limit: the agent did not answer within 2 s" in ended.out
