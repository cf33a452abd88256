"""Recordings from the command line: stored as runs, judged by suites, and made into scenarios."""

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.scenarios.yaml_files import parse_value
from seatrial.testing.model_server import ModelServer, ReceivedRequest

FIXTURES = Path(__file__).parent.parent / "traces" / "fixtures"
FAILED = "promptfoo"
"""A recording in which the agent failed: its scenario cannot pass on the replay."""
ALL = sorted(path.name for path in FIXTURES.glob("*.json*") if path.stem != FAILED)
USERS = ["Where is order ORD-789?", "Please refund it."]


def copied(folder: Any, name: str) -> str:
    file = name if "." in name else f"{name}.json"
    (folder.path / file).write_bytes((FIXTURES / file).read_bytes())
    return file


def write_suite(folder: Any, *scenarios: dict[str, Any], **suite: Any) -> str:
    folder.write("suite.yaml", json.dumps({"suite": {"name": "shop", **suite}, "scenarios": list(scenarios)}))
    return "suite.yaml"


def a_scenario(**keys: Any) -> dict[str, Any]:
    return {"name": "order", "turns": [{"user": user} for user in USERS], **keys}


def statuses(folder: Any) -> dict[str, str]:
    return {one["name"]: one["status"] for one in folder.results()["scenarios"]}


@pytest.mark.parametrize("name", ALL)
def test_a_scenario_made_of_a_recording_passes_on_its_replay(name: str, folder: Any) -> None:
    file = copied(folder, name)

    written = folder.seatrial("scenario", "from-trace", file, "-o", "scenarios/made.yaml")
    ended = folder.seatrial("run", "scenarios/made.yaml")

    assert written.code == 0, written.err
    assert ended.code == 0, ended.out


@pytest.mark.parametrize("name", ALL)
def test_a_recording_is_judged_by_the_scenario_made_of_it(name: str, folder: Any) -> None:
    file = copied(folder, name)
    folder.seatrial("scenario", "from-trace", file, "-o", "made.yaml")

    ended = folder.seatrial("import-trace", file, "--suite", "made.yaml")

    assert ended.code == 0, ended.out + ended.err


def test_a_scenario_made_of_a_failed_recording_expects_a_reply(folder: Any) -> None:
    folder.seatrial("scenario", "from-trace", copied(folder, FAILED), "-o", "made.yaml")

    ended = folder.seatrial("run", "made.yaml")

    assert ended.code == 1
    assert statuses(folder) == {"finds an order": "passed", "test 1": "errored", "test 2": "passed"}


def test_a_written_scenario_has_turns_mocks_and_first_expectations(folder: Any) -> None:
    ended = folder.seatrial("scenario", "from-trace", copied(folder, "anthropic"))

    (made,) = parse_value(ended.out)["scenarios"]
    assert made["system"] == "You are the shop's assistant."
    assert [turn["user"] for turn in made["turns"]] == USERS
    assert made["turns"][0]["expect"] == {"reply_contains_all": ["ORD-789"]}
    assert made["mocks"] == {
        "lookup_order": {"returns": {"status": "shipped", "eta": "Friday"}},
        "refund": {"sequence": [{"raises": "the refund service is down"}, {"returns": {"refund_id": "RF-1"}}]},
    }
    assert made["trajectory"]["mode"] == "in_order"
    assert made["trajectory"]["expected"][0] == {"name": "lookup_order", "args": {"order_id": "ORD-789"}}
    assert ended.out.startswith("# 3 texts of the agent before a tool call were left out\n")


def test_the_mocks_of_a_written_scenario_answer_another_agent(folder: Any) -> None:
    folder.write(
        "agent.py",
        """
        from seatrial import ToolError

        def answer(messages, ctx):
            if ctx.turn == 0:
                return "ORD-789 has " + ctx.call_tool("lookup_order", order_id="ORD-789")["status"]
            try:
                ctx.call_tool("refund", order_id="ORD-789", amount=12.5)
            except ToolError:
                return ctx.call_tool("refund", order_id="ORD-789", amount=12.5)["refund_id"]
        """,
    )
    folder.seatrial("scenario", "from-trace", copied(folder, "anthropic"), "-o", "made.yaml")

    assert folder.seatrial("run", "made.yaml", "--agent", "agent:answer").code == 0


def test_only_the_conversation_that_is_named_is_written(folder: Any) -> None:
    lines = [{"id": name, "messages": [{"role": "user", "content": name}]} for name in ("one", "two", "three")]
    folder.write("chat.jsonl", "\n".join(map(json.dumps, lines)))

    ended = folder.seatrial("scenario", "from-trace", "chat.jsonl", "--conversation", "two")
    wrong = folder.seatrial("scenario", "from-trace", "chat.jsonl", "--conversation", "four")

    assert [one["name"] for one in parse_value(ended.out)["scenarios"]] == ["two"]
    assert wrong.code == 2
    assert "no conversation is called 'four'. There are: one, two, three" in wrong.err


def test_a_scenario_file_is_never_written_over(folder: Any) -> None:
    file = copied(folder, "anthropic")
    folder.write("made.yaml", "mine")

    ended = folder.seatrial("scenario", "from-trace", file, "--output", "made.yaml")

    assert ended.code == 2
    assert "made.yaml: exists already" in ended.err
    assert (folder.path / "made.yaml").read_text() == "mine"


def test_a_conversation_without_a_user_cannot_become_a_scenario(folder: Any) -> None:
    folder.write("chat.json", '[{"role": "assistant", "content": "Hello?"}]')

    ended = folder.seatrial("scenario", "from-trace", "chat.json")

    assert ended.code == 2
    assert "conversation 'chat': the user says nothing in turn 1" in ended.err


def test_a_turn_without_a_reply_is_told_and_asserts_nothing(folder: Any) -> None:
    folder.write("chat.json", '[{"role": "user", "content": "hi"}]')

    ended = folder.seatrial("scenario", "from-trace", "chat.json", "-o", "made.yaml")

    text = (folder.path / "made.yaml").read_text()
    assert ended.code == 0
    assert "# chat: no reply was recorded in turn 1, so none is expected there\n" in text
    refused = folder.seatrial("run", "made.yaml")
    assert (refused.code, "nothing is asserted, so every conversation would pass" in refused.err) == (2, True)


def test_searches_that_look_like_matchers_are_not_taken_for_them(folder: Any) -> None:
    call = {"id": "1", "function": {"name": "find", "arguments": '{"where": {"$gt": 5}, "text": "' + "x" * 99 + '"}'}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "assistant", "content": "ok"},
    ]
    folder.write("chat.json", json.dumps(messages))

    folder.seatrial("scenario", "from-trace", "chat.json", "-o", "made.yaml")

    (made,) = parse_value((folder.path / "made.yaml").read_text())["scenarios"]
    assert made["trajectory"]["expected"][0]["args"] == {"where": {"$any": True}, "text": {"$type": "string"}}
    assert folder.seatrial("run", "made.yaml").code == 0


def test_recordings_without_a_suite_are_stored_and_are_no_pass(folder: Any) -> None:
    ended = folder.seatrial("import-trace", copied(folder, "anthropic"), copied(folder, "openinference"), "--name", "x")

    assert ended.code == 1
    assert "nothing was checked, so the run did not pass" in ended.err
    assert "anthropic.json: 3 texts of the agent before a tool call were left out" in ended.err
    results = folder.results()
    assert statuses(folder) == {"anthropic": "errored", "session-7": "errored"}
    assert results["run"]["name"] == "x"
    assert results["run"]["replayed"] is True
    assert results["scenarios"][0]["trials"][0]["turns"][1]["reply"] == "Done: your refund is RF-1."


def test_what_nobody_knows_in_a_recording_is_stored_and_exported(folder: Any) -> None:
    file = copied(folder, "openai-chat-broken")
    path = folder.path / file
    document = json.loads(path.read_text("utf-8"))
    document["messages"][0]["x_mood"] = "grumpy"
    path.write_text(json.dumps(document), "utf-8")

    folder.seatrial("import-trace", file)
    folder.seatrial("export", "latest", "-o", "run.jsonl")

    lines = [json.loads(line) for line in (folder.path / "run.jsonl").read_text("utf-8").splitlines()]
    (trial,) = [line["trial"] for line in lines if "trial" in line]
    assert trial["transcript"]["recorded"] == document


def test_a_stored_recording_can_be_shown_and_regraded(folder: Any) -> None:
    file = copied(folder, "anthropic")
    folder.seatrial("import-trace", file)
    folder.seatrial("scenario", "from-trace", file, "-o", "made.yaml")

    shown = folder.seatrial("show", "latest", "anthropic")
    regraded = folder.seatrial("regrade", "latest", "made.yaml")

    assert "Order ORD-789 has shipped" in shown.out
    assert regraded.code == 0, regraded.err


def test_a_conversation_is_judged_by_the_scenario_whose_user_says_the_same(folder: Any) -> None:
    suite = write_suite(folder, a_scenario(expect={"tool_calls_exclude": ["refund"]}))

    ended = folder.seatrial("import-trace", copied(folder, "openai-chat"), "--suite", suite)

    assert ended.code == 1
    assert statuses(folder) == {"order": "failed"}


def test_a_conversation_is_judged_by_the_scenario_of_its_name(folder: Any) -> None:
    simulated = {"name": "session-7", "user": {"goal": "a refund"}, "expect": {"reply_contains_any": ["RF-1"]}}
    suite = write_suite(folder, simulated)

    ended = folder.seatrial("import-trace", copied(folder, "openinference"), "--suite", suite)

    assert ended.code == 0, ended.out + ended.err
    assert statuses(folder) == {"session-7": "passed"}


def test_several_conversations_of_a_scenario_are_its_trials(folder: Any) -> None:
    def line(reply: str) -> str:
        return json.dumps({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": reply}]})

    folder.write("chat.jsonl", "\n".join(map(line, ("hello", "bye", "hello"))))
    suite = write_suite(folder, {"name": "greets", "input": "hi", "expected_output": "hello", "trials": 7})

    ended = folder.seatrial("import-trace", "chat.jsonl", "--suite", suite)

    (scenario,) = folder.results()["scenarios"]
    assert ended.code == 1
    assert [trial["status"] for trial in scenario["trials"]] == ["passed", "failed", "passed"]


@pytest.mark.parametrize("files", [["chat.jsonl"] * 29, ["copies.jsonl"]], ids=["one file again", "one line again"])
def test_a_conversation_counts_once_however_often_it_is_there(folder: Any, files: list[str]) -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    line = json.dumps({"conversation_id": "c1", "messages": said})
    folder.write("chat.jsonl", line)
    folder.write("copies.jsonl", "\n".join([line] * 29))
    gate = {"pass_rate": 0.9, "confidence": 0.95}
    suite = write_suite(folder, {"name": "greets", "input": "hi", "expected_output": "hello", "gate": gate})

    ended = folder.seatrial("import-trace", *files, "--suite", suite)

    (scenario,) = folder.results()["scenarios"]
    assert (ended.code, scenario["status"], len(scenario["trials"])) == (1, "inconclusive", 1)


def test_what_has_no_counterpart_is_listed_and_not_green(folder: Any) -> None:
    other = {"name": "other", "input": "something else"}
    suite = write_suite(folder, a_scenario(), other)
    extra = folder.write("extra.json", '[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}]')

    ended = folder.seatrial("import-trace", copied(folder, "anthropic"), extra.name, "--suite", suite)

    assert ended.code == 1
    assert statuses(folder) == {"order": "passed", "other": "not_run", "extra": "errored"}
    assert "recorded, but without a scenario:" in ended.err
    assert "extra" in ended.err
    assert "scenarios without a recording:" in ended.err
    assert "shop   other" in ended.err


def test_a_suite_that_tolerates_failures_is_still_not_green_without_all_recordings(folder: Any) -> None:
    suite = write_suite(folder, a_scenario(), config={"cases_pass_threshold": 10})
    folder.write("extra.json", '[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}]')

    ended = folder.seatrial("import-trace", copied(folder, "anthropic"), "extra.json", "--suite", suite)

    assert ended.code == 1


def test_a_scenario_of_the_same_name_but_other_words_is_an_error_with_both(folder: Any) -> None:
    suite = write_suite(folder, {"name": "anthropic", "turns": [{"user": USERS[0]}, {"user": "Thanks."}]})

    ended = folder.seatrial("import-trace", copied(folder, "anthropic"), "--suite", suite)

    assert ended.code == 1
    assert statuses(folder) == {"anthropic": "errored"}
    assert "in turn 2 the scenario's user says 'Thanks.', but in the recording 'anthropic' 'Please refund it.'" in (
        " ".join(ended.out.split())
    )


def test_a_limit_on_latency_needs_times(folder: Any) -> None:
    suite = write_suite(folder, a_scenario(limits={"latency_ms": 60_000}))

    untimed = folder.seatrial("import-trace", copied(folder, "anthropic"), "--suite", suite)
    timed = folder.seatrial("import-trace", copied(folder, "openinference"), "--suite", suite)

    assert (untimed.code, timed.code) == (1, 0)
    assert "limits.latency_ms cannot be checked" in untimed.out


def test_neither_the_agent_of_the_suite_nor_its_variables_are_needed(folder: Any) -> None:
    suite = write_suite(folder, a_scenario(), agent={"type": "http", "url": "http://127.0.0.1:9/${NOWHERE}"})

    assert folder.seatrial("import-trace", copied(folder, "anthropic"), "--suite", suite).code == 0


def test_judges_are_asked_about_recordings(folder: Any) -> None:
    def judge(request: ReceivedRequest) -> str:
        return json.dumps({"reasoning": "as it says", "passed": "RF-1" in request.messages[-1][1]})

    rubric = {"judge": {"rubric": "Says which refund it is.", "retries": 0}}
    suite = write_suite(folder, a_scenario(expect=rubric))
    with ModelServer(judge) as server:
        ended = folder.seatrial(
            "import-trace",
            copied(folder, "anthropic"),
            "--suite",
            suite,
            "--judge-model",
            f"openai:x@{server.base_url}",
        )

    assert len(server.requests) == 1
    assert ended.code == 0, ended.out


def test_secrets_are_taken_out_of_recordings(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "sesame-open-123")
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "it is sesame-open-123"}]
    folder.write("chat.json", json.dumps(messages))

    folder.seatrial("import-trace", "chat.json")

    assert "sesame" not in folder.seatrial("show", "latest", "--json").out
    kept = b"".join(file.read_bytes() for file in (folder.path / ".seatrial").iterdir() if file.is_file())
    assert b"it is [redacted]" in kept
    assert b"sesame" not in kept


def test_an_export_of_our_own_is_a_recording(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'ok', ['look_up']\n")
    suite = write_suite(folder, {"name": "asks", "input": "hi", "expected_tools": ["look_up"]}, agent="agent:answer")
    folder.seatrial("run", suite)
    folder.seatrial("export", "latest", "-o", "run.jsonl")

    replayed = folder.seatrial("run", suite, "--agent", "{type: replay, path: run.jsonl}")
    imported = folder.seatrial("import-trace", "run.jsonl", "--suite", suite)
    made = folder.seatrial("scenario", "from-trace", "run.jsonl", "-o", "made.yaml")

    assert (replayed.code, imported.code, made.code) == (0, 0, 0)
    assert folder.seatrial("run", "made.yaml").code == 0


def test_a_run_of_recordings_is_compared_and_shown_as_a_page(folder: Any) -> None:
    file = copied(folder, "openinference")
    suite = write_suite(folder, a_scenario())
    for name in ("before", "after"):
        ended = folder.seatrial("import-trace", file, "--suite", suite, "--name", name, "--report", "html=page.html")
        assert ended.code == 0

    compared = folder.seatrial("compare", "before", "after")

    assert compared.code == 0, compared.err
    assert "replayed recordings" in compared.out
    assert "lookup_order" in (folder.path / "page.html").read_text("utf-8")


def test_the_format_can_be_said(folder: Any) -> None:
    file = copied(folder, "langchain-dict")

    right = folder.seatrial("import-trace", file, "--format", "langchain", "--report", "json=out.json")
    wrong = folder.seatrial("import-trace", file, "--format", "pydantic-ai")
    unknown = folder.seatrial("import-trace", file, "--format", "xml")

    assert right.code == 1
    assert folder.exists("out.json")
    assert (wrong.code, unknown.code) == (2, 2)
    assert "no conversation was found, read as pydantic-ai" in wrong.err


def test_a_file_that_is_none_is_one_clear_line(folder: Any) -> None:
    folder.write("notes.txt", "remember the milk")

    ended = folder.seatrial("import-trace", "notes.txt")

    assert ended.code == 2
    assert ended.err.startswith("error: notes.txt: is neither JSON nor lines of JSON")
    assert not folder.exists(".seatrial/runs.db")


def test_a_log_of_words_alone_does_not_show_that_no_tool_was_called(folder: Any) -> None:
    folder.write("chat.json", '[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Deleted."}]')
    scenario = {"name": "chat", "input": "hi", "expect": {"tool_calls_exclude": ["delete"]}}
    folder.write("suite.yaml", json.dumps({"suite": {"name": "s", "agent": "a:b"}, "scenarios": [scenario]}))

    guessed = folder.seatrial("import-trace", "chat.json", "--suite", "suite.yaml")
    told = folder.seatrial("import-trace", "chat.json", "--suite", "suite.yaml", "--format", "openai-chat")

    assert (guessed.code, told.code) == (1, 0)
    assert "ERROR config: must_exclude: the agent's tool calls were not recorded" in guessed.out
    assert "chat.json: has only texts" in guessed.err


@pytest.mark.parametrize(
    "log",
    [
        {"model": "m", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]},
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello.", "tool_calls": None}],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello.", "refusal": None}],
    ],
    ids=["request", "no calls", "refusal"],
)
def test_a_log_in_which_calls_would_stand_shows_that_there_was_none(folder: Any, log: Any) -> None:
    folder.write("chat.json", json.dumps(log))
    scenario = {"name": "chat", "input": "hi", "expect": {"tool_calls_exclude": ["delete"]}}
    folder.write("suite.yaml", json.dumps({"suite": {"name": "s", "agent": "a:b"}, "scenarios": [scenario]}))

    assert folder.seatrial("import-trace", "chat.json", "--suite", "suite.yaml").code == 0
