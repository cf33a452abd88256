"""What a judged run costs, keeps and is decided by: cache, budget, gates, unique errors, votes, regrade."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

AGENT = """
    import json
    from pathlib import Path

    from seatrial import AgentResult, ToolCall

    def answer(messages):
        with open("called", "a") as file: file.write("x")
        said = json.loads(Path("said.json").read_text())
        calls = [ToolCall("look_up", {"order": 7}, said["result"])]
        return AgentResult(said["reply"], tool_calls=calls, cost_usd=said.get("cost"))
"""
OUTCOMES = {"expected_outcomes": ["The user was answered."]}
YES = json.dumps({"outcomes": {"o1": {"justification": "j", "passed": True}}, "summary": "s"})
NO = json.dumps({"outcomes": {"o1": {"justification": "j", "passed": False}}, "summary": "s"})
PRICED = {"price": {"input": 100, "output": 0}}
"""With the 10 tokens in of the local server, a request costs $0.001."""


class Project:
    """A folder with a suite that a scripted judge looks at."""

    def __init__(self, folder: Any, answers: Any) -> None:
        self.folder = folder
        self.server = ModelServer(answers)
        self.model = {"model": "openai:scripted", "base_url": self.server.base_url}
        folder.write("agent.py", AGENT)
        self.agent_says("It is on its way.")

    def agent_says(self, reply: str, *, result: Any = "shipped", cost: float | None = None) -> None:
        self.folder.write("said.json", json.dumps({"reply": reply, "result": result, "cost": cost}))

    def suite(self, *scenarios: dict[str, Any], groups: Any = (), **config: Any) -> None:
        models = {"judge": self.model, **config.pop("models", {})}
        suite = {"name": "s", "agent": "agent:answer", "config": {"models": models, **config}}
        if groups:
            suite["groups"] = groups
        listed = [
            {"name": f"scenario-{n}", **({} if "user" in keys else {"input": "Where?"}), **keys}
            for n, keys in enumerate(scenarios, 1)
        ]
        self.folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": listed}))

    def run(self, *flags: str) -> Any:
        """(how it ended, how many requests the judge got)."""
        before = len(self.server.requests)
        ended = self.folder.seatrial("run", "suite.yaml", *flags)
        return ended, len(self.server.requests) - before

    def results(self) -> Any:
        return self.folder.results()

    def calls(self) -> int:
        """How often the agent was called."""
        return len((self.folder.path / "called").read_text()) if self.folder.exists("called") else 0


@pytest.fixture
def project(folder: Any) -> Any:
    opened: list[ModelServer] = []

    def make(answers: Any) -> Project:
        made = Project(folder, answers)
        opened.append(made.server.__enter__())
        return made

    yield make
    for server in opened:
        server.__exit__(None, None, None)


Make = Callable[[Any], Project]


def verdicts(results: Any) -> list[tuple[str, list[str]]]:
    return [(trial["status"], trial["failure_reasons"]) for each in results["scenarios"] for trial in each["trials"]]


def test_a_warm_cache_asks_nothing_and_gives_the_same_verdicts(project: Make) -> None:
    made = project(by_input("fine"))
    made.suite({**OUTCOMES, "input": "fine", "trials": 2}, {**OUTCOMES, "input": "poor"})
    first, asked = made.run()
    cold = verdicts(made.results())
    assert asked >= 2

    second, asked = made.run()

    assert asked == 0
    assert second.code == first.code
    assert verdicts(made.results()) == cold
    assert made.results()["totals"]["model_calls"] == 0
    assert made.results()["totals"]["cache_hits"] > 0
    assert re.search(r"0 model calls \(\d+ more cached\)", second.out)


RUBRIC = {"expect": {"judge": {"rubric": "Polite."}}}
OPINION = json.dumps({"reasoning": "r", "passed": True})


def test_an_edit_of_rubric_model_tool_result_or_votes_is_judged_anew(project: Make) -> None:
    made = project([OPINION])
    made.suite(RUBRIC)
    assert made.run()[1] == 1
    assert made.run()[1] == 0

    made.suite({"expect": {"judge": {"rubric": "Very polite."}}})
    assert made.run()[1] == 1, "the rubric was edited"
    made.suite(RUBRIC)
    made.agent_says("It is on its way.", result="lost")
    assert made.run()[1] == 1, "a tool result was edited"
    made.model["model"] = "openai:another"
    made.suite(RUBRIC)
    assert made.run()[1] == 1, "the model was edited"
    made.suite({"expect": {"judge": {"rubric": "Polite.", "votes": 3}}})
    assert made.run()[1] == 1, "the second vote was never asked for; the first is known"
    assert made.run()[1] == 0


def test_a_run_says_what_judging_took(project: Make) -> None:
    made = project([YES])
    made.model |= PRICED
    made.suite({**OUTCOMES, "trials": 3})

    ended, asked = made.run()

    # Trials that are the same conversation share an answer, so fewer may be asked than there are.
    totals = made.results()["totals"]
    assert totals["model_calls"] == asked
    assert totals["model_calls"] + totals["cache_hits"] == 3
    assert totals["model_tokens"] == 15 * asked
    assert totals["model_cost_usd"] == pytest.approx(0.001 * asked)
    assert f"{15 * asked} tokens, ${0.001 * asked:.4f})" in ended.out


def test_a_price_nobody_knows_is_unknown_and_not_nothing(project: Make) -> None:
    made = project([YES])
    made.suite(OUTCOMES)

    ended, _ = made.run()

    assert made.results()["totals"]["model_cost_usd"] is None
    assert "1 model call (15 tokens, cost unknown)" in ended.out


def test_a_budget_ends_the_run_in_order_and_the_rest_is_not_run(project: Make) -> None:
    made = project([YES])
    made.model |= PRICED
    made.agent_says("It is on its way.", cost=0.0)
    made.suite(*({**OUTCOMES, "input": f"Where is {n}?"} for n in range(6)), concurrency=1)

    ended, asked = made.run("--budget", "0.003")

    assert ended.code == 1
    assert asked == 3
    assert made.calls() == 3
    assert [each["status"] for each in made.results()["scenarios"]] == ["passed"] * 3 + ["not_run"] * 3
    assert "the budget of $0.003 ended the run: $0.0030 were spent, 3 trials not run" in ended.out
    assert made.results()["totals"]["not_run_count"] == 3


def test_a_budget_counts_what_the_agent_says_it_costs(project: Make) -> None:
    made = project([YES])
    made.agent_says("ok", cost=0.5)
    made.suite({}, {}, {}, budget=1.0, concurrency=1)

    ended, _ = made.run()

    assert ended.code == 1
    assert made.calls() == 2


def test_a_run_that_passes_although_its_budget_ended_it_says_so(project: Make) -> None:
    made = project([YES])
    made.agent_says("ok", cost=0.5)
    made.suite({}, {}, {}, budget=1.0, concurrency=1)

    ended, _ = made.run("--cases-pass-threshold", "50")

    assert ended.code == 0
    assert "note: the budget of $1 ended the run: $1.0000 were spent, 1 trial not run" in ended.out


def test_an_agent_that_does_not_say_what_it_costs_is_pointed_out(project: Make) -> None:
    made = project([YES])
    made.suite({})

    ended, _ = made.run("--budget", "1")

    assert ended.code == 0
    assert "note: the budget of $1 does not count what the agent itself costs" in ended.out
    assert made.results()["notes"]


def test_a_budget_over_a_model_without_a_price_is_refused_before_the_agent_is_called(project: Make) -> None:
    made = project([YES])
    made.suite(OUTCOMES)

    ended, asked = made.run("--budget", "1")

    assert (ended.code, asked, made.calls()) == (2, 0, 0)
    assert "the price of the model 'openai:scripted' is not known" in ended.err
    assert "price: {input:" in ended.err


def test_a_server_that_counts_no_tokens_ends_a_budgeted_run(project: Make) -> None:
    made = project([ServerReply(content=YES, usage=None)])
    made.model |= PRICED
    made.suite(OUTCOMES, {**OUTCOMES, "input": "Hm?"}, concurrency=1)

    ended, asked = made.run("--budget", "1")

    assert (ended.code, asked) == (1, 1)
    assert "what was spent is not known, 1 trial not run" in ended.out


def by_input(passing: str) -> Callable[[ReceivedRequest], str]:
    return lambda request: YES if passing in request.messages[-1][1] else NO


def test_a_pass_rate_over_all_trials_replaces_the_scenarios_verdicts_but_for_those_that_must_pass(
    project: Make,
) -> None:
    made = project(by_input("fine"))
    fine, poor = {**OUTCOMES, "input": "fine"}, {**OUTCOMES, "input": "poor"}
    made.suite({**fine, "trials": 3}, poor, cases_pass_threshold=75)
    assert made.run()[0].code == 0
    assert made.run("--cases-pass-threshold", "76")[0].code == 1

    made.suite({**fine, "trials": 3}, {**poor, "must_pass": True}, cases_pass_threshold=75)
    ended, _ = made.run()

    assert ended.code == 1
    assert "must pass, did not: scenario-2" in ended.out


def test_a_group_can_fail_a_run_that_would_pass(project: Make) -> None:
    made = project(by_input("fine"))
    fine, poor = {**OUTCOMES, "input": "fine"}, {**OUTCOMES, "input": "poor", "tags": ["safety"]}
    made.suite(fine, fine | {"trials": 9}, poor, cases_pass_threshold=50, groups=[{"name": "safe", "tags": ["safety"]}])

    ended, _ = made.run()

    assert ended.code == 1
    assert "group safe: 0 of 1 scenario passed (threshold: 1.0)" in ended.out
    assert made.results()["totals"]["cases_passed"] is True


def test_the_settings_that_decided_are_kept_with_the_run(project: Make) -> None:
    made = project([YES])
    made.suite({**OUTCOMES, "pass_threshold": 60}, cases_pass_threshold=50)
    made.run("--metrics-pass-threshold", "70")
    made.suite({**OUTCOMES, "pass_threshold": 99}, cases_pass_threshold=100, metrics_pass_threshold=100)

    results = made.results()

    assert results["scenarios"][0]["gates"]["pass_threshold"] == 60
    assert results["totals"]["cases_pass_threshold"] == 50
    assert results["totals"]["metrics_pass_threshold"] == 70
    assert results["run"]["config"]["run"]["metrics_pass_threshold"] == 70


def failure(label: str, category: str = "false_information") -> dict[str, Any]:
    return {"turn": 1, "category": category, "label": label, "explanation": f"It is about {label}."}


def failing(merge: Callable[[list[str]], Any]) -> Callable[[ReceivedRequest], str]:
    """A judge that finds a failure in other words in each trial, and a dedup model that answers as `merge` says."""
    count = iter(range(1000))

    def answer(request: ReceivedRequest) -> str:
        if "Put those together" in request.messages[0][1]:
            ids = re.findall(r'"id": "(F\d+)"', request.messages[1][1])
            return json.dumps({"groups": merge(ids)})
        return json.dumps({"failures": [failure(f"Wrong day {next(count)}")], "summary": "s"})

    return answer


def in_one(ids: list[str]) -> list[dict[str, Any]]:
    return [{"label": "Wrong day", "explanation": "Names another day.", "ids": ids}]


def three_trials(made: Project) -> None:
    # Conversations that differ, so that no trial is judged from the cache.
    made.folder.write("agent.py", "def answer(messages, ctx): return f'On day {ctx.trial_id}.'")
    made.suite({"fail_on_error_severity": "high", "trials": 3})


def test_failures_in_other_words_are_merged_once_and_shown_from_the_store(project: Make) -> None:
    made = project(failing(in_one))
    three_trials(made)

    ended, asked = made.run()

    assert ended.code == 1
    assert asked == 4
    assert "[high] Wrong day (3 occurrences)" in ended.out
    assert "Examples: trial-1 turn 1, trial-2 turn 1, trial-3 turn 1" in ended.out
    assert "1 error at or above high" in ended.out
    shown = made.folder.seatrial("show", "latest").out
    assert "[high] Wrong day (3 occurrences)" in shown
    assert len(made.server.requests) == asked
    assert made.results()["totals"]["model_calls"] == 4


@pytest.mark.parametrize(
    "merge",
    [
        lambda ids: in_one(ids[:-1]),
        lambda ids: in_one([*ids, "F99"]),
        lambda ids: in_one([*ids, ids[0]]),
        lambda ids: [],
    ],
    ids=["one left out", "one invented", "one twice", "none"],
)
def test_a_merge_that_loses_or_invents_failures_is_not_believed(project: Make, merge: Any) -> None:
    made = project(failing(merge))
    three_trials(made)

    ended, _ = made.run()

    assert ended.code == 1
    assert "3 errors at or above high" in ended.out
    assert "note: errors were merged by their labels alone" in ended.out


def test_a_suite_can_say_how_bad_a_failure_is(project: Make) -> None:
    made = project([json.dumps({"failures": [failure("Wrong price")], "summary": "s"})])
    made.suite({"fail_on_error_severity": "high"})
    assert made.run()[0].code == 1

    made.suite({"fail_on_error_severity": "high"}, severities={"false_information": "low"})
    ended, _ = made.run()

    assert ended.code == 0
    assert "[low] Wrong price (1 occurrence)" in ended.out


def test_votes_on_a_trial_go_by_majority(project: Make) -> None:
    answers = iter([NO, YES, YES])
    made = project(lambda request: next(answers))
    made.suite(OUTCOMES, judge_votes=3)

    ended, asked = made.run()

    assert (ended.code, asked) == (0, 3)


def test_a_regrade_with_another_judge_keeps_the_old_verdicts_beside_the_new(project: Make) -> None:
    made = project([YES])
    made.suite(OUTCOMES)
    assert made.run()[0].code == 0
    old = made.results()["run"]["id"]
    strict = ModelServer([NO])
    with strict:
        flag = f"openai:strict@{strict.base_url}"
        ended = made.folder.seatrial("regrade", old, "--judge-model", flag)

    assert ended.code == 1
    assert made.calls() == 1, "no agent is called for a regrade"
    assert made.results()["run"]["parent"] == old
    assert made.results()["scenarios"][0]["status"] == "failed"
    assert json.loads(made.folder.seatrial("show", old, "--json").out)["scenarios"][0]["status"] == "passed"


def test_a_regrade_with_new_metrics_judges_the_stored_conversation(project: Make) -> None:
    made = project([json.dumps({"metrics": {"helpfulness": {"turn_1": {"reason": "r", "score": 2}}}, "summary": "s"})])
    made.suite({})
    assert made.run()[0].code == 0
    played = made.calls()
    made.suite({"metrics": ["helpfulness"], "thresholds": {"helpfulness": 3}})

    ended = made.folder.seatrial("regrade", "latest", "suite.yaml")

    assert ended.code == 1
    assert "helpfulness: 2 (threshold: 3 ✗)" in ended.out
    assert made.calls() == played


def test_what_a_simulated_user_asked_in_vain_is_counted_too(project: Make) -> None:
    made = project(["not what a user says"])
    made.model |= PRICED
    made.suite({"user": {"goal": "Know."}, **OUTCOMES, "trials": 2}, models={"user": made.model})

    ended, asked = made.run()

    assert ended.code == 1
    assert asked == made.results()["totals"]["model_calls"] == 4


def test_metrics_weights_and_thresholds_can_be_set_for_one_run(project: Make) -> None:
    def grade(request: ReceivedRequest) -> str:
        asked = json.loads(request.messages[0][1].rpartition("JSON Schema:\n")[2])["$defs"]["Metrics"]["properties"]
        return json.dumps(
            {"metrics": {name: {"reason": "r", "score": 5 if "rout" in name else 0} for name in asked}, "summary": "s"}
        )

    made = project(grade)
    made.suite({}, metrics=["tool_routing", "response_delivery"], metrics_pass_threshold=0)
    assert made.run()[0].code == 1
    assert made.results()["scenarios"][0]["overall_score"] == 60

    ended, _ = made.run("--set", "metrics=[{name: tool_routing, weight: 3}, {name: response_delivery, weight: 1}]")
    assert ended.code == 0
    assert made.results()["scenarios"][0]["overall_score"] == 75
    assert made.run("--set", "metrics=[tool_routing]")[0].code == 0
    assert made.run("--set", "metrics=[tool_routing]", "--set", "thresholds.tool_routing=5")[0].code == 0
    assert made.run("--set", "thresholds.response_delivery=1", "--set", "pass_threshold=0")[0].code == 1
