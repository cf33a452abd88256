"""`seatrial run --faults`: what agents do when a tool fails."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.journeys import test_world_agents as ways
from tests.journeys.conftest import Folder

import seatrial
from seatrial import Scenario, Suite
from seatrial.errors import UsageError
from seatrial.model.faults import FAULTS
from seatrial.store.store import open_store
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

AGENTS = """
    from seatrial import ToolError

    def _book(ctx):
        try:
            found = ctx.call_tool("book", {"order_id": "W1"})
        except ToolError:
            return None
        return found if isinstance(found, dict) and found.get("id") else None

    def recovers(messages, ctx):
        found = _book(ctx) or _book(ctx)
        return f"Booked, {found['id']}." if found else "I could not do it."

    def admits(messages, ctx):
        found = _book(ctx)
        return f"Booked, {found['id']}." if found else "I could not do it."

    def claims(messages, ctx):
        _book(ctx)
        return "Booked."

    def mumbles(messages, ctx):
        return "Booked." if _book(ctx) else "Hm."

    def crashes(messages, ctx):
        return "Booked, " + ctx.call_tool("book", {"order_id": "W1"})["id"]

    def rests(messages, ctx):
        return "Booked."
"""
MOCKED = """
    suite: {{agent: {{type: python, target: "agents:{agent}", tools: all_wrapped}}}}
    scenarios:
      - name: books
        input: Book W1, please.
        mocks: {{book: {{returns: {{id: BK-7}}}}}}
        trajectory: {{expected: [book]}}
        expect: {{reply_contains_any: [booked]}}
        on_failure: {{reply_contains_any: [could not]}}
"""
TOOLS = """
    def book(state, order_id: str):
        if order_id not in state["booked"]:
            state["booked"].append(order_id)
        return {"id": "BK-7"}
"""
WORLD = """
    suite:
      agent: {{type: python, target: "agents:{agent}", tools: all_wrapped}}
      world: {{seed: {{booked: []}}, tools: [shop_tools:book]}}
    scenarios:
      - name: books
        input: Book W1, please.
        end_state: {{as_after: [{{book: {{order_id: W1}}}}]}}
        expect: {{reply_contains_any: [booked]}}
        on_failure: {{reply_contains_any: [could not]}}
"""


@pytest.fixture
def shop(folder: Folder) -> Folder:
    folder.write("agents.py", AGENTS)
    folder.write("shop_tools.py", TOOLS)
    return folder


def suite_of(shop: Folder, text: str, agent: str) -> None:
    shop.write("scenarios/suite.yaml", text.format(agent=agent))


def swept(shop: Folder, *flags: str, faults: str = "*=*,*=slow:0.01") -> tuple[int, dict[str, str]]:
    """The exit code, and the result of each fault of `book`."""
    ended = shop.seatrial("run", "--faults", faults, "--report", "json=out.json", *flags)
    assert (shop.path / "out.json").exists(), ended.err
    report = json.loads((shop.path / "out.json").read_text())
    return ended.code, {trial["fault"]: trial["result"] for trial in report["faults"]["trials"]}


ERRORS = ("timeout", "error", "rate_limited")
BROKEN = ("malformed", "truncated", "empty")


@pytest.mark.parametrize("text", [MOCKED, WORLD], ids=["mocks", "world"])
@pytest.mark.parametrize(
    ("agent", "code", "by_error", "by_answer"),
    [
        ("recovers", 0, "recovered", "recovered"),
        ("admits", 0, "told the user", None),
        ("claims", 1, "claimed success", "recovered"),
        ("mumbles", 1, "unclear", None),
        ("crashes", 1, "crashed", "crashed"),
        ("rests", 1, "not reached", "not reached"),
    ],
)
def test_each_agent_lands_in_its_column(
    shop: Folder, text: str, agent: str, code: int, by_error: str, by_answer: str | None
) -> None:
    """With `on_failure`, for mocks and for a world."""
    suite_of(shop, text, agent)
    ended, results = swept(shop)
    assert ended == code
    assert list(results) == list(FAULTS)
    assert {results[fault] for fault in ERRORS} == {by_error}
    if by_answer is not None:
        assert {results[fault] for fault in BROKEN} == {by_answer}


def test_a_second_call_after_a_broken_answer_can_do_the_work_twice(shop: Folder) -> None:
    shop.write("shop_tools.py", TOOLS.replace('if order_id not in state["booked"]:', "if True:"))
    suite_of(shop, WORLD, "recovers")
    code, results = swept(shop)
    assert code == 1
    assert {results[fault] for fault in ERRORS} == {"recovered"}
    assert {results[fault] for fault in BROKEN} == {"claimed success"}


def test_a_tool_that_always_fails_cannot_be_recovered_from(shop: Folder) -> None:
    suite_of(shop, MOCKED, "recovers")
    code, results = swept(shop, "--faults-occur", "always", faults="book=timeout")
    assert (code, results) == (0, {"timeout": "told the user"})


def test_words_alone_do_not_show_that_the_agent_recovered(shop: Folder) -> None:
    suite_of(shop, MOCKED.replace("trajectory: {{expected: [book]}}", ""), "claims")
    code, results = swept(shop, faults="book=timeout,book=slow:0.01")
    assert (code, results) == (1, {"timeout": "unclear", "slow": "recovered"})


@pytest.mark.parametrize("mode", ["strict", "in_order", "unordered", "within"])
def test_a_call_that_failed_is_no_extra_call(shop: Folder, mode: str) -> None:
    suite_of(
        shop, MOCKED.replace("expected: [book]", f"mode: {mode}, expected: [{{{{name: book, count: 1}}}}]"), "recovers"
    )
    assert swept(shop, faults="book=timeout") == (0, {"timeout": "recovered"})


def test_an_attempt_to_call_a_forbidden_tool_counts_although_it_failed(shop: Folder) -> None:
    text = MOCKED.replace("trajectory: {{expected: [book]}}", "").replace(
        "expect: {{", "expect: {{tool_calls_exclude: [book], "
    )
    suite_of(shop, text, "claims")
    code, results = swept(shop, faults="book=timeout")
    assert (code, results) == (1, {"timeout": "claimed success"})


def test_a_forbidden_attempt_counts_beside_an_expected_call_of_the_same_tool(shop: Folder) -> None:
    shop.write(
        "agents.py",
        """
        from seatrial import ToolError

        def tries(messages, ctx):
            for order in ("W2", "W1"):
                try:
                    ctx.call_tool("book", {"order_id": order})
                except ToolError:
                    pass
            return "Booked."
        """,
    )
    calls = "expected: [{{name: book, args: {{order_id: W1}}}}], forbidden: [{{name: book, args: {{order_id: W2}}}}]"
    suite_of(shop, MOCKED.replace("expected: [book]", calls), "tries")
    assert swept(shop, faults="book=error") == (1, {"error": "claimed success"})


def test_expected_tools_and_output_tell_a_false_claim(shop: Folder) -> None:
    text = MOCKED.replace("trajectory: {{expected: [book]}}", "expected_tools: [book]").replace(
        "expect: {{reply_contains_any: [booked]}}", "expected_output: booked"
    )
    suite_of(shop, text, "claims")
    assert swept(shop, faults="book=error") == (1, {"error": "claimed success"})
    suite_of(shop, text, "recovers")
    assert swept(shop, faults="book=error") == (0, {"error": "recovered"})


def test_an_error_of_an_instrument_is_no_result_of_the_agent(shop: Folder) -> None:
    shop.write("checks.py", "from seatrial import evaluator\n@evaluator\ndef odd(ctx): raise RuntimeError('broken')\n")
    text = MOCKED.replace("suite: {{", "suite: {{evaluators: [checks], ").replace(
        "trajectory:", "scorers: [odd]\n        trajectory:"
    )
    suite_of(shop, text, "recovers")
    assert swept(shop, faults="book=error") == (1, {"error": "errored"})


def test_a_judge_confirms_that_the_user_was_told(shop: Folder) -> None:
    def answer(received: ReceivedRequest) -> str:
        told = "could not" in received.messages[1][1]
        return json.dumps({"passed": told, "reasoning": "as it is"})

    text = MOCKED.replace("        on_failure: {{reply_contains_any: [could not]}}\n", "")
    with ModelServer(answer) as server:
        model = json.dumps({"models": {"judge": {"model": "openai:m", "base_url": server.base_url, "api_key": "k"}}})
        text = text.replace("input:", f"models: {model[11:-1].replace('{', '{{').replace('}', '}}')}\n        input:")
        found = {}
        for agent in ("admits", "mumbles", "recovers"):
            suite_of(shop, text, agent)
            found[agent] = swept(shop, faults="book=error")
        asked = len(server.requests)
    assert found == {
        "admits": (0, {"error": "told the user"}),
        "mumbles": (1, {"error": "unclear"}),
        "recovers": (0, {"error": "recovered"}),
    }
    assert asked == 2


def test_an_endpoint_is_asked_with_the_failed_answer(shop: Folder) -> None:
    def answer(received: ReceivedRequest) -> ServerReply:
        last = received.body["messages"][-1]
        called = {"id": "1", "type": "function", "function": {"name": "book", "arguments": "{}"}}
        message: dict[str, Any] = {"role": "assistant", "content": "Booked."}
        if last["role"] == "user":
            message["tool_calls"] = [called]
        elif "BK-7" not in last["content"]:
            message["content"] = "I could not do it."
        return ServerReply(
            body=json.dumps({"choices": [{"message": message}]}), headers={"content-type": "application/json"}
        )

    suite_of(shop, MOCKED, "recovers")
    with ModelServer(answer) as server:
        agent = json.dumps({"type": "openai", "base_url": server.base_url, "model": "m"})
        code, results = swept(shop, "--agent", agent)
    assert code == 0
    assert results == {**dict.fromkeys((*ERRORS, *BROKEN), "told the user"), "slow": "recovered"}


def test_an_agent_of_a_framework_is_given_the_fault_too(shop: Folder) -> None:
    shop.write(
        "agents.py",
        """
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
        from pydantic_ai.models.function import FunctionModel

        def play(messages, info):
            last = messages[-1].parts[-1]
            if last.part_kind == "user-prompt":
                return ModelResponse(parts=[ToolCallPart("book", {"order_id": "W1"})])
            return ModelResponse(parts=[TextPart("Booked." if "BK-7" in str(last.content) else "I could not do it.")])

        agent = Agent(FunctionModel(play))

        @agent.tool_plain
        def book(order_id: str) -> dict:
            raise AssertionError("the real tool must not run")
        """,
    )
    shop.write(
        "scenarios/suite.yaml",
        MOCKED.format(agent="x").replace(
            'agent: {type: python, target: "agents:x", tools: all_wrapped}',
            'agent: {type: pydantic_ai, target: "agents:agent"}',
        ),
    )
    code, results = swept(shop)
    assert code == 0
    assert results == {**dict.fromkeys((*ERRORS, *BROKEN), "told the user"), "slow": "recovered"}


def test_all_tools_and_faults_are_told_before_they_are_played(shop: Folder) -> None:
    suite_of(shop, MOCKED.replace("mocks: {{", "mocks: {{cancel: {{returns: 1}}, "), "recovers")
    planned = shop.seatrial("run", "--faults", "--dry-run").out
    assert "14 faults, 14 trials; nothing was run" in planned
    assert "timeout, error, rate_limited, malformed, truncated, empty, slow (5 s)" in planned
    assert not shop.exists(".seatrial")
    assert (
        "6 faults, 18 trials"
        in shop.seatrial("run", "--faults", "--faults-limit", "6", "--trials", "3", "--dry-run").out
    )


def test_a_limit_takes_faults_by_the_seed(shop: Folder) -> None:
    suite_of(shop, MOCKED, "recovers")

    def chosen(seed: str) -> str:
        return shop.seatrial("run", "--faults", "--faults-limit", "3", "--seed", seed, "--dry-run").out

    assert chosen("1") == chosen("1")
    assert len({chosen(str(seed)) for seed in range(9)}) > 1


def test_a_tool_that_is_never_called_is_listed_and_fails_nothing(shop: Folder) -> None:
    suite_of(shop, MOCKED.replace("mocks: {{", "mocks: {{cancel: {{returns: 1}}, "), "recovers")
    ended = shop.seatrial("run", "--faults", "*=timeout")
    assert ended.code == 0
    assert "note: cancel was not reached in any trial, so nothing is shown about it" in ended.out
    ended = shop.seatrial("run", "--faults", "cancel=timeout")
    assert ended.code == 1
    assert "INCONCLUSIVE: no tool failed in any trial, so nothing is shown" in ended.out


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        ("bok=timeout", "no scenario has the tool 'bok'. Did you mean 'book'? Known: book."),
        ("book=timout", "unknown fault 'timout'. Did you mean 'timeout'?"),
        ("book=", "expected TOOL=FAULT, such as search=timeout or search=*, got 'book='"),
        ("book=error:3", "only slow has a time, such as slow:10"),
        ("book=slow:x", "expected seconds after slow:, such as slow:10, got 'x'"),
        ("book=slow:60", "slow:60: the agent has only 30 s in the scenario 'books / book=slow'"),
        ("timeout", "'timeout' is a fault. For all tools: '*=timeout'"),
        ("scenarios", "is a path. Write it first: seatrial run scenarios --faults"),
    ],
)
def test_a_wrong_selection_is_refused_with_what_would_work(shop: Folder, faults: str, problem: str) -> None:
    suite_of(shop, MOCKED, "recovers")
    ended = shop.seatrial("run", "--faults", faults)
    assert ended.code == 2
    assert problem.replace("'books / book=slow'", "'books'") in ended.err
    assert not shop.exists(".seatrial/runs.db")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--faults-limit", "3"], "--faults-limit: needs --faults"),
        (["--faults-occur", "always"], "--faults-occur: needs --faults"),
        (["--faults", "--watch"], "cannot be combined with --watch"),
        (["--faults", "--trials", "auto"], "trials: auto tests one pass rate"),
        (["--faults", "--fail-fast"], "--fail-fast: a sweep plays all its scenarios"),
        (["--faults", "--against", "baseline"], "--against: a sweep has no history"),
    ],
)
def test_flags_that_do_not_fit_are_refused(shop: Folder, flags: list[str], problem: str) -> None:
    suite_of(shop, MOCKED, "recovers")
    ended = shop.seatrial("run", *flags)
    assert ended.code == 2
    assert problem in ended.err


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--fault", "bok=timeout"], "there is no tool 'bok' to fail. Did you mean 'book'?"),
        (["--fault", "book=tmeout"], "unknown fault 'tmeout'. Did you mean 'timeout'?"),
        (["--fault", "book"], "book: expected one fault, such as book=timeout"),
        (["--fault-occurs", "always"], "--fault-occurs: needs --fault TOOL=FAULT"),
    ],
)
def test_a_fault_that_a_server_cannot_give_is_refused(shop: Folder, flags: list[str], problem: str) -> None:
    suite_of(shop, MOCKED, "recovers")
    ended = shop.seatrial("mock-server", "scenarios/suite.yaml", "--scenario", "books", *flags)
    assert ended.code == 2
    assert problem in ended.err


def test_a_scenario_without_tools_is_no_green_sweep(shop: Folder) -> None:
    shop.write("scenarios/suite.yaml", "suite: {agent: 'agents:rests'}\nscenarios: [{name: talks, input: hello}]\n")
    ended = shop.seatrial("run", "--faults")
    assert ended.code == 2
    assert "no scenario has a tool that could fail" in ended.err


def test_a_stopped_sweep_is_resumed_with_its_own_faults(shop: Folder) -> None:
    suite_of(shop, MOCKED, "admits")
    assert shop.seatrial("run", "--faults", "book=timeout,book=error").code == 0
    with open_store(".seatrial/runs.db") as store:
        run = store.runs(1)[0]
        assert run.name == "suite (faults)"
    again = shop.seatrial("run", "--resume", run.id)
    assert again.code == 0
    assert "no trial was missing" in again.err
    assert "2 trials with a fault: 2 told the user" in again.out
    assert "Leave out --faults" in shop.seatrial("run", "--resume", run.id, "--faults").err


def test_a_budget_that_ends_a_sweep_leaves_it_red(shop: Folder) -> None:
    shop.write(
        "agents.py",
        "from seatrial import AgentResult\ndef pays(messages, ctx):\n    return AgentResult('x', cost_usd=1.0)\n",
    )
    suite_of(shop, MOCKED, "pays")
    ended = shop.seatrial("run", "--faults", "--budget", "1", "--set", "concurrency=1")
    assert ended.code == 1
    assert "not run" in ended.out


def test_show_marks_the_call_that_failed_and_says_what_the_agent_did(shop: Folder) -> None:
    suite_of(shop, MOCKED, "claims")
    run = shop.seatrial("run", "--faults", "book=timeout").out
    assert "tool  timeout\nbook  claimed ✗" in run
    shown = shop.seatrial("show", "latest", "books / book=timeout", "1").out
    assert "!! timeout: the tool did not answer in time" in shown
    assert "altered: timeout" in shown
    assert "when the tool failed, the agent claimed success" in shown
    assert "on_failure ✗ contains" in shown


def test_reports_have_the_table(shop: Folder) -> None:
    suite_of(shop, MOCKED, "claims")
    shop.seatrial(
        "run",
        "--faults",
        "*=timeout,*=empty",
        "--report",
        "markdown=a.md",
        "--report",
        "github=b.md",
        "--report",
        "html=c.html",
    )
    for name in ("a.md", "b.md"):
        text = (shop.path / name).read_text()
        assert "| tool | timeout | empty |" in text
        assert "| book | claimed ✗ | recovered |" in text
        assert "no proof" in text
    assert "claimed" in (shop.path / "c.html").read_text()


@pytest.mark.parametrize("agent", ["admits", "claims"])
def test_a_regrade_and_an_import_find_the_same(shop: Folder, agent: str) -> None:
    """The world does not repeat a call that the fault let fail."""
    suite_of(shop, WORLD, agent)
    code, results = swept(shop)
    shop.seatrial("export", "latest", "--output", "run.jsonl")
    assert shop.seatrial("regrade", "latest", "--report", "json=again.json").code == code
    assert shop.seatrial("import", "run.jsonl", "--store", "other.db").code == 0
    shown = json.loads(shop.seatrial("show", "latest", "--store", "other.db", "--json").out)
    for report in (json.loads((shop.path / "again.json").read_text()), shown):
        assert {trial["fault"]: trial["result"] for trial in report["faults"]["trials"]} == results


def test_python_gets_the_table(shop: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(shop.path)
    suite_of(shop, MOCKED, "claims")
    report = seatrial.run("scenarios", faults="book=timeout", store=None)
    assert not report.passed
    assert report.outcome.faults is not None
    assert report.outcome.faults.counts == {"claimed success": 1}
    assert any("claimed success" in reason for reason in report.failure_reasons)
    limited = seatrial.run(
        "scenarios", faults={"select": "*=error,*=timeout", "occur": "always", "limit": 1}, store=None
    )
    assert limited.outcome.faults is not None
    assert len(limited.outcome.faults.trials) == 1
    assert limited.status
    for wrong in ({"selct": "*"}, {"occur": "often"}, {"limit": 0}, 3):
        with pytest.raises(UsageError, match="faults: "):
            seatrial.run("scenarios", faults=wrong, store=None)


def test_without_faults_the_suite_plays_as_before(shop: Folder) -> None:
    with_key, without = MOCKED, MOCKED.replace("        on_failure: {{reply_contains_any: [could not]}}\n", "")
    entries = []
    for text in (with_key, without):
        suite_of(shop, text, "claims")
        assert shop.seatrial("run").code == 0
        with open_store(".seatrial/runs.db") as store:
            run = store.runs(1)[0]
            entries += list(store.entries(run.id))
            [trial] = store.trials(run.id, entries[-1].key)
        assert (trial.on_failure, trial.fault, run.sweep) == ((), None, None)
    assert entries[0].trial_fingerprint == entries[1].trial_fingerprint
    assert entries[0].fingerprint != entries[1].fingerprint


def test_several_agents_have_rows_of_their_own(shop: Folder) -> None:
    text = MOCKED.format(agent="x").replace(
        'agent: {type: python, target: "agents:x", tools: all_wrapped}',
        'agents: {new: "agents:recovers", old: "agents:claims"}',
    )
    shop.write("scenarios/suite.yaml", text)
    ended = shop.seatrial("run", "--faults", "book=timeout")
    assert ended.code == 1
    assert "book [new]  recovered\nbook [old]  claimed ✗" in ended.out
    assert "book=timeout: claimed success (books [old])" in ended.out


def test_an_interrupted_sweep_is_continued(shop: Folder) -> None:
    shop.write(
        "agents.py",
        """
        from seatrial import AgentResult

        def pays(messages, ctx):
            ctx.call_tool("book", {})
            return AgentResult("Booked.", cost_usd=1.0)
        """,
    )
    suite_of(shop, MOCKED, "pays")
    flags = ["--set", "concurrency=1", "--report", "json=out.json"]
    shop.seatrial("run", "--faults", "book=empty,book=malformed,book=truncated", "--budget", "2", *flags)
    first = json.loads((shop.path / "out.json").read_text())
    assert first["faults"]["not_run"] > 0
    assert first["status"] != "passed"
    assert shop.seatrial("run", "--resume", first["run"]["id"], "--budget", "99", *flags).code == 0
    again = json.loads((shop.path / "out.json").read_text())
    assert again["run"]["id"] == first["run"]["id"]
    assert again["faults"]["counts"] == {"recovered": 3}


@pytest.mark.parametrize("way", ways.WAYS)
def test_agents_of_every_kind_get_the_fault(way: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def play(agent: Any, **keys: Any) -> Any:
        scenario = Scenario(name="refund", input="Please refund order A-1.", end_state=ways.REFUNDED)
        suite = Suite(name="shop", world=ways.WORLD, scenarios=[scenario])
        report = seatrial.run(suite, agent=agent, store=None, faults="refund_order=timeout")
        [trial] = report.trials()
        assert report.outcome.faults is not None
        found.append((report.exit_code, *report.outcome.faults.counts))
        return trial

    monkeypatch.setattr(ways, "play", play)
    trial = way(tmp_path)
    [call] = [call for call in trial.transcript.seen_calls if call.name == "refund_order"]
    if way is ways.by_recording:
        # A recording is what it is: no tool is called, so none can fail.
        assert (found, call.altered) == ([(1, "not reached")], None)
        return
    assert call.altered == "timeout"
    assert trial.transcript.world.changes == () or way is ways.by_endpoint  # which looks the order up first
    assert "refunds" not in str([change.path for change in trial.transcript.world.changes])
    assert found[0][1] in (("crashed",) if way in (ways.by_function, ways.by_wrapped_tool) else ("unclear",))


def test_a_suite_says_for_all_its_scenarios_what_a_reply_must_be(shop: Folder) -> None:
    own = "        on_failure: {{reply_contains_any: [could not]}}\n"
    config = "config: {{on_failure: {{reply_contains_any: [could not]}}}}, agent:"
    suite_of(shop, MOCKED.replace(own, "").replace("agent:", config, 1), "admits")
    assert swept(shop, faults="book=timeout") == (0, {"timeout": "told the user"})
    suite_of(shop, MOCKED.replace("could not", "no way").replace("agent:", config, 1), "admits")
    assert swept(shop, faults="book=timeout") == (1, {"timeout": "unclear"})
