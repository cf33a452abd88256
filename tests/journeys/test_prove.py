"""`seatrial explain --prove`: a step that causes the failures is proved, one that differs by chance is not."""

import io
import json
from itertools import cycle
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

from .conftest import Folder

AGENT = '''
    def number_of(ctx):
        return int(ctx.trial_id.rpartition("-")[2])

    def results(messages):
        return [message["content"].strip('"') for message in messages if message["role"] == "tool"]

    def one_step(messages, ctx):
        """Asks for the wrong customer in every second trial. What it does then depends on that alone."""
        known = results(messages)
        if not known:
            known = [ctx.call_tool("find_customer", name="Bob" if number_of(ctx) % 2 else "Ada")]
        return f"The order is {ctx.call_tool('lookup_order', customer=known[0])}."

    def chance(messages, ctx):
        """The first trial reads the news and passes. All others browse, and a coin decides at their end."""
        number, known = number_of(ctx), results(messages)
        if not known:
            ctx.call_tool("news" if number == 1 else "browse")
            number = min(number, 2) if number > 1 else 3
        ctx.call_tool("lookup_order", customer="u1")
        return "The order is shipped." if number % 2 else "I do not know."

    def forgets(messages, ctx):
        """The reply is the mistake."""
        return "The order is shipped." if number_of(ctx) % 2 else "I do not know."

    COUNT = iter(range(100))

    def bare(input):
        return "The order is shipped." if next(COUNT) % 2 else "no"
'''
SUITE = """
    suite: {name: shop}
    scenarios:
      - name: order
        trials: 4
        mocks:
          find_customer: {when: [{args: {name: Ada}, returns: u1}], returns: u2}
          lookup_order: {when: [{args: {customer: u1}, returns: shipped}], returns: lost}
          news: {returns: []}
          browse: {returns: []}
        input: Where is the order of Ada?
        expect: {reply_contains_all: [shipped]}
"""


@pytest.fixture
def shop(folder: Folder) -> Folder:
    folder.write("agent.py", AGENT)
    folder.write("shop.trial.yaml", SUITE)
    return folder


def prove(shop: Folder, agent: str, *args: str) -> dict[str, Any]:
    assert shop.seatrial("run", "--agent", f"agent:{agent}").code == 1
    ended = shop.seatrial("explain", "latest", "--prove", "--yes", "--json", *args)
    (cause,) = json.loads(ended.out)["causes"]
    assert isinstance(cause, dict)
    return cause


def test_a_step_that_makes_the_trial_fail_is_proved(shop: Folder) -> None:
    cause = prove(shop, "one_step")
    assert (cause["divergence"]["kind"], cause["divergence"]["step"]) == ("arguments", 0)
    assert cause["proof"]["proved"]
    assert cause["proof"]["text"] == (
        "proved: from call 1 with the call of find_customer from trial-2: 10/10 passed; as it was: 0/10 passed"
    )
    runs = json.loads(shop.seatrial("show", cause["proof"]["replaced"]["run"], "--json").out)
    assert runs["scenarios"][0]["passed"]


def test_a_step_of_an_endpoint_is_proved(shop: Folder) -> None:
    """The model asks for Bob and Ada in turns, and repeats what the tool answers."""
    names = cycle(["Bob", "Ada"])

    def answer(request: ReceivedRequest) -> ServerReply:
        results = [message["content"] for message in request.body["messages"] if message["role"] == "tool"]
        if results:
            message: dict[str, Any] = {"role": "assistant", "content": f"You are {results[-1]}."}
        else:
            function = {"name": "find_customer", "arguments": json.dumps({"name": next(names)})}
            message = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
        body = json.dumps({"choices": [{"message": message}]})
        return ServerReply(body=body, headers={"content-type": "application/json"})

    with ModelServer(answer) as server:
        agent = f"{{name: shop, agent: {{type: openai, base_url: '{server.base_url}', model: m}}}}"
        shop.write("shop.trial.yaml", SUITE.replace("{name: shop}", agent).replace("[shipped]", "[u1]"))
        assert shop.seatrial("run", "--set", "concurrency=1").code == 1
        (cause,) = json.loads(shop.seatrial("explain", "--prove", "--yes", "--json").out)["causes"]
    assert (cause["divergence"]["kind"], cause["proof"]["proved"]) == ("arguments", True), cause["proof"]


def test_a_step_that_differs_by_chance_is_not_proved(shop: Folder) -> None:
    cause = prove(shop, "chance")
    assert (cause["divergence"]["kind"], cause["divergence"]["step"]) == ("wrong_tool", 0)
    assert not cause["proof"]["proved"]
    assert cause["proof"]["text"] == (
        "not proved: from call 1 with the call of news from trial-1: 5/10 passed; as it was: 5/10 passed. "
        "It makes no difference"
    )


def test_a_reply_that_fails_by_itself_is_answered_again(shop: Folder) -> None:
    proof = prove(shop, "forgets", "--trials", "4")["proof"]
    assert not proof["proved"]
    assert proof["text"].endswith("Answered again from there: 2/4 passed")
    assert proof["replaced"] is None


def test_the_number_of_calls_is_said_first_and_nothing_runs_without_a_yes(
    shop: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    shop.seatrial("run", "--agent", "agent:one_step")
    before = shop.seatrial("runs").out
    ended = shop.seatrial("explain", "--prove")
    assert ended.code != 0
    assert "1 cause can be tested: 20 new trials, about 20 calls of the agent" in ended.err
    assert shop.seatrial("runs").out == before


def test_an_agent_that_cannot_continue_is_refused_with_the_reason(shop: Folder) -> None:
    proof = prove(shop, "bare")["proof"]
    assert not proof["proved"]
    assert proof["text"].startswith("not tested: scenario 'order': cannot be forked: ")


def test_recordings_are_refused_before_anything_is_asked(shop: Folder) -> None:
    said = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "lost"}]
    shop.write("old.jsonl", json.dumps({"id": "order", "messages": said}))
    assert shop.seatrial("import-trace", "old.jsonl", "--suite", "shop.trial.yaml").code == 1
    ended = shop.seatrial("explain", "--prove")
    assert ended.code == 2
    assert "has recordings, which no agent can continue" in ended.err
    assert "can be tested" not in ended.err


def test_an_edited_scenario_is_not_tested(shop: Folder) -> None:
    shop.seatrial("run", "--agent", "agent:one_step")
    shop.write("shop.trial.yaml", SUITE.replace("of Ada?", "of Ada, please?"))
    said = shop.seatrial("explain", "--prove", "--yes").out
    assert "not tested: scenario 'order': was edited since run" in said


@pytest.mark.parametrize("flag", [("--yes",), ("--trials", "5")])
def test_flags_of_a_proof_need_prove(shop: Folder, flag: tuple[str, ...]) -> None:
    ended = shop.seatrial("explain", *flag)
    assert ended.code == 2
    assert f"{flag[0]}: needs --prove" in ended.err
