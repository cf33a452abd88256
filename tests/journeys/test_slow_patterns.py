"""Patterns that would match for ever: an error of the evaluator that names the pattern, and never a run that hangs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AGENT = """
    import json, sys

    LETTERS = "a" * 41 + "!"

    def letters(input):
        print("answered", file=sys.stderr, flush=True)
        return LETTERS

    def digits(input): return "1" * 41
    def document(input): return json.dumps({"x": LETTERS})
    def key(input): return json.dumps({LETTERS: 1})

    def calls(input, ctx):
        try: ctx.call_tool("look", {"q": LETTERS})
        except Exception: pass
        return "done"
"""
NESTED = "^(a+)+$"
LOOK = {"name": "look", "args": {"q": {"$regex": NESTED}}}


def write(folder: Any, scenario: dict[str, Any], *, agent: str = "letters") -> None:
    folder.write("agent.py", AGENT)
    given = scenario if "turns" in scenario else {"input": "go", **scenario}
    suite = {"suite": {"agent": f"agent:{agent}"}, "scenarios": [{"name": "one", **given}]}
    folder.write("suite.yaml", json.dumps(suite))


def errors_of(folder: Any) -> set[tuple[str, str]]:
    """(kind, message) of what errored in the last run."""
    trials = [trial for scenario in folder.results()["scenarios"] for trial in scenario["trials"]]
    errors = [each["error"] for trial in trials for each in (trial, *trial["results"]) if each["error"]]
    return {(error["kind"], error["message"]) for error in errors}


@pytest.mark.parametrize(
    ("pattern", "agent"),
    [(NESTED, "letters"), ("(a|a)*$", "letters"), ("(.*)*x", "letters"), (r"(\d+)*-", "digits")],
)
def test_a_pattern_that_never_ends_is_an_error_of_the_evaluator(folder: Any, pattern: str, agent: str) -> None:
    write(folder, {"scorers": [{"regex": pattern}]}, agent=agent)

    ended = folder.process("run", "suite.yaml")

    assert ended.code == 1
    message = f"evaluator 'regex': matching the pattern {pattern!r} took longer than 1 s"
    assert errors_of(folder) == {("evaluator", message)}
    assert message in ended.out


WHEREVER: dict[str, tuple[str, dict[str, Any]]] = {
    "metadata": ("letters", {"scorers": ["regex"], "metadata": {"regex_pattern": NESTED}}),
    "matches_any": ("letters", {"turns": [{"user": "go", "expect": {"reply_matches_any": [NESTED]}}]}),
    "matches_all": ("letters", {"turns": [{"user": "go", "expect": {"reply_matches_all": [NESTED]}}]}),
    "arguments": ("calls", {"mocks": {"look": {"returns": 1}}, "trajectory": {"expected": [LOOK]}}),
    "mock": ("calls", {"mocks": {"look": {"when": [{"args": LOOK["args"], "returns": 1}], "returns": 2}}}),
    "schema": ("document", {"scorers": [{"json_schema": {"schema": {"properties": {"x": {"pattern": NESTED}}}}}]}),
    "schema of keys": (
        "key",
        {
            "scorers": [
                {
                    "json_schema": {
                        "schema": {
                            "$schema": "https://json-schema.org/draft/2020-12/schema",
                            "additionalProperties": False,
                            "patternProperties": {NESTED: True},
                        }
                    }
                }
            ]
        },
    ),
    "tool": (
        "calls",
        {
            "mocks": {"look": {"returns": 1}},
            "tools": [{"name": "look", "parameters": {"properties": {"q": {"type": "string", "pattern": NESTED}}}}],
        },
    ),
}


@pytest.mark.parametrize("where", WHEREVER)
def test_the_limit_holds_for_every_pattern_of_a_suite(folder: Any, where: str) -> None:
    agent, scenario = WHEREVER[where]
    write(folder, scenario, agent=agent)

    ended = folder.process("run", "suite.yaml")

    assert ended.code == 1, ended.err
    ((kind, message),) = errors_of(folder)
    assert kind == "evaluator"
    assert f"matching the pattern {NESTED!r} took longer than 1 s" in message


def test_a_regrade_has_the_limit(folder: Any) -> None:
    write(folder, {})
    assert folder.process("run", "suite.yaml").code == 0
    write(folder, {"scorers": [{"regex": NESTED}]})

    assert folder.process("regrade", "latest").code == 1
    ((kind, message),) = errors_of(folder)
    assert kind == "evaluator"
    assert repr(NESTED) in message


def test_pytest_has_the_limit(folder: Any) -> None:
    write(folder, {"scorers": [{"regex": NESTED}]})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "suite.trial.yaml"]
    Path("suite.yaml").rename("suite.trial.yaml")

    ended = subprocess.run(command, cwd=folder.path, capture_output=True, text=True, timeout=60)

    assert ended.returncode == 1
    assert f"matching the pattern {NESTED!r} took longer than 1 s" in ended.stdout


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_run_is_interrupted_while_it_matches(folder: Any, sent: signal.Signals) -> None:
    write(folder, {"scorers": [{"regex": NESTED}], "trials": 100})
    with folder.start("run", "suite.yaml", "--concurrency", "100") as process:
        assert any(line.strip() == "answered" for line in process.stderr)
        process.send_signal(sent)
        # To match the replies of all 100 trials would take 100 s.
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert "interrupted" in out


FORKS = """
    import os
    from seatrial.patterns import search

    slow = ("(x|xy)*z", "xyz")
    assert search(*slow) == (0, 3)
    child = os.fork()
    answers = [search(*slow) for _ in range(50)]
    if child == 0:
        os._exit(answers != [(0, 3)] * 50)
    assert answers == [(0, 3)] * 50
    _, status = os.waitpid(child, 0)
    print("the child ended with", os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_matches_in_a_process_of_its_own(folder: Any) -> None:
    file = folder.write("forks.py", FORKS)

    ended = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=60)

    assert (ended.stdout, ended.stderr) == ("the child ended with 0\n", "")
