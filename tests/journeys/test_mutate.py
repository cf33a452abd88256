"""`seatrial mutate`: what a suite notices, the lines that notice more, and wrong input told in one line."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, Scenario, Suite, ToolCall, UsageError
from seatrial.model.mutation import MutationResult
from seatrial.reports.mutation import suggestions_document
from seatrial.runs.mutate import MutationSettings, mutate_record
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

ROOT = Path(__file__).parent.parent.parent
BOOKING = "examples/booking/scenarios.yaml"

AGENT = """
    from seatrial import AgentResult, ToolCall

    def right(messages):
        calls = [ToolCall("verify_user", {"name": "Ann"}, "ok"), ToolCall("refund", {"order_id": "W1"}, {"id": "R-7"})]
        return AgentResult("It is refunded: R-7.", tool_calls=calls)
    def silent(messages):
        return "It is refunded: R-7."
    def wrong(messages):
        return "No."
"""
REFUNDS = {"name": "refunds", "input": "Refund W1, I am Ann.", "expected_output": "R-7"}


def write(folder: Any, *scenarios: dict[str, Any], agent: str = "right", **suite: Any) -> None:
    folder.write("agent.py", AGENT)
    content = {"suite": {"name": "shop", "agent": f"agent:{agent}", **suite}, "scenarios": scenarios or [REFUNDS]}
    folder.write("shop.trial.yaml", json.dumps(content))


def mutated(folder: Any, *flags: str) -> Any:
    ended = folder.seatrial("mutate", "--json", *flags)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_the_score_is_what_was_caught_by_operator_scenario_and_check(folder: Any) -> None:
    write(folder)
    folder.seatrial("run", "shop.trial.yaml")

    result = mutated(folder)

    total = result["total"]
    assert total["caught"] + total["survived"] == sum(one["caught"] + one["survived"] for one in result["operators"])
    assert result["score"] == total["caught"] / (total["caught"] + total["survived"])
    assert total["interval"]["low"] < result["score"] < total["interval"]["high"]
    by_operator = {one["name"]: (one["caught"], one["survived"]) for one in result["operators"]}
    assert by_operator["drop"] == (0, 2)
    assert by_operator["empty reply"] == (1, 0)
    assert by_operator["cut reply"] == (1, 0)
    caught = {one["check"]: one["caught"] for one in result["checks"]}
    assert caught["passfail output_produced"] == 1
    assert caught["passfail expected_output"] >= 1
    assert {one["operator"] for one in result["survivors"]} >= {"drop", "skip the check", "invented promise"}


def test_the_terminal_tells_what_nobody_noticed_and_prints_lines_to_paste(folder: Any) -> None:
    write(folder)
    folder.seatrial("run", "shop.trial.yaml")

    ended = folder.seatrial("mutate")

    assert "mutants of 1 passed trial" in ended.err
    assert "dropped verify_user({'name': 'Ann'}) in turn 1  (refunds, trial-1)" in ended.out
    assert "- never: refund\n        before: verify_user\n" in ended.out
    assert "✓ empty reply        1/1 (100.0 %)" in ended.out


def test_suggestions_are_written_to_a_file_that_the_suite_includes(folder: Any) -> None:
    write(folder)
    folder.seatrial("run", "shop.trial.yaml")
    before = mutated(folder, "--write-suggestions", "noticed.include.yaml")
    write(folder, include=["noticed.include.yaml"])

    assert folder.seatrial("run", "shop.trial.yaml").code == 0
    after = mutated(folder)

    assert before["score"] < 0.5
    assert after["score"] >= 0.9
    assert [loaded.name for loaded in seatrial.load(str(folder.path))] == ["shop"]


def test_a_score_below_the_least_one_exits_with_1(folder: Any) -> None:
    write(folder)
    folder.seatrial("run", "shop.trial.yaml")

    ended = folder.seatrial("mutate", "--min-score", "0.9")

    assert ended.code == 1
    assert "of the mutants are caught, and --min-score asks for 90.0 %" in ended.err
    assert folder.seatrial("mutate", "--min-score", "0.01").code == 0


def test_reports_are_written_as_markdown_json_page_and_github_summary(
    folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, {**REFUNDS, "input": "Refund <b>W1</b>."})
    folder.seatrial("run", "shop.trial.yaml")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder.path / "summary.md"))
    kinds = ("markdown=out.md", "json=out.json", "html=out.html", "github")

    folder.seatrial("mutate", *(part for kind in kinds for part in ("--report", kind)))

    texts = {name: (folder.path / name).read_text(encoding="utf-8") for name in ("out.md", "out.html", "summary.md")}
    assert "| drop | 0/2 |" in texts["out.md"]
    assert texts["summary.md"] == texts["out.md"]
    assert json.loads((folder.path / "out.json").read_text())["schema_version"] == 1
    page = texts["out.html"]
    assert "user: Refund &lt;b&gt;W1&lt;/b&gt;." in page
    assert "<script" not in page
    assert '<tr class="wrong"><td class="text">tool: verify_user' in page
    assert '<a href="#survivors-1">0/2</a>' in page
    assert '<div id="survivors-1">' in page


def test_the_same_seed_gives_the_same_mutants_and_a_limit_limits_them(folder: Any) -> None:
    write(folder, {**REFUNDS, "trials": 3})
    folder.seatrial("run", "shop.trial.yaml")

    first, again = (mutated(folder, "--per-operator", "2", "--seed", "7") for _ in range(2))
    other = mutated(folder, "--per-operator", "2", "--seed", "8")
    few = mutated(folder, "--limit", "5")

    assert first["survivors"] == again["survivors"]
    assert [one["what"] for one in other["survivors"]] != [one["what"] for one in first["survivors"]]
    assert max(one["caught"] + one["survived"] for one in first["operators"]) == 2
    assert few["total"]["caught"] + few["total"]["survived"] == 5


def test_a_run_of_large_size_is_sampled_within_the_limit_and_says_so(folder: Any) -> None:
    write(folder, *({**REFUNDS, "name": f"refund {number}", "trials": 3} for number in range(60)))
    assert folder.seatrial("run", "shop.trial.yaml").code == 0

    few = mutated(folder, "--limit", "25")
    more = mutated(folder, "--limit", "100")

    for found, limit in ((few, 25), (more, 100)):
        assert found["total"]["caught"] + found["total"]["survived"] == limit
        [note] = [note for note in found["notes"] if note.startswith("a sample: ")]
        assert note.startswith(f"a sample: {limit} of ")
        assert note.endswith(" possible mutants. More: --per-operator, --limit")
    assert sum(one["caught"] + one["survived"] == 1 for one in few["scenarios"]) == 25
    assert mutated(folder, "--limit", "25")["survivors"] == few["survivors"]


def test_only_one_operator_is_used_if_it_is_named(folder: Any) -> None:
    write(folder)
    folder.seatrial("run", "shop.trial.yaml")

    assert [one["name"] for one in mutated(folder, "--operator", "drop")["operators"]] == ["drop"]
    ended = folder.seatrial("mutate", "--operator", "dorp")
    assert ended.code == 2
    assert "no operator is called 'dorp'. There are: drop, duplicate" in ended.err


def test_mutants_are_kept_apart_from_runs(folder: Any) -> None:
    write(folder)
    folder.seatrial("run", "shop.trial.yaml")
    mutated(folder)
    before = folder.seatrial("list", "runs").out

    assert len(before.splitlines()) == 2
    assert folder.seatrial("show").out.startswith("run: ")
    assert folder.exists(".seatrial/mutants.db")


def test_a_run_without_passed_trials_is_told(folder: Any) -> None:
    write(folder, agent="wrong")
    folder.seatrial("run", "shop.trial.yaml")

    ended = folder.seatrial("mutate")

    assert ended.code == 2
    assert ended.err.splitlines()[-1].endswith("no trial passed, so there is nothing to mutate. Run the suite first")


def test_a_run_without_recorded_calls_has_only_replies_to_change(folder: Any) -> None:
    write(folder, agent="silent")
    folder.seatrial("run", "shop.trial.yaml")

    result = mutated(folder)

    assert "no trial has recorded calls, so only replies were changed" in result["notes"]
    named = {one["name"] for one in result["operators"] if one["caught"] + one["survived"]}
    assert named == {"empty reply", "cut reply", "invented promise", "negated reply"}


def test_trials_that_an_edited_suite_fails_are_left_out(folder: Any) -> None:
    write(folder, REFUNDS, {**REFUNDS, "name": "other"})
    folder.seatrial("run", "shop.trial.yaml")
    write(folder, REFUNDS, {**REFUNDS, "name": "other", "expected_output": "R-8"})

    result = mutated(folder)

    assert "edited since the run: 1 scenario; the current files judge the trials" in result["notes"]
    assert "left out: 1 trial; they do not pass the current files" in result["notes"]
    assert [one["name"] for one in result["scenarios"]] == ["refunds"]


def test_scenarios_that_are_gone_are_told(folder: Any) -> None:
    write(folder, REFUNDS, {**REFUNDS, "name": "other"})
    folder.seatrial("run", "shop.trial.yaml")
    write(folder, REFUNDS)
    assert "no longer in the files: 1 passed scenario of the run" in mutated(folder)["notes"]
    write(folder, {**REFUNDS, "name": "new"})

    ended = folder.seatrial("mutate")

    assert ended.code == 2
    assert "none of its passed scenarios is in shop.trial.yaml. Give their files: seatrial mutate" in ended.err


def test_recordings_are_mutated_too(folder: Any) -> None:
    messages = [{"role": "user", "content": REFUNDS["input"]}, {"role": "assistant", "content": "It is refunded: R-7."}]
    folder.write("trace.json", json.dumps({"messages": messages}))
    write(folder)
    assert folder.seatrial("import-trace", "trace.json", "--suite", "shop.trial.yaml").code == 0

    assert "the trials of the run are recordings" in mutated(folder)["notes"]


def test_a_check_without_an_answer_catches_nothing_and_is_listed_apart(folder: Any) -> None:
    folder.write(
        "mine.py",
        """
        from seatrial import evaluator

        @evaluator
        def picky(ctx):
            if len(ctx.tools_called) != 2:
                raise RuntimeError("no ruler")
            return True
        """,
    )
    write(folder, {**REFUNDS, "scorers": ["passfail", "picky"]}, evaluators=["mine"])
    folder.seatrial("run", "shop.trial.yaml")

    ended = folder.seatrial("mutate", "--json", "--operator", "drop")

    assert ended.code == 1
    assert "no mutant was judged, so nothing is known about the suite" in ended.err
    result = json.loads(ended.out)
    assert (result["score"], result["total"]["caught"], result["total"]["not_judged"]) == (None, 0, 2)
    assert "not judged: 2 mutants; evaluator 'picky': RuntimeError: no ruler" in result["notes"]


def test_without_judges_only_deterministic_checks_decide_and_no_model_is_needed(folder: Any) -> None:
    rubric = {"name": "polite", "input": "Refund W1, I am Ann.", "expect": {"judge": {"rubric": "It is polite."}}}
    write(folder, REFUNDS, rubric)
    judged = [{**REFUNDS, "name": "polite"}, REFUNDS]
    content = {"suite": {"name": "shop", "agent": "agent:right"}, "scenarios": judged}
    folder.write("plain.trial.yaml", json.dumps(content))
    folder.seatrial("run", "plain.trial.yaml")

    ended = folder.seatrial("mutate", "latest", "shop.trial.yaml", "--json")

    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["judges"] is False


def test_an_interrupted_mutation_continues(folder: Any) -> None:
    write(folder)
    folder.seatrial("run", "shop.trial.yaml")
    whole = mutated(folder)
    folder.write("shop.trial.yaml", (folder.path / "shop.trial.yaml").read_text())
    stopped: list[int] = []

    def stop(done: int, planned: int, tally: Any) -> None:
        stopped.append(done)
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _mutate(folder, MutationSettings(seed=3, on_progress=stop))
    judged: list[int] = []
    result = _mutate(folder, MutationSettings(seed=3, on_progress=lambda done, planned, tally: judged.append(done)))

    assert result.total.counted == whole["total"]["caught"] + whole["total"]["survived"]
    assert judged[-1] == result.total.counted


def _mutate(folder: Any, settings: MutationSettings) -> MutationResult:
    from seatrial.runs.report import StoredRecord
    from seatrial.runs.request import RunRequest
    from seatrial.store.store import open_store

    store = str(folder.path / ".seatrial" / "runs.db")
    with open_store(store) as opened:
        record = StoredRecord(opened, opened.run("latest"))
        request = RunRequest(sources=(str(folder.path / "shop.trial.yaml"),), store=store)
        return mutate_record(record, request, settings)


def test_reports_in_memory_are_mutated_with_their_suite() -> None:
    def agent(messages: Any) -> AgentResult:
        return AgentResult("Done: R-7.", tool_calls=[ToolCall("refund", {"order_id": "W1"}, {"id": "R-7"})])

    suite = Suite(name="shop", scenarios=[Scenario(name="refunds", input="Refund W1.", expected_output="R-7")])
    report = seatrial.run(suite, agent=agent, store=None)

    result = seatrial.mutate(report, suite, per_operator=3)

    assert 0 < (result.score or 0) < 1
    assert result.suggestions
    with pytest.raises(UsageError, match="unknown setting 'per_operators'"):
        seatrial.mutate(report, suite, per_operators=3)


def test_a_run_from_python_objects_needs_its_sources() -> None:
    suite = Suite(name="shop", scenarios=[Scenario(name="hello", input="Say hello.")])
    report = seatrial.run(suite, agent=lambda input: "Hello.", store=None)

    with pytest.raises(UsageError, match="was started from Python objects"):
        seatrial.mutate(report)


@pytest.fixture(scope="module")
def booking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MutationResult, Path]]:
    """The example's suite in a folder of its own, run and mutated."""
    folder = tmp_path_factory.mktemp("booking")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(ROOT))
        (folder / "examples" / "booking").mkdir(parents=True)
        shutil.copy(ROOT / BOOKING, folder / BOOKING)
        report = seatrial.run(str(folder / BOOKING), store=str(folder / "runs.db"))
        assert report.passed, report.failure_reasons
        yield seatrial.mutate(report, str(folder / BOOKING), store=str(folder / "runs.db")), folder


def _with(folder: Path, lines: dict[str, Any], name: str) -> str:
    """The example's suite with these lines included."""
    included = folder / "examples" / "booking" / f"{name}.include.yaml"
    included.write_text(json.dumps(lines), encoding="utf-8")
    text = (ROOT / BOOKING).read_text(encoding="utf-8")
    file = folder / "examples" / "booking" / f"{name}.yaml"
    changed = text.replace("  name: booking\n", f"  name: booking\n  include: [{included.name}]\n")
    file.write_text(changed, encoding="utf-8")
    return str(file)


def test_the_demo_goes_from_its_first_score_to_90_percent_by_suggestions(
    booking: tuple[MutationResult, Path],
) -> None:
    before, folder = booking
    file = _with(folder, suggestions_document(before.suggestions), "all")

    report = seatrial.run(file, store=str(folder / "runs.db"))
    after = seatrial.mutate(report, file, store=str(folder / "runs.db"))

    assert report.passed, report.failure_reasons
    assert (before.score or 0) < 0.5
    assert (after.score or 0) >= 0.9


def test_every_suggestion_alone_catches_the_mutants_it_names_and_passes_all_originals(
    booking: tuple[MutationResult, Path],
) -> None:
    before, folder = booking
    for number, one in enumerate(before.suggestions):
        file = _with(folder, suggestions_document([one]), f"alone{number}")

        after = seatrial.mutate(before.run, file, store=str(folder / "runs.db"))

        assert after.originals == before.originals, one
        survived = {f"{each.key.label}, trial-{each.trial + 1}: {each.what}" for each in after.survivors}
        assert survived.isdisjoint(one.catches), one


OTHER_AGENT = """
from examples.booking.agent_v1 import find_reference, find_time

def answer(messages, ctx):
    '''Another right path: checks twice, in other words, and tries again after an error.'''
    text = messages[-1]["content"].lower()
    reference = find_reference(messages)
    if "cancel" in text:
        ctx.call_tool("check_availability", {})
        ctx.call_tool("cancel_booking", {"reference": reference})
        return f"Done. {reference} was cancelled as you asked."
    time = find_time(text)
    ctx.call_tool("check_availability", {})
    if time not in ctx.call_tool("check_availability", {})["free"]:
        return f"Sorry, {time} is not free. 18:00, 19:00 and 20:00 are."
    if reference is None:
        made = ctx.call_tool("create_booking", {"time": time})
        return f"We have you down at {time}, reference {made['reference']}."
    changed = ctx.call_tool("change_booking", {"reference": reference, "time": time})
    return f"Moved from 19:00 to {changed['time']}. You keep {reference}."
"""


def test_a_right_agent_on_another_path_passes_all_suggestions(
    booking: tuple[MutationResult, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, folder = booking
    (folder / "other_agent.py").write_text(OTHER_AGENT, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    agent = {"type": "python", "target": "other_agent:answer", "tools": "all_wrapped"}
    file = _with(folder, suggestions_document(before.suggestions), "other")

    report = seatrial.run(file, agent=agent, store=None)

    assert report.passed, report.failure_reasons


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("suite: {invariants: [{never: a, befor: b}]}", "unknown key 'befor'"),
        ("scenarios: [{name: refnds, expect: {said_excludes: [x]}}]", "which the suite does not have"),
        ("suite: [", "not YAML"),
        ("scenarios: [{name: refunds, input: x}]", "unknown key 'input'"),
    ],
)
def test_a_mistake_in_an_included_file_is_told(folder: Any, content: str, message: str) -> None:
    write(folder, include=["more.include.yaml"])
    folder.write("more.include.yaml", content)

    ended = folder.seatrial("validate", "shop.trial.yaml")

    assert ended.code == 2
    assert message in ended.err


def test_what_a_suite_includes_is_added_to_what_it_has(folder: Any) -> None:
    write(folder, {**REFUNDS, "expect": {"said_contains_all": ["R-7"]}}, include=["more.include.yaml"])
    more = {"scenarios": [{"name": "refunds", "expect": {"said_contains_all": ["shipped"]}}]}
    folder.write("more.include.yaml", json.dumps(more))

    ended = folder.seatrial("run", "shop.trial.yaml")

    assert ended.code == 1
    assert "said: No reply contains 'shipped'" in ended.out


def test_pytest_shows_what_nobody_noticed(folder: Any) -> None:
    write(folder)

    ended = folder._pytest("--seatrial-mutate", "shop.trial.yaml")

    assert ended.returncode == 0
    assert "No check noticed that the agent" in ended.stdout
    assert "dropped verify_user" in ended.stdout


def test_judges_are_asked_only_with_a_flag_and_the_number_of_calls_is_told_first(folder: Any) -> None:
    def said(request: ReceivedRequest) -> ServerReply:
        passed = "refunded: R-7" in request.messages[-1][1]
        return ServerReply(content=json.dumps({"passed": passed, "reasoning": "r"}))

    with ModelServer(said) as server:
        model = {"model": "openai:scripted", "base_url": server.base_url, "price": {"input": 1, "output": 1}}
        judged = {**REFUNDS, "expected_output": "It is", "expect": {"judge": {"rubric": "Names a reference."}}}
        write(folder, judged, config={"models": {"judge": model}})
        assert folder.seatrial("run", "shop.trial.yaml").code == 0
        asked = len(server.requests)

        blind = mutated(folder, "--operator", "cut reply")
        assert len(server.requests) == asked
        ended = folder.seatrial("mutate", "--json", "--operator", "cut reply", "--judges")

    assert "1 mutant of 1 passed trial; 1 judge call, about $" in ended.err
    assert (blind["total"]["caught"], json.loads(ended.out)["total"]["caught"]) == (0, 1)


def test_a_spent_budget_ends_the_judging_and_is_told(folder: Any) -> None:
    with ModelServer([json.dumps({"passed": True, "reasoning": "r"})]) as server:
        model = {"model": "openai:scripted", "base_url": server.base_url, "price": {"input": 1e6, "output": 1e6}}
        judged = {**REFUNDS, "expect": {"judge": {"rubric": "It is polite."}}}
        write(folder, judged, config={"models": {"judge": model}})
        folder.seatrial("run", "shop.trial.yaml")

        ended = folder.seatrial("mutate", "--json", "--judges", "--budget", "0.001", "--min-score", "0")

    assert ended.code == 1
    assert "not all mutants were judged, so it is not known whether --min-score is reached" in ended.err
    result = json.loads(ended.out)
    assert result["finished"] is False
    assert "the budget of $0.001 is spent, so not all mutants were judged" in result["notes"]
    assert folder.seatrial("mutate", "--budget", "1").code == 2
