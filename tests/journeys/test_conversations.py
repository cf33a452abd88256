"""Conversations with an agent behind a real endpoint: expectations by turn and over all, mocks, state, limits."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

CALLS = ["search", "buy"]


def obedient(request: ReceivedRequest) -> ServerReply:
    """An agent that calls what the user's last message says (`name {arguments}; …`), then tells what it was told."""
    messages = request.body["messages"]
    last = max(place for place, message in enumerate(messages) if message["role"] == "user")
    asked = [part.strip() for part in messages[last]["content"].split(";") if "{" in part]
    answers = [message["content"] for message in messages[last + 1 :] if message["role"] == "tool"]
    if len(answers) < len(asked):
        name, _, arguments = asked[len(answers)].partition(" ")
        call = {"id": f"c{len(messages)}", "type": "function", "function": {"name": name, "arguments": arguments}}
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        message = {"role": "assistant", "content": f"Told: {' / '.join(answers)}." if answers else "Hello."}
    usage = {"prompt_tokens": 8, "completion_tokens": 2, "cost": 0.01}
    return ServerReply(body=json.dumps({"choices": [{"message": message}], "usage": usage}))


@pytest.fixture
def endpoint() -> Iterator[ModelServer]:
    with ModelServer(obedient) as server:
        yield server


def run(folder: Any, endpoint: ModelServer, scenarios: dict[str, dict[str, Any]], **config: Any) -> tuple[Any, str]:
    """The trials by scenario, and the console."""
    suite = {"name": "shop", "agent": {"type": "openai", "base_url": endpoint.base_url}, "config": config}
    written = [{"name": name, **keys} for name, keys in scenarios.items()]
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": written}))
    ended = folder.seatrial("run", "suite.yaml", "--report", "json")
    assert ended.code in (0, 1), ended.err
    return {one["name"]: one["trials"][0] for one in folder.results()["scenarios"]}, ended.out


def statuses(trials: Any) -> dict[str, str]:
    return {
        name: one["status"] if one["error"] is None else f"{one['status']}({one['error']['kind']})"
        for name, one in trials.items()
    }


def called(trial: Any) -> list[tuple[str, Any, Any]]:
    return [(call["name"], call["result"], call["error"]) for turn in trial["turns"] for call in turn["tool_calls"]]


def test_expectations_of_turns_and_of_the_whole_hold_together(folder: Any, endpoint: ModelServer) -> None:
    first = {"user": 'search {"q": "hat"}', "expect": {"tool_calls_include": ["search"], "reply_contains_all": ["two"]}}
    second = {"user": 'buy {"id": 2}', "trajectory": {"mode": "strict", "expected": ["buy"]}}
    whole = {"expect": {"tool_calls_include": CALLS, "tool_calls_ordered": True}}
    scenarios: dict[str, dict[str, Any]] = {
        "all hold": {
            "turns": [first, second],
            **whole,
            "trajectory": {"mode": "strict", "expected": ["search", "buy"]},
        },
        "the first turn": {"turns": [{**first, "expect": {"reply_excludes": ["two"]}}, second], **whole},
        "a turn's trajectory": {
            "turns": [{"user": "Hi", "trajectory": {"mode": "strict", "expected": ["search"]}}, first],
            "expect": {"tool_calls_include": ["search"]},
        },
        "the whole": {"turns": [first, second], "expect": {"tool_calls_exclude": ["buy"]}},
    }

    trials, out = run(folder, endpoint, scenarios, mocks={"search": {"returns": "two hats"}, "buy": {"returns": "ok"}})

    assert statuses(trials) == {
        "all hold": "passed",
        "the first turn": "failed",
        "a turn's trajectory": "failed",
        "the whole": "failed",
    }
    assert [len(trial["turns"]) for trial in trials.values()] == [2, 2, 2, 2], "a failed turn ends no conversation"
    assert "✓ all hold  (2 turns, trajectory matched)" in out
    assert "turn 1: Missing tool calls: search" in out
    assert trials["a turn's trajectory"]["trajectory"]["missing_calls"] == ["search"]
    failing = [(result["turn"], result["passed"]) for result in trials["the whole"]["results"] if not result["passed"]]
    assert failing == [(None, False)]


def test_history_and_system_stand_before_the_first_turn(folder: Any, endpoint: ModelServer) -> None:
    history = [{"role": "user", "content": "I am Ada."}, {"role": "assistant", "content": "Hello Ada."}]

    trials, _ = run(folder, endpoint, {"s": {"input": "Hi", "system": "Be brief.", "history": history}})

    (request,) = endpoint.requests
    assert request.messages == [
        ("system", "Be brief."),
        ("user", "I am Ada."),
        ("assistant", "Hello Ada."),
        ("user", "Hi"),
    ]
    assert trials["s"]["history"] == [{"role": "system", "content": "Be brief."}, *history]
    assert len(trials["s"]["turns"]) == 1


def test_every_form_of_mock_answers_an_endpoint(folder: Any, endpoint: ModelServer) -> None:
    folder.write(
        "mine.py",
        """
        from seatrial import ToolError

        def charge(args, ctx):
            if args["amount"] > 100: raise ToolError("card declined")
            ctx.state["charged"] = ctx.state.get("charged", 0) + args["amount"]
            return {"receipt": f"R-{ctx.call_index}", "turn": ctx.turn_index}

        def broken(args, ctx): return args["no such key"]
        """,
    )
    when = [{"args": {"id": 1}, "returns": "one"}, {"args": {"id": {"$gt": 5}}, "raises": "too large"}]
    mocks = {
        "fixed": {"returns": {"a": [1, None]}},
        "failing": {"raises": "no such order"},
        "steps": {"sequence": [{"raises": "busy"}, "first", {"returns": "last"}]},
        "chosen": {"when": when, "returns": "other"},
        "strict": {"when": when},
        "late": {"returns": "at last", "delay_ms": 30},
        "slow": {"returns": "never", "delay_ms": 60_000},
        "limited": {"fault": "rate_limited"},
        "timed_out": {"fault": "timeout"},
        "page": {"fault": "malformed"},
        "half": {"fault": "truncated", "returns": "0123456789"},
        "charge": {"python": "mine:charge"},
        "bug": {"python": "mine:broken"},
    }
    twice = {"user": 'charge {"amount": 30}'}
    scenarios: dict[str, dict[str, Any]] = {
        "fixed": {"input": "fixed {}"},
        "failing": {"input": "failing {}"},
        "steps": {"input": "steps {}; steps {}; steps {}; steps {}"},
        "chosen": {"input": 'chosen {"id": 1}; chosen {"id": 9}; chosen {"id": 2}'},
        "strict": {"input": 'strict {"id": 2}'},
        "late": {"input": "late {}"},
        "slow": {"input": "slow {}", "timeout_seconds": 0.3},
        "faults": {"input": "limited {}; timed_out {}; page {}; half {}"},
        "charge": {"turns": [twice, twice, {"user": 'charge {"amount": 500}'}], "expected_state": {"charged": 60}},
        "another state": {"turns": [twice], "expected_state": {"charged": 60}},
        "bug": {"input": "bug {}"},
        "no mock": {"input": "unknown {}"},
        "no mock, passed on": {"input": "unknown {}", "unmocked_tools": "passthrough"},
    }

    trials, out = run(folder, endpoint, scenarios, mocks=mocks)

    assert statuses(trials) == {
        "fixed": "passed",
        "failing": "passed",
        "steps": "passed",
        "chosen": "passed",
        "strict": "errored(tool)",
        "late": "passed",
        "slow": "errored(tool)",
        "faults": "passed",
        "charge": "passed",
        "another state": "failed",
        "bug": "errored(tool)",
        "no mock": "errored(tool)",
        "no mock, passed on": "errored(tool)",
    }
    assert called(trials["fixed"]) == [("fixed", {"a": [1, None]}, None)]
    assert trials["failing"]["turns"][0]["reply"] == 'Told: {"error": "no such order"}.'
    assert called(trials["steps"])[0] == ("steps", None, "busy")
    assert [result for _, result, _ in called(trials["steps"])[1:]] == ["first", "last", "last"]
    assert [(result, error) for _, result, error in called(trials["chosen"])] == [
        ("one", None),
        (None, "too large"),
        ("other", None),
    ]
    assert [bool(error) for _, _, error in called(trials["faults"])] == [True, True, False, False]
    assert called(trials["faults"])[3][1] == "01234"
    assert [result and result["turn"] for _, result, _ in called(trials["charge"])] == [0, 1, None]
    assert trials["charge"]["state"] == {"charged": 60}
    assert "Tool 'unknown' was called but no mock is defined, and there is no real tool to pass the call to" in out
    assert "KeyError" in out
    assert "charged: expected 60, got 30" in out


def test_a_mock_and_a_call_are_held_against_the_tools_schema(folder: Any, endpoint: ModelServer) -> None:
    refund = {
        "name": "refund",
        "parameters": {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]},
        "output_schema": {"type": "object", "required": ["receipt"]},
    }
    mocks = {"refund": {"when": [{"args": {"amount": 1}, "returns": {"receipt": 1}}], "returns": {"recipt": 1}}}
    scenarios = {
        "a good call": {"input": 'refund {"amount": 1}', "expect": {"reply_contains_all": ["receipt"]}},
        "a bad call": {"input": "refund {}", "expect": {"reply_contains_all": ["'amount' is a required property"]}},
        "a bad mock": {"input": 'refund {"amount": 2}'},
    }

    trials, out = run(folder, endpoint, scenarios, mocks=mocks, tools=[refund])

    assert statuses(trials) == {"a good call": "passed", "a bad call": "passed", "a bad mock": "errored(tool)"}
    assert "the mock of 'refund' returned what the tool's output_schema does not allow" in out
    sent = endpoint.requests[0].body["tools"]
    assert [tool["function"]["name"] for tool in sent] == ["refund"]


def test_in_process_agents_pass_calls_on_to_their_real_tools_where_there_is_no_mock(folder: Any) -> None:
    folder.write(
        "agent.py",
        """
        from seatrial import tool

        @tool
        def search(q): return f"really {q}"

        def answer(input, ctx): return search(input) + (ctx.call_tool("other") if input == "other" else "")
        """,
    )
    keys = {"expected_tools": ["search"], "expected_output": "really"}
    scenarios = [
        {"name": "real", "input": "hat", **keys},
        {"name": "mocked", "input": "hat", **keys, "mocks": {"search": {"returns": "mocked, not really"}}},
        {"name": "no tool", "input": "other", "unmocked_tools": "passthrough"},
    ]
    folder.write("suite.yaml", json.dumps({"suite": {"agent": "agent:answer"}, "scenarios": scenarios}))

    ended = folder.seatrial("run", "suite.yaml", "--report", "json")

    trials = {one["name"]: one["trials"][0] for one in folder.results()["scenarios"]}
    assert statuses(trials) == {"real": "passed", "mocked": "passed", "no tool": "errored(tool)"}
    assert [call["result"] for call in trials["real"]["turns"][0]["tool_calls"]] == ["really hat"]
    assert "Tool 'other' was called but no mock is defined" in ended.out


def test_over_a_limit_is_failed(folder: Any, endpoint: ModelServer) -> None:
    turns = {"turns": [{"user": "late {}"}, {"user": "Hi"}]}
    limits = {"latency_ms": 20_000, "cost_usd": 0.03, "tokens": 30, "tool_calls": 1, "turns": 2}
    scenarios: dict[str, dict[str, Any]] = {
        "within": {**turns, "limits": limits},
        "latency_ms": {**turns, "limits": {"latency_ms": 20}},
        "cost_usd": {**turns, "limits": {"cost_usd": 0.02}},
        "tokens": {**turns, "limits": {"tokens": 29}},
        "tool_calls": {**turns, "limits": {"tool_calls": 0}},
        "turns": {**turns, "limits": {"turns": 1}},
    }

    trials, out = run(folder, endpoint, scenarios, mocks={"late": {"returns": "ok", "delay_ms": 30}})

    assert statuses(trials) == {name: "passed" if name == "within" else "failed" for name in scenarios}
    for line in ("cost_usd: 0.03 (limit: 0.02)", "tokens: 30 (limit: 29)", "tool_calls: 1 (limit: 0)", "turns: 2"):
        assert f"Over the limit: {line}" in out
    assert trials["within"]["usage"]["total_tokens"] == 30


def test_no_trial_sees_anothers_mocks(folder: Any, endpoint: ModelServer) -> None:
    folder.write("mine.py", "def count(args, ctx): return ctx.state.setdefault(ctx.trial_id, len(ctx.state))")
    mocks = {"steps": {"sequence": ["first", "second"]}, "count": {"python": "mine:count"}}
    expect = {"reply_contains_all": ["Told: first / second / 0."]}
    scenario = {"input": "steps {}; steps {}; count {}", "trials": 200, "expect": expect}

    _, out = run(folder, endpoint, {"s": scenario}, mocks=mocks, concurrency=50)

    assert "200/200 trials passed" in out


def test_no_message_is_lost_or_crossed_between_conversations(folder: Any) -> None:
    """Each conversation carries a nonce of its own through user, agent and mocks; all of them hold on to it."""
    folder.write(
        "mine.py",
        """
        def user(conversation, trial, seed):
            nonce = f"N{trial}-{seed}"
            for turn, (said, reply) in enumerate(conversation):
                assert said == f"{nonce} turn {turn}", (said, nonce)
                assert reply == f"{nonce} turn {turn}: {nonce} {nonce}", (reply, nonce)
            return f"{nonce} turn {len(conversation)}"

        def tool(args, ctx):
            assert args["nonce"] == f"N{int(ctx.trial_id.rsplit('-', 1)[1]) - 1}-{ctx.seed}", (args, ctx)
            return ctx.state.setdefault("nonce", args["nonce"])
        """,
    )
    strange: list[Any] = []

    def agent(request: ReceivedRequest) -> ServerReply:
        messages = request.body["messages"]
        nonce, turn = messages[0]["content"].split()[0], (len(messages) - 1) // 5
        strange.extend(message for message in messages if nonce not in json.dumps(message))
        if messages[-1]["role"] == "user":
            calls = [
                {"id": f"{nonce}-{name}", "function": {"name": name, "arguments": {"nonce": nonce}}}
                for name in ("one", "two")
            ]
            message: dict[str, Any] = {"role": "assistant", "tool_calls": calls}
        else:
            one, two = (said["content"] for said in messages[-2:])
            message = {"role": "assistant", "content": f"{nonce} turn {turn}: {one} {two}"}
        return ServerReply(body=json.dumps({"choices": [{"message": message}]}))

    calls = [{"name": name, "count": 4} for name in ("one", "two")]
    scenario = {
        "user": "mine:user",
        "trials": 30,
        "max_turns": 4,
        "trajectory": {"mode": "contains", "expected": calls},
    }
    with ModelServer(agent) as server:
        mocks = {name: {"python": "mine:tool"} for name in ("one", "two")}
        _, out = run(folder, server, {"nonce": scenario}, mocks=mocks, concurrency=30)

    assert "30/30 trials passed" in out
    assert strange == []
    assert len(server.requests) == 30 * 4 * 2


@pytest.mark.parametrize("turns", [8, 9])
def test_a_script_of_eight_turns_or_more_ends_as_any_other_script(folder: Any, turns: int) -> None:
    folder.write("agent.py", "def answer(messages): return 'hello'")
    script = [{"user": f"message {turn}"} for turn in range(turns)]
    suite = {"suite": {"agent": "agent:answer"}, "scenarios": [{"name": "long", "turns": script}]}
    folder.write("suite.yaml", json.dumps(suite))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 0
    assert f"✓ long  ({turns} turns)" in ended.out
    [scenario] = folder.results()["scenarios"]
    assert scenario["trials"][0]["stop_reason"] == "script_ended"


@pytest.mark.parametrize("said", ['buy {"what": "ring"}', "Hello?"], ids=["mock ran", "no call"])
def test_a_state_that_no_mock_wrote_fails_what_is_expected_of_it(folder: Any, endpoint: ModelServer, said: str) -> None:
    folder.write("mine.py", "def buy(args, ctx): return {'ok': True}")
    scenario = {"input": said, "expected_state": {"orders": 1}}

    trials, out = run(folder, endpoint, {"buys": scenario}, mocks={"buy": {"python": "mine:buy"}})

    assert statuses(trials) == {"buys": "failed"}
    assert "State differs: orders: missing (nothing was written to ctx.state)" in out
    assert "no mock ran" not in out


def test_a_state_of_an_agent_whose_calls_are_not_recorded_has_no_answer(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'done'\ndef buy(args, ctx): return {'ok': True}")
    scenario = {"name": "buys", "input": "Buy it.", "expected_state": {"orders": 1}}
    suite = {"agent": "agent:answer", "config": {"mocks": {"buy": {"python": "agent:buy"}}}}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [scenario]}))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "ERROR config: expected_state: nothing was written to ctx.state" in ended.out
