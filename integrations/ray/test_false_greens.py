"""Agents that plainly misbehave are no greener on a Ray cluster than on one machine."""

from typing import Any

import pytest

AGENT = """
    def invents(input, ctx):
        if int(ctx.trial_id.rpartition("-")[2]) % 2: return "It is shipped."
        return f"It is {ctx.call_tool('lookup', order='1')}."
    def calls_unmocked(input, ctx): return ctx.call_tool("send_email")
    def through_ctx(input, ctx): return ctx.call_tool("lookup", order="1")
    def user_message(input): return {"role": "user", "content": "shipped"}
    def invisible(input): return "\\u200b\\u200b"
    def a_row(input): return "a" * 40 + "!"
"""
MOCKS = {"lookup": {"returns": "shipped"}}
CASES = [
    ("invents", {"trials": "auto", "expected_tools": ["lookup"], "mocks": MOCKS}, "failed", None),
    ("calls_unmocked", {"mocks": MOCKS}, "errored", "tool"),
    ("through_ctx", {"expect": {"tool_calls_exclude": ["refund"]}, "mocks": MOCKS}, "errored", "config"),
    ("user_message", {}, "errored", "agent"),
    ("invisible", {}, "failed", None),
    ("a_row", {"scorers": [{"regex": "^(a+)+$"}]}, "errored", "evaluator"),
]


@pytest.mark.parametrize(("agent", "keys", "status", "kind"), CASES, ids=[case[0] for case in CASES])
def test_a_false_green_is_none_on_ray(
    project: Any, agent: str, keys: dict[str, Any], status: str, kind: str | None
) -> None:
    project.write("agent.py", AGENT)
    project.suite([{"name": "s", "input": "hi", **keys}], agent=f"agent:{agent}")
    ended = project.on_ray()
    assert ended.returncode == 1, ended.stdout + ended.stderr
    trials = [line["trial"] for line in project.stored() if "trial" in line]
    bad = [trial for trial in trials if trial["status"] != "passed"]
    assert {(trial["status"], (trial.get("error") or {}).get("kind")) for trial in bad} == {(status, kind)}
