"""Attempts to pass without evidence: calls that nobody saw, trials that the agent derailed, replies that are none."""

import json
from typing import Any

import pytest

import seatrial

TOOLS = """
    import threading
    import seatrial

    trials = 0
    kept = []
    go, gone = threading.Event(), threading.Event()

    def is_second(ctx):
        return int(ctx.trial_id.rpartition("-")[2]) % 2 == 0

    async def looks_up(ctx):
        await ctx.call_tool("lookup_order", id=7)
        return "It has shipped."

    async def invents(ctx):
        return "It has shipped." if is_second(ctx) else await looks_up(ctx)

    async def mails(ctx):
        if is_second(ctx):
            await ctx.call_tool("send_mail", to="boss")
        return await looks_up(ctx)

    async def swallows(ctx):
        try:
            return await mails(ctx)
        except Exception:
            return "It has shipped."

    @seatrial.tool
    def lookup_order(id):
        return "the real one"

    def wrapped(input):
        global trials
        trials += 1
        if trials % 2:
            lookup_order(7)
        return "It has shipped."

    def delete_order(id):
        return "gone"

    async def deletes(ctx):
        delete_order(7)
        return await looks_up(ctx)

    async def keeps(ctx):
        kept.append(ctx)
        await kept[0].call_tool("lookup_order", id=7)
        return "It has shipped."

    async def hides(ctx):
        try:
            return await keeps(ctx)
        except Exception:
            return "It has shipped."

    def call_late(ctx):
        go.wait(30)
        try:
            lookup_order(7) if ctx is None else ctx.call_tool("lookup_order", id=7)
        except Exception:
            pass
        gone.set()

    def leaves_behind(ctx):
        if is_second(ctx):
            go.set()
            gone.wait(30)
        else:
            threading.Thread(target=call_late, args=[ctx], daemon=True).start()
        return "It has shipped."

    def write(args, ctx):
        ctx.state["looked_up"] = args["id"]
        return {}

    def breaks_at_times(args, ctx):
        if is_second(ctx):
            raise KeyError("no such order")
        return {}
"""
LATE = """
    import threading
    import seatrial

    go = threading.Event()
    threads = []

    @seatrial.tool
    def refund():
        return "done"

    def call_late():
        go.wait(30)
        refund()

    def agent(input):
        if not threads:
            threads.append(threading.Thread(target=call_late, daemon=True))
            threads[0].start()
        return "It has shipped."

    def let_the_thread_call(ctx):
        if threads:
            go.set()
            threads[0].join(30)
"""
MINE = """
    from seatrial import evaluator

    @evaluator
    def never_deletes(ctx): return "delete_order" not in ctx.tools_called
"""
FILE = "shop.trial.yaml"
ORDER: dict[str, Any] = {"name": "order", "input": "Where is it?", "mocks": {"lookup_order": {"returns": {}}}}


def write_tools(folder: Any, agent: Any, *scenarios: dict[str, Any], **suite: Any) -> None:
    """A suite whose scenarios are `ORDER` with these keys; one trial at a time, and the agents of `TOOLS`."""
    folder.write("agent.py", TOOLS)
    folder.write("mine.py", MINE)
    spec = f"agent:{agent}" if isinstance(agent, str) else agent
    config = {"concurrency": 1, **suite.pop("config", {})}
    named = [{**ORDER, "name": f"order {place}", **keys} for place, keys in enumerate(scenarios)]
    written = {"name": "shop", "agent": spec, "config": config, "evaluators": ["mine"], **suite}
    folder.write(FILE, json.dumps({"suite": written, "scenarios": named}))


def trials_in(folder: Any) -> list[Any]:
    return [trial for scenario in folder.results()["scenarios"] for trial in scenario["trials"]]


EXPECTED: list[dict[str, Any]] = [
    {"expected_tools": ["lookup_order"]},
    {"expected_tool_args": {"lookup_order": {"id": 7}}},
    {"expect": {"tool_calls_include": ["lookup_order"]}},
    {"trajectory": {"mode": "contains", "expected": ["lookup_order"]}},
    {"expected_state": {"looked_up": 7}, "mocks": {"lookup_order": {"python": "agent:write"}}},
]


def test_an_agent_that_makes_its_call_every_second_time_fails_the_other_times(folder: Any, way: str) -> None:
    write_tools(folder, "invents", *({**keys, "trials": "auto"} for keys in EXPECTED))

    assert not folder.play(way, FILE)
    for scenario in folder.results()["scenarios"]:
        assert scenario["status"] == "failed", scenario["failure_reasons"]
        assert [trial["status"] for trial in scenario["trials"][:2]] == ["passed", "failed"]


def test_a_wrapped_tool_that_is_called_every_second_time_fails_the_other_times(folder: Any, way: str) -> None:
    write_tools(folder, "wrapped", {"expected_tools": ["lookup_order"], "trials": "auto"})

    assert not folder.play(way, FILE)
    assert folder.results()["status"] == "failed"


@pytest.mark.parametrize("agent", ["mails", "swallows"])
def test_a_call_that_no_mock_answers_is_errored_and_counts_as_not_passed(folder: Any, way: str, agent: str) -> None:
    write_tools(folder, agent, {"trials": "auto"})

    assert not folder.play(way, FILE)
    assert folder.results()["status"] == "failed"
    error = trials_in(folder)[1]["error"]
    assert error["kind"] == "tool"
    assert "Tool 'send_mail' was called but no mock is defined" in error["message"]


def test_the_interval_counts_the_trials_that_the_agent_derailed(folder: Any) -> None:
    write_tools(folder, "mails", {"trials": 4})

    assert "2/4 trials passed [0.15, 0.85]" in folder.seatrial("run", FILE).out


def compare_statistically(folder: Any, before: str, now: str, **changed: Any) -> Any:
    write_tools(folder, before, {"trials": 20})
    folder.seatrial("run", FILE)
    folder.seatrial("baseline", "set", "latest")
    write_tools(folder, now, {"trials": 20, **changed})
    folder.seatrial("run", FILE)
    return folder.seatrial("compare", "--gate", "statistical")


def test_an_agent_that_derails_trials_is_worse_by_the_statistical_gate(folder: Any) -> None:
    ended = compare_statistically(folder, "looks_up", "mails")

    assert ended.code == 1
    assert "worse: order 0" in ended.out


def test_the_statistical_gate_cannot_tell_where_a_broken_mock_hides_the_answers(folder: Any) -> None:
    mocks = {"lookup_order": {"python": "agent:breaks_at_times"}}

    ended = compare_statistically(folder, "looks_up", "looks_up", mocks=mocks)

    assert ended.code == 3
    assert "cannot tell" in ended.out
    assert "NO REGRESSION" not in ended.out


def test_trials_that_a_mock_broke_do_not_pass_a_sequential_test(folder: Any, way: str) -> None:
    write_tools(folder, "looks_up", {"trials": "auto", "mocks": {"lookup_order": {"python": "agent:breaks_at_times"}}})

    assert not folder.play(way, FILE)
    assert folder.results()["status"] == "inconclusive"


MUST_NOT: list[dict[str, Any]] = [
    {"expect": {"tool_calls_exclude": ["delete_order"]}},
    {"expect": {"tool_calls_args": [{"tool": "lookup_order", "args": {"id": 7}, "calls": "all"}]}},
    {"trajectory": {"mode": "contains", "forbidden": [{"name": "delete_order"}]}},
    {"trajectory": {"mode": "strict", "expected": ["lookup_order"]}},
    {"trajectory": {"mode": "unordered", "expected": ["lookup_order"]}},
    {"trajectory": {"mode": "within", "expected": ["lookup_order"]}},
    {"trajectory": {"mode": "contains", "expected": [{"name": "lookup_order", "max": 1}]}},
    {"trajectory": {"mode": "in_order", "expected": [{"name": "lookup_order", "count": 1}]}},
    {"limits": {"tool_calls": 1}},
    {"scorers": ["never_deletes"]},
]


def test_calls_through_ctx_do_not_prove_that_no_other_was_made(folder: Any, way: str) -> None:
    write_tools(folder, "deletes", *MUST_NOT)

    assert not folder.play(way, FILE)
    for trial in trials_in(folder):
        assert trial["error"]["kind"] == "config", trial
        assert "tools: all_wrapped" in trial["error"]["hint"]


def test_all_wrapped_is_the_users_word_that_no_other_was_made(folder: Any, way: str) -> None:
    write_tools(folder, {"type": "python", "target": "agent:looks_up", "tools": "all_wrapped"}, *MUST_NOT)

    assert folder.play(way, FILE)


def test_all_wrapped_can_be_said_of_a_function_in_python_too(folder: Any) -> None:
    def agent(input: str) -> str:
        return "It has shipped."

    scenario = seatrial.Scenario(name="order", input="x", expect=seatrial.Expect(tool_calls_exclude=["delete_order"]))

    assert seatrial.run(scenario, agent=agent).status == "errored"
    assert seatrial.run(scenario, agent={"target": agent, "tools": "all_wrapped"}).passed


def test_evidence_is_the_same_in_a_process_of_its_own(folder: Any) -> None:
    def statuses(agent: Any, **keys: Any) -> list[str]:
        write_tools(folder, agent, {"trials": 2, **keys}, config={"isolation": "process"})
        folder.seatrial("run", FILE)
        return [trial["status"] for trial in trials_in(folder)]

    promised = {"type": "python", "target": "agent:looks_up", "tools": "all_wrapped"}
    assert statuses(promised, **MUST_NOT[0]) == ["passed", "passed"]
    assert statuses("looks_up", **MUST_NOT[0]) == ["errored", "errored"]
    assert statuses("invents", **EXPECTED[0]) == ["passed", "failed"]
    assert statuses("wrapped", **EXPECTED[0]) == ["passed", "failed"]
    assert statuses("hides") == ["passed", "errored"]
    assert statuses("leaves_behind") == ["passed", "passed"]
    assert folder.results()["status"] == "errored"


def test_a_misspelt_word_for_all_wrapped_is_refused(folder: Any) -> None:
    write_tools(folder, {"type": "python", "target": "agent:looks_up", "tools": "wrapped"}, {})

    ended = folder.seatrial("run", FILE)

    assert ended.code == 2
    assert "all_wrapped" in ended.err


def test_a_forbidden_call_that_was_seen_fails_whatever_else_is_known(folder: Any, way: str) -> None:
    forbidding = [
        {"expect": {"tool_calls_exclude": ["lookup_order"]}},
        {"trajectory": {"mode": "contains", "forbidden": [{"name": "lookup_order"}]}},
        {"trajectory": {"mode": "within", "expected": ["other"]}},
        {"limits": {"tool_calls": 0}},
    ]
    write_tools(folder, "looks_up", *forbidding)

    assert not folder.play(way, FILE)
    assert [trial["status"] for trial in trials_in(folder)] == ["failed"] * len(forbidding)


MESSAGES = """
    class Message:
        def __init__(self, **fields):
            self.fields = fields
        def model_dump(self):
            return dict(self.fields)

    class DictLike(dict):
        pass

    def langchain(input):
        return Message(content="Done.", type="ai", tool_calls=[], invalid_tool_calls=[])
    def openai(input):
        return Message(role="assistant", content="Done.", refusal=None, tool_calls=None)
    def anthropic(input):
        return Message(role="assistant", type="message", content=[{"type": "text", "text": "Done."}])
    def dict_like(input):
        return DictLike(role="assistant", content="Done.", tool_calls=[])
    def plain(input):
        return {"role": "assistant", "content": "Done."}
    def langchain_dumped(input):
        return langchain(input).model_dump()
    def completion(input):
        return Message(choices=[{"message": {"role": "assistant", "content": "Done.", "tool_calls": None}}])
    def states(input):
        return {"role": "assistant", "content": "Done.", "tool_calls": []}

    def user(input): return {"role": "user", "content": "Done."}
    def system(input): return {"role": "system", "content": "Done."}
    def tool(input): return {"role": "tool", "tool_call_id": "1", "content": "Done."}
    def human(input): return Message(content="Done.", type="human")

    def invisible(input): return "\\u200b\\u2060\\ufeff \\u00ad\\u3164"
"""


def write_messages(folder: Any, *agents: str, scenarios: list[dict[str, Any]]) -> None:
    folder.write("agent.py", MESSAGES)
    named = [{"name": f"scenario {place}", **keys} for place, keys in enumerate(scenarios)]
    suite = {"name": "shop", "agents": {agent: f"agent:{agent}" for agent in agents}}
    folder.write(FILE, json.dumps({"suite": suite, "scenarios": named}))


NO_CALLS: list[dict[str, Any]] = [
    {"input": "x", "expect": {"tool_calls_exclude": ["delete"]}},
    {"input": "x", "limits": {"tool_calls": 0}},
]


def test_a_message_is_no_proof_that_no_tool_was_called(folder: Any, way: str) -> None:
    agents = ("langchain", "openai", "anthropic", "dict_like", "plain", "langchain_dumped", "completion")
    write_messages(folder, *agents, scenarios=NO_CALLS)

    assert not folder.play(way, FILE)
    for trial in trials_in(folder):
        assert trial["error"]["kind"] == "config", trial
        assert trial["turns"][0]["tool_calls"] is None


def test_a_plain_mapping_with_an_empty_list_states_that_no_tool_was_called(folder: Any, way: str) -> None:
    write_messages(folder, "states", scenarios=NO_CALLS)

    assert folder.play(way, FILE)


def test_a_message_of_another_role_is_no_reply(folder: Any, way: str) -> None:
    write_messages(folder, "user", "system", "tool", "human", scenarios=[{"input": "x"}])

    assert not folder.play(way, FILE)
    for trial in trials_in(folder):
        assert trial["error"]["kind"] == "agent", trial
        assert "return a str" in trial["error"]["message"]


def test_a_reply_that_nobody_can_see_is_an_empty_output(folder: Any, way: str) -> None:
    asked: list[dict[str, Any]] = [
        {"input": "x"},
        {"input": "x", "scorers": [{"regex": "."}]},
        {"turns": [{"user": "x"}]},
    ]
    write_messages(folder, "invisible", scenarios=asked)

    assert not folder.play(way, FILE)
    for trial in trials_in(folder):
        assert any("empty output" in reason for reason in trial["failure_reasons"]), trial


@pytest.mark.parametrize("agent", ["keeps", "hides"])
def test_a_ctx_that_is_kept_from_an_earlier_trial_errs_the_trial_that_uses_it(
    folder: Any, way: str, agent: str
) -> None:
    write_tools(folder, agent, {"trials": 2})

    assert not folder.play(way, FILE)
    first, second = trials_in(folder)
    assert first["status"] == "passed"
    assert second["error"]["kind"] == "agent"
    assert "tool 'lookup_order' was called for trial" in second["error"]["message"]


def test_a_call_that_a_thread_makes_after_its_trial_errs_the_run(folder: Any, way: str) -> None:
    write_tools(folder, "leaves_behind", {"trials": 2})

    assert not folder.play(way, FILE)
    results = folder.results()
    assert [trial["status"] for trial in trials_in(folder)] == ["passed", "passed"]
    assert results["status"] == "errored"
    assert "tool 'lookup_order' was called for trial" in results["failure_reasons"][0]


def test_a_wrapped_tool_that_a_thread_calls_after_the_reply_errs_the_run(folder: Any, way: str) -> None:
    folder.write("late.py", LATE)
    scenario = {"name": "order", "input": "Where is it?", "setup": "late:let_the_thread_call", "trials": 2}
    agent = {"type": "python", "target": "late:agent", "tools": "all_wrapped"}
    suite = {"name": "shop", "agent": agent, "config": {"concurrency": 1}}
    folder.write(FILE, json.dumps({"suite": suite, "scenarios": [scenario]}))

    assert not folder.play(way, FILE)
    results = folder.results()
    assert results["status"] == "errored"
    assert "tool 'refund' was called in a thread after the agent had replied" in results["failure_reasons"][0]


def test_a_run_with_a_late_call_is_no_better_candidate(folder: Any) -> None:
    write_tools(folder, "looks_up", {"trials": 2})
    folder.seatrial("run", FILE)
    folder.seatrial("baseline", "set", "latest")
    write_tools(folder, "leaves_behind", {"trials": 2})
    folder.seatrial("run", FILE)

    ended = folder.seatrial("compare")

    assert ended.code == 3
    assert "tool 'lookup_order' was called for trial" in ended.out


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize("agent", ["looks_up", "wrapped"])
def test_a_mock_that_does_not_answer_in_time_is_no_answer_of_the_agent(folder: Any, agent: str, isolation: str) -> None:
    slow = {"lookup_order": {"returns": {}, "delay_ms": 60_000}}
    write_tools(folder, agent, {"mocks": slow, "timeout_seconds": 0.3}, config={"isolation": isolation})

    assert folder.seatrial("run", FILE).code == 1
    (scenario,) = folder.results()["scenarios"]
    assert scenario["trials"][0]["error"]["kind"] == "tool"
    assert "the mock of 'lookup_order' did not answer in time" in scenario["trials"][0]["error"]["message"]
    assert scenario["interval"] is None


RULES: dict[str, dict[str, Any]] = {
    "a forbidden call": {"never": "delete_order"},
    "a forbidden glob": {"never": "delete_*"},
    "a call before another": {"never": "delete_order", "before": "lookup_order"},
    "a call after another": {"after": "delete_order", "always": {"says": {"$contains": "gone"}}},
    "too many calls": {"at_most": 1, "of": "delete_order"},
    "a wrong argument": {"every": "delete_order", "where": {"id": {"$lt": 7}}},
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_about_calls_that_nobody_saw_is_no_pass(folder: Any, rule: str) -> None:
    folder.write("agent.py", TOOLS)
    suite = {"agent": "agent:deletes", "invariants": [RULES[rule]]}
    scenario = {"name": "ships", "input": "Where is it?", "mocks": {"lookup_order": {"returns": "shipped"}}}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [scenario]}))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "ERROR config" in ended.out


def test_a_conversation_with_only_rules_asserts_nothing(folder: Any) -> None:
    folder.write("agent.py", TOOLS)
    scenario = {"name": "chats", "user": "agent:looks_up"}
    suite = {"agent": "agent:looks_up", "invariants": [RULES["a forbidden call"]]}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [scenario]}))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 2
    assert "nothing is asserted, so every conversation would pass" in ended.err


def test_a_reply_that_only_rules_looked_at_is_told_as_such(folder: Any) -> None:
    folder.write("agent.py", "def agent(input): return {'output': 'ok', 'tool_calls': []}")
    suite = {"agent": "agent:agent", "invariants": [RULES["a forbidden call"]]}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [{"name": "chats", "input": "Hi."}]}))

    assert folder.seatrial("run", "suite.yaml").code == 0
    assert folder.results()["scenarios"][0]["trials"][0]["checked"] == "a reply and 1 invariant"
