"""`seatrial regrade`: stored conversations, judged by what the files say now."""

import json
from typing import Any

import pytest

from seatrial.model.run import RunState
from seatrial.store.store import open_store

AGENT = """
    from seatrial import AgentResult

    def answer(input):
        with open("called", "a") as called: called.write(input + "\\n")
        if input == "breaks": raise RuntimeError("broken")
        return AgentResult(output=f"hello {input}", tool_calls=["greet"])
"""


def write_suite(folder: Any, expectations: dict[str, dict[str, Any]], **config: Any) -> None:
    scenarios = [{"name": name, "input": name, **keys} for name, keys in expectations.items()]
    suite = {"name": "greetings", "agent": "agent:answer", "config": config}
    folder.write("scenarios/greetings.yaml", json.dumps({"suite": suite, "scenarios": scenarios}))


@pytest.fixture
def played(folder: Any) -> Any:
    """A run of two trials each: a passed, b failed, and one errored."""
    folder.write("agent.py", AGENT)
    write_suite(folder, {"a": {}, "b": {"expected_output": "bye"}, "breaks": {}}, trials=2)
    assert folder.seatrial("run", "--seed", "4", "--name", "first").code == 1
    (folder.path / "called").unlink()
    return folder


@pytest.fixture
def whole(folder: Any) -> Any:
    """A run that passed."""
    folder.write("agent.py", AGENT)
    write_suite(folder, {"a": {}})
    assert folder.seatrial("run").code == 0
    return folder


def statuses(folder: Any, ref: str = "latest") -> dict[str, str]:
    results = json.loads(folder.seatrial("show", ref, "--json").out)
    return {one["name"]: one["status"] for one in results["scenarios"]}


def test_a_regrade_judges_by_the_edited_expectations_and_keeps_the_old_verdicts(played: Any) -> None:
    first = played.results()
    write_suite(
        played, {"a": {"expected_output": "bye"}, "b": {"trajectory": {"expected": [{"name": "greet"}]}}, "breaks": {}}
    )

    ended = played.seatrial("regrade", "first", "--name", "second")

    assert ended.code == 1
    assert statuses(played, "second") == {"a": "failed", "b": "passed", "breaks": "errored"}
    second = played.results()
    assert second["run"]["parent"] == first["run"]["id"]
    assert (second["run"]["name"], second["run"]["seed"], second["run"]["state"]) == ("second", 4, "finished")
    assert json.loads(played.seatrial("show", "first", "--json").out) == first
    assert not played.exists("called"), "no agent is called"


def test_a_regrade_without_an_edit_comes_to_the_same(played: Any) -> None:
    first = played.results()

    ended = played.seatrial("regrade", "first")

    second = played.results()
    assert ended.code == 1
    assert second["run"]["id"] != first["run"]["id"]
    del first["run"], second["run"]
    assert second == first, "conversations, times and results included"


def test_a_regrade_needs_no_agent_and_none_of_its_variables(played: Any) -> None:
    agent = {"type": "http", "url": "http://127.0.0.1:9/${NOWHERE}", "headers": {"x-api-key": "${NO_SUCH_KEY}"}}
    text = (played.path / "scenarios/greetings.yaml").read_text()
    (played.path / "scenarios/greetings.yaml").write_text(text.replace('"agent:answer"', json.dumps(agent)))
    (played.path / "agent.py").unlink()

    assert played.seatrial("regrade", "first").code == 1
    assert statuses(played) == {"a": "passed", "b": "failed", "breaks": "errored"}


def test_scenarios_that_are_gone_are_listed_and_new_ones_are_not_invented(played: Any) -> None:
    write_suite(played, {"a": {}, "new": {}})

    ended = played.seatrial("regrade", "first")

    assert ended.code == 0
    assert "no longer in the files" in ended.err
    assert "greetings  b" in ended.err
    assert "greetings  breaks" in ended.err
    assert statuses(played) == {"a": "passed"}


def test_a_regrade_of_nothing_is_no_pass(played: Any) -> None:
    write_suite(played, {"new": {}})

    ended = played.seatrial("regrade", "first")

    assert ended.code == 2
    assert "none of its scenarios is in" in ended.err


def test_trials_that_were_not_played_are_no_pass_in_a_regrade(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    write_suite(folder, {"breaks": {}, "a": {}}, concurrency=1)
    folder.seatrial("run", "--fail-fast")
    write_suite(folder, {"breaks": {"skip": "broken"}, "a": {}})

    ended = folder.seatrial("regrade", "latest")

    assert ended.code == 1
    assert statuses(folder) == {"breaks": "not_run", "a": "not_run"}


def test_as_many_trials_are_judged_as_were_played(played: Any) -> None:
    write_suite(played, {"a": {}}, trials=5)

    assert played.seatrial("regrade", "first").code == 0
    assert len(played.results()["scenarios"][0]["trials"]) == 2


WAVERING = """
    from itertools import count

    calls = count()

    def answer(input): return "hello" if next(calls) else "no"
"""


@pytest.mark.parametrize(
    ("edited", "status"),
    [({"trials": "auto"}, "passed"), ({"threshold": 1.0}, "failed"), ({"threshold": 0.9}, "passed")],
    ids=["not edited", "every one", "most"],
)
def test_trials_that_a_sequential_test_asked_for_are_judged_by_the_rule_that_the_files_have_now(
    folder: Any, edited: dict[str, Any], status: str
) -> None:
    folder.write("agent.py", WAVERING)
    write_suite(folder, {"a": {"expected_output": "hello", "trials": "auto"}}, concurrency=1)
    assert folder.seatrial("run").code == 0
    write_suite(folder, {"a": {"expected_output": "hello", **edited}})

    ended = folder.seatrial("regrade", "latest")

    assert (ended.code, statuses(folder)) == (0 if status == "passed" else 1, {"a": status})


def test_a_sequential_test_that_needs_more_trials_than_were_played_has_no_answer_in_a_regrade(whole: Any) -> None:
    write_suite(whole, {"a": {"trials": "auto"}})

    ended = whole.seatrial("regrade", "latest")

    assert (ended.code, statuses(whole)) == (1, {"a": "not_run"})


def test_a_regrade_may_take_its_expectations_from_other_files(played: Any) -> None:
    suite = {"suite": {"name": "greetings"}, "scenarios": [{"name": "b", "input": "b", "expected_output": "hello"}]}
    played.write("strict.yaml", json.dumps({**suite, "suite": {"name": "greetings", "agent": "agent:answer"}}))

    assert played.seatrial("regrade", "first", "strict.yaml").code == 0
    assert statuses(played) == {"b": "passed"}


def test_a_regrade_cannot_be_resumed(played: Any) -> None:
    played.seatrial("regrade", "first", "--name", "second")

    ended = played.seatrial("run", "--resume", "second")

    assert ended.code == 2
    assert "Start again: seatrial regrade" in ended.err


def test_an_evaluator_that_was_broken_is_asked_again(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("checks.py", "from seatrial import evaluator\n\n@evaluator\ndef fair(ctx):\n    return 1 / 0\n")
    suite = {"suite": {"name": "s", "agent": "agent:answer", "evaluators": ["checks"]}}
    folder.write("s.yaml", json.dumps({**suite, "scenarios": [{"name": "a", "input": "a", "scorers": ["fair"]}]}))
    assert folder.process("run", "s.yaml").code == 1
    assert statuses(folder) == {"a": "errored"}
    folder.write("checks.py", "from seatrial import evaluator\n\n@evaluator\ndef fair(ctx):\n    return True\n")

    assert folder.process("regrade", "latest").code == 0
    assert statuses(folder) == {"a": "passed"}


def test_a_conversation_in_which_the_user_said_something_else_is_not_judged_by_a_regrade(played: Any) -> None:
    write_suite(played, {"a": {"input": "cancel everything", "expected_output": "hello"}})

    ended = played.seatrial("regrade", "first")

    assert ended.code == 1
    assert statuses(played) == {"a": "errored"}
    said = "in turn 1 the scenario's user says 'cancel everything', but in the stored conversation 'a'"
    assert said in ended.out
    write_suite(played, {"a": {"expected_output": "hello"}})
    assert played.seatrial("regrade", "latest").code == 0, "the conversation itself was kept"


def test_words_that_were_redacted_are_the_same_words_to_a_regrade(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "sesame-open-12")
    folder.write("agent.py", AGENT)
    write_suite(folder, {"a": {"input": "my token is sesame-open-12"}})
    assert folder.seatrial("run").code == 0

    assert folder.seatrial("regrade", "latest").code == 0


def test_a_regrade_of_an_interrupted_run_is_no_pass_and_says_why(whole: Any) -> None:
    with open_store(".seatrial/runs.db") as store:
        run = store.run("latest")
        store.finish_run(run.id, RunState.INTERRUPTED, run.started_at)

    ended = whole.seatrial("regrade", run.id)

    assert ended.code == 130
    assert whole.results()["run"]["state"] == "interrupted"
    assert "PASS" not in ended.out
    assert "the run was interrupted" in ended.out
    assert f"To judge all: seatrial regrade {run.id}" in ended.out
    assert f"run {run.id} was interrupted, so only a part was judged" in ended.err
    assert f"seatrial run --resume {run.id}" in ended.err
    assert whole.seatrial("regrade", "latest").code == 130, "judged once more it is no more whole"


def test_a_regrade_of_a_run_that_was_killed_is_no_pass(whole: Any) -> None:
    with open_store(".seatrial/runs.db") as store:
        run = store.run("latest")
        store.resume_run(run.id)

    ended = whole.seatrial("regrade", run.id)

    assert ended.code == 130
    assert f"run {run.id} has not finished, so only a part was judged" in ended.err


def test_a_regrade_of_a_run_that_lacks_shards_is_no_pass_and_says_which(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    write_suite(folder, {"a": {}, "b": {}, "c": {}})
    for number in ("1", "3"):
        folder.seatrial("run", "--shard", f"{number}/3", "--store", "part.db")
        folder.seatrial("export", "--store", "part.db", "-o", f"part{number}.jsonl")
    folder.seatrial("import", "part1.jsonl", "part3.jsonl")

    ended = folder.seatrial("regrade", "latest")

    assert ended.code == 130
    assert "PASS" not in ended.out
    assert "lacks shard 2, so only a part was judged" in ended.err
    assert "seatrial import FILE" in ended.err
