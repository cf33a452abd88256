"""Suites that look as if they asked for something, and would have passed whatever the agent did."""

import json
from typing import Any

import pytest

from seatrial import AgentResult, Contains, Scenario, ToolCall, UsageError, run

MINE = """
    from seatrial import evaluator

    @evaluator
    def mine(ctx): return "sorry" not in ctx.reply
"""


def write_suite(folder: Any, scenario: dict[str, Any], **suite: Any) -> None:
    content = {"suite": {"name": "shop", "agent": "agent:answer", **suite}, "scenarios": [{"name": "one", **scenario}]}
    folder.write("suite.yaml", json.dumps(content))


@pytest.mark.parametrize(
    "scorer",
    [{"regex": "x?"}, {"contains": {"none_of": ["sorry"]}}, {"limits": {"turns": 1}}, "mine"],
    ids=["regex", "contains", "limits", "mine"],
)
def test_an_empty_reply_fails_whatever_the_scorers_ask_for(folder: Any, scorer: Any) -> None:
    folder.write("agent.py", "def answer(input): return ' '")
    folder.write("checks.py", MINE)
    write_suite(folder, {"input": "Hello?", "scorers": [scorer]}, evaluators=["checks"])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "turn 1: empty reply" in ended.out


def test_an_empty_reply_that_exact_asks_for_passes(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return ''")
    write_suite(folder, {"input": "Say nothing.", "expected_output": "", "scorers": ["exact"]})

    assert folder.seatrial("run", "suite.yaml").code == 0


@pytest.mark.parametrize(
    ("key", "most"), [("threshold", "1"), ("cases_pass_threshold", "100")], ids=["threshold", "cases_pass_threshold"]
)
def test_a_threshold_of_zero_is_refused_in_files_and_flags(folder: Any, key: str, most: str) -> None:
    folder.write("agent.py", "def answer(input): return 'hello'")
    write_suite(folder, {"input": "Hello?", "expected_output": "nine"}, config={key: 0})
    in_file = folder.seatrial("run", "suite.yaml")
    write_suite(folder, {"input": "Hello?", "expected_output": "nine"})
    by_set = folder.seatrial("run", "suite.yaml", "--set", f"{key}=0")

    said = f"{key}: expected a number above 0 and of at most {most}, got 0 (a number). 0 asks for nothing"
    for ended in (in_file, by_set):
        assert ended.code == 2
        assert said in ended.err
    assert in_file.err.startswith("error: suite.yaml:1:")


def test_a_flag_for_a_threshold_of_zero_is_refused(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'hello'")
    write_suite(folder, {"input": "Hello?", "expected_output": "nine"})

    ended = folder.seatrial("run", "suite.yaml", "--cases-pass-threshold", "0")

    assert ended.code == 2
    assert "cases_pass_threshold: expected a number above 0 and of at most 100, got 0" in ended.err


def test_a_group_of_a_suite_with_a_threshold_of_zero_is_refused(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'hello'")
    group = {"name": "fuzzy", "tags": ["x"], "threshold": 0}
    write_suite(folder, {"input": "Hello?", "tags": ["x"]}, groups=[group])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 2
    assert "groups[0].threshold: expected a number above 0 and of at most 1, got 0" in ended.err


def test_a_transcript_file_with_a_threshold_of_zero_is_refused(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'hello'")
    folder.write("old.yaml", "id: old\nthreshold: 0.0\nturns:\n  - user: hi\n    expect: {reply_contains_any: [ok]}\n")

    ended = folder.seatrial("run", "old.yaml", "--agent", "agent:answer")

    assert ended.code == 2
    assert "old.yaml:2:" in ended.err
    assert "threshold: expected a number above 0 and of at most 1, got 0" in ended.err


def test_python_refuses_a_threshold_of_zero() -> None:
    scenario = Scenario(name="one", input="Hello?", threshold=0.0)

    with pytest.raises(UsageError, match="threshold: expected a number above 0 and of at most 1, got 0"):
        run(scenario, agent=lambda input: "hello")


@pytest.mark.parametrize("reply", ["\u200b", " \u2060\n", "\ufeff\u200d", "\u00ad"])
def test_a_reply_of_invisible_characters_is_empty(folder: Any, reply: str) -> None:
    folder.write("agent.py", f"def answer(input): return {reply!r}")
    write_suite(folder, {"input": "Hello?"})

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "empty reply" in ended.out


@pytest.mark.parametrize("key", ["scorers", "expect"])
def test_an_evaluator_that_asks_for_tools_nobody_recorded_has_no_answer(folder: Any, key: str) -> None:
    """`expect` is that of a turn in Python, `scorers` that of a trial in a file."""
    folder.write("agent.py", "def answer(input): return 'I deleted it.'")
    folder.write(
        "checks.py",
        """
        from seatrial import Scenario, Turn, evaluator

        @evaluator
        def deletes_nothing(ctx): return "delete" not in ctx.tools_called
        """,
    )
    turn = 'Turn(user="Hello?", expect={"evaluators": [deletes_nothing]})'
    folder.write("one_trials.py", f"from checks import *\nONE = Scenario(name='one', turns=[{turn}])\n")
    write_suite(folder, {"input": "Hello?", "scorers": ["deletes_nothing"]}, evaluators=["checks"])

    file = "suite.yaml" if key == "scorers" else "one_trials.py"
    ended = folder.seatrial("run", file, "--agent", "agent:answer")

    assert ended.code == 1
    said = "ERROR config: evaluator 'deletes_nothing': tools_called: the agent's tool calls were not recorded"
    assert said in ended.out
    assert "return AgentResult(output, tool_calls=[...])" in ended.out


@pytest.mark.parametrize("scorer", ["function", "method"])
def test_an_evaluator_that_changes_a_call_changes_it_for_nobody_else(folder: Any, scorer: str) -> None:
    folder.write(
        "agent.py",
        """
        from seatrial import AgentResult, ToolCall

        def answer(input): return AgentResult("Done.", tool_calls=[ToolCall("refund", {"items": [{"amount": 900}]})])
        """,
    )
    folder.write(
        "checks.py",
        """
        from seatrial import EvalResult, evaluator

        @evaluator
        def function(ctx):
            ctx.tool_calls[0].arguments["items"][0]["amount"] = 5
            return True

        class Method:
            async def evaluate(self, ctx): return EvalResult(passed=function(ctx))
        """,
    )
    expected = {"refund": {"items": [{"amount": 5}]}}
    keys = {"input": "Refund 5.", "scorers": [scorer, "passfail"], "expected_tool_args": expected}
    write_suite(folder, keys, evaluators=["checks"])

    assert folder.seatrial("run", "suite.yaml").code == 1
    [trial] = folder.results()["scenarios"][0]["trials"]
    assert "amount': 900" in trial["failure_reasons"][0]


def test_a_report_is_as_true_as_its_run_passed(folder: Any) -> None:
    scenario = Scenario(name="one", input="Hello?", expected_output="hello")

    assert run([scenario], agent=lambda input: "hello")
    assert not run([scenario], agent=lambda input: "go away")


@pytest.mark.parametrize(("reply", "calls"), [("hello", ["look"]), ("go away", [])], ids=["passes", "fails"])
def test_trials_and_what_was_said_of_them_are_as_true_as_they_passed(reply: str, calls: list[str]) -> None:
    polite = Contains(any_of=["hello"])
    scenario = Scenario(
        name="one",
        input="Hello?",
        scorers=["passfail", polite],
        expected_output="hello",
        trajectory={"expected": [{"name": "look"}]},
    )
    report = run(scenario, agent=lambda input: (reply, calls), store=None)

    [trial] = report.trials()
    passed = reply == "hello"
    [match] = [result.trajectory for result in trial.results if result.trajectory is not None]
    assert (all(report.trials()), bool(match)) == (passed, passed)
    assert all(check for result in trial.results for check in result.checks) is passed


@pytest.mark.parametrize("store", [None, "runs.db"])
def test_trials_of_a_scenario_that_the_run_has_not_are_refused(folder: Any, store: str | None) -> None:
    """Else `all(... for trial in report.trials("greets"))` would hold."""
    scenarios = [
        Scenario(name="greet", input="Hello?"),
        Scenario(name="ask {it}", input="{it}?", examples=[{"it": "a"}, {"it": "b"}]),
    ]
    report = run(scenarios, agent=lambda input: "go away", store=store)

    with pytest.raises(UsageError, match=r"has no scenario 'greets'\. Did you mean 'greet'\? It has: greet, ask"):
        report.trials("greets")
    assert [trial.transcript.reply for trial in report.trials("greet")] == ["go away"]
    assert len(list(report.trials())) == 3


def test_a_result_that_does_not_tell_its_calls_is_no_proof_that_none_was_made() -> None:
    """Else `assert "cancel" not in agent("...").tools_called` would hold for every agent that records nothing."""
    with pytest.raises(ValueError, match="its tool_calls is None"):
        _ = AgentResult("Cancelled.").tools_called
    assert AgentResult("Hello.", []).tools_called == []
    calls = ["look", ToolCall("pay"), {"name": "send"}, {"function": {"name": "cancel", "arguments": "{}"}}]
    assert AgentResult("Done.", calls).tools_called == ["look", "pay", "send", "cancel"]


def test_an_evaluator_that_asks_another_hears_its_answer(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'go away'")
    folder.write(
        "checks.py",
        """
        from seatrial import Contains, evaluator

        @evaluator
        async def polite(ctx): return bool(await Contains(any_of=["please"]).evaluate(ctx))
        """,
    )
    write_suite(folder, {"input": "Hello?", "scorers": ["polite"]}, evaluators=["checks"])

    assert folder.seatrial("run", "suite.yaml").code == 1


@pytest.mark.filterwarnings("ignore:the tool 'cancel' was called in a thread:RuntimeWarning")
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_tool_in_a_thread_of_the_agents_own_is_no_proof_that_it_was_not_called(folder: Any, isolation: str) -> None:
    folder.write(
        "agent.py",
        """
        from concurrent.futures import ThreadPoolExecutor
        from seatrial import tool

        @tool
        def lookup(): return "found"

        @tool
        def cancel(): return "cancelled"

        def answer(input):
            with ThreadPoolExecutor() as pool:
                return lookup() + pool.submit(cancel).result()
        """,
    )
    write_suite(
        folder,
        {"input": "Hello?", "trajectory": {"forbidden": ["cancel"]}},
        config={"isolation": isolation},
        agent={"type": "python", "target": "agent:answer", "tools": "all_wrapped"},
    )

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "ERROR config: trajectory: only the calls that went through Seatrial are known" in ended.out


def test_an_agent_with_ctx_that_called_nothing_is_told_how_to_say_so(folder: Any) -> None:
    folder.write("agent.py", "def answer(input, ctx): return 'Hello.'")
    folder.write(
        "says_so.py", "from seatrial import AgentResult\ndef answer(input, ctx): return AgentResult('Hi.', [])"
    )
    write_suite(folder, {"input": "Hello?", "trajectory": {"forbidden": ["cancel"]}})

    silent, said = folder.seatrial("run"), folder.seatrial("run", "--agent", "says_so:answer")

    assert (silent.code, said.code) == (1, 0)
    assert (
        "return AgentResult(output, tool_calls=[...]) from the agent, where [] says that it called none" in silent.out
    )
