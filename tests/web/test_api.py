"""The API, over HTTP, on a store filled by real runs."""

import json
import sqlite3
from typing import Any

import pytest

from seatrial.store.store import open_store


def test_runs_are_listed_newest_first_with_their_verdicts(served: Any) -> None:
    found = served.json("/api/runs")

    assert [run["id"] for run in found["runs"]] == ["hostile", "bad", "good"]
    assert [run["passed"] for run in found["runs"]] == [0, 1, 4]


def test_a_run_that_cannot_be_read_does_not_hide_the_others(own_project: Any, serve: Any) -> None:
    with sqlite3.connect(own_project.store) as raw:
        raw.execute("UPDATE runs SET body = ? WHERE id = 'good'", (b'{"id":"good"}',))
        raw.execute("UPDATE trials SET status = 'splendid' WHERE run_id = 'bad'")
    server = serve(store=own_project.store)
    found = server.json("/api/runs")
    page = server.get("/")
    alone = server.get("/api/runs/bad")

    assert {run["id"]: run["status"] for run in found["runs"]} == {"hostile": "failed", "bad": "errored"}
    assert "run bad: cannot be read" in next(run for run in found["runs"] if run["id"] == "bad")["failure_reasons"][0]
    (unreadable,) = found["unreadable"]
    assert unreadable.startswith("run good: cannot be read")
    assert (page.status_code, "hostile" in page.text) == (200, True)
    assert (alone.status_code, "run bad: cannot be read" in alone.json()["detail"]) == (503, True)


def test_the_list_of_runs_goes_page_by_page(served: Any) -> None:
    found = served.json("/api/runs", params={"offset": 1, "limit": 1})

    assert (found["total"], [run["id"] for run in found["runs"]]) == (3, ["bad"])


def test_runs_can_be_asked_for_by_name(served: Any) -> None:
    assert [run["id"] for run in served.json("/api/runs", params={"name": "first version"})["runs"]] == ["good"]


def test_a_run_says_what_the_command_line_says(served: Any, project: Any) -> None:
    shown = json.loads(project.seatrial("show", "bad", "--json").stdout)
    found = served.json("/api/runs/bad")

    for scenario in shown["scenarios"]:
        del scenario["trials"]
    assert [{k: v for k, v in one.items() if k != "id"} for one in found.pop("scenarios")] == shown.pop("scenarios")
    assert found.pop("scenario_count") == 4
    assert served.json("/api/runs/bad/causes")["causes"] == shown.pop("causes")
    assert found == shown


def test_trials_are_filtered_by_status_scenario_tag_and_text(served: Any) -> None:
    def ids(**wanted: Any) -> list[str]:
        found = served.json("/api/runs/bad/trials", params=wanted)["trials"]
        return [f"{one['scenario']} {one['number']}" for one in found]

    assert ids(status="errored") == ["crashes 1"]
    assert ids(scenario=served.scenario("bad", "only looks")) == ["only looks 1"]
    assert ids(tag="write", status="failed") == ["books a table 1", "books a table 2", "books a table 3"]
    assert ids(q="THE AGENT BROKE") == ["crashes 1"]
    assert ids(error_kind="agent") == ["crashes 1"]
    assert ids(q='check({"time": "20:00"})') == ["only looks 1"]
    assert ids(q="sorry, NO", tag="read") == ["only looks 1"]
    assert ids(q="sorry", scenario=served.scenario("bad", "crashes")) == []


def test_trials_come_page_by_page(served: Any) -> None:
    found = served.json("/api/runs/bad/trials", params={"offset": 2, "limit": 2})

    assert found["total"] == 5
    assert [one["id"] for one in found["trials"]] == ["trial-3", "trial-1"]


def test_a_trial_has_its_whole_conversation(served: Any) -> None:
    scenario = served.scenario("good", "books a table")
    found = served.json(f"/api/runs/good/scenarios/{scenario}/trials/2")

    assert (found["run_id"], found["scenario"], found["id"]) == ("good", "books a table", "trial-2")
    assert [call["name"] for call in found["turns"][0]["tool_calls"]] == ["check", "book"]


def test_a_comparison_is_that_of_the_command_line(served: Any, project: Any) -> None:
    shown = json.loads(project.seatrial("compare", "good", "bad", "--json", "--gate", "thresholds").stdout)
    found = served.json("/api/runs/compare", params={"baseline_run_id": "good", "candidate_run_id": "bad"})

    assert found == shown
    assert found["regression_detected"] is True


@pytest.mark.parametrize("missing", ["nosuch", "baseline"])
def test_a_comparison_with_a_run_that_is_not_there_is_not_found(served: Any, missing: str) -> None:
    answer = served.get("/api/runs/compare", params={"baseline_run_id": missing, "candidate_run_id": "bad"})

    assert (answer.status_code, missing in answer.json()["detail"]) == (404, True)


def test_limits_of_a_comparison_can_be_given(served: Any) -> None:
    asked = {"baseline_run_id": "good", "candidate_run_id": "bad", "max_pass_rate_drop": 1}
    asked |= {"max_avg_score_drop": 100, "max_latency_increase_pct": 1e6}

    assert served.json("/api/runs/compare", params=asked)["regression_detected"] is False
    limited = served.json("/api/runs/compare", params={**asked, "max_cost_increase_pct": 10})
    assert limited["limits"]["max_cost_increase_pct"] == 10
    assert served.get("/api/runs/compare", params={**asked, "max_pass_rate_drop": -1}).status_code == 422
    assert served.get("/api/runs/compare", params={**asked, "max_pass_rate_drop": 5}).status_code == 422


def test_a_misspelt_parameter_is_refused_not_ignored(served: Any) -> None:
    asked = {"baseline_run_id": "good", "candidate_run_id": "bad", "max_pass_rate": 1}
    refused = served.get("/api/runs/compare", params=asked)

    assert (refused.status_code, "max_pass_rate" in refused.json()["detail"]) == (422, True)
    assert served.get("/api/runs/good/trials", params={"stauts": "failed"}).status_code == 422
    assert served.get("/api/runs", params={"nmae": "first version"}).status_code == 422
    assert served.get("/api/runs/good", params={"ofset": 2}).status_code == 422


def test_a_misspelt_suite_does_not_cost_the_baseline_of_all(own_project: Any, serve: Any) -> None:
    served = serve(store=own_project.store, root=own_project.path)
    served.client.put("/api/baselines", json={"run_id": "good"})

    assert served.client.delete("/api/baselines", params={"Suite": "tables"}).status_code == 422
    assert [one["run_id"] for one in served.json("/api/baselines")] == ["good"]


def test_a_filter_that_names_nothing_there_is_refused_not_answered_with_no_trials(served: Any) -> None:
    assert served.json("/api/runs/good/trials", params={"error_kind": "agent"})["total"] == 1
    assert served.get("/api/runs/good/trials", params={"error_kind": "Agent"}).status_code == 422
    assert served.get("/api/runs/good/trials", params={"scenario": "crashes"}).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/nosuch",
        "/api/runs/nosuch/trials",
        "/api/runs/nosuch/events",
        "/api/runs/nosuch/export",
        "/api/runs/nosuch/labels",
        "/api/runs/good/scenarios/nosuch/trials/1",
        "/api/nosuch",
    ],
)
def test_what_is_not_there_is_not_found(served: Any, path: str) -> None:
    answer = served.get(path)

    assert answer.status_code == 404
    assert set(answer.json()) == {"detail"}


def test_an_unknown_trial_is_not_found(served: Any) -> None:
    scenario = served.scenario("good", "crashes")

    assert served.get(f"/api/runs/good/scenarios/{scenario}/trials/2").status_code == 404


def test_an_unknown_run_cannot_be_compared(served: Any) -> None:
    asked = {"baseline_run_id": "good", "candidate_run_id": "nosuch"}

    assert "nosuch" in served.get("/api/runs/compare", params=asked).json()["detail"]


def test_an_export_can_be_imported_elsewhere(served: Any, tmp_path: Any) -> None:
    answer = served.get("/api/runs/bad/export")

    with open_store(tmp_path / "other.db") as store:
        store.import_runs(answer.content.splitlines())
        assert store.run_row("bad").trials == 5  # type: ignore[union-attr]
    assert 'filename="bad.jsonl"' in answer.headers["content-disposition"]


def test_labels_are_what_calibrate_counts(serve: Any, own_project: Any) -> None:
    served = serve(store=own_project.store, root=own_project.path)
    scenario = served.scenario("bad", "books a table")
    for number, value in ((1, 0), (2, 0), (3, 1)):
        body = {"scenario_id": scenario, "number": number, "value": value, "who": "ada"}
        assert served.client.post("/api/runs/bad/labels", json=body).status_code == 200

    assert [one["value"] for one in served.json("/api/runs/bad/labels")] == [0.0, 0.0, 1.0]
    calibrated = own_project.seatrial("calibrate", "--run=bad", "--json")
    assert json.loads(calibrated.stdout)["table"]["missed_passes"] == 1


def test_a_label_needs_a_trial(served: Any) -> None:
    body = {"scenario_id": served.scenario("bad", "crashes"), "number": 9, "value": 1, "who": "ada"}

    assert served.client.post("/api/runs/bad/labels", json=body).status_code == 404


@pytest.mark.parametrize("value", [7, 0.5])
def test_a_label_of_the_whole_trial_is_yes_or_no(served: Any, value: float) -> None:
    body = {"scenario_id": served.scenario("bad", "crashes"), "number": 1, "value": value, "who": "ada"}

    assert served.client.post("/api/runs/bad/labels", json=body).status_code == 422
    assert served.client.post("/api/runs/bad/labels", json={**body, "metric": "clarity"}).status_code == 200


@pytest.mark.parametrize("given", [{"name": "a\0b"}, {"tags": ["a\0b"]}])
def test_a_text_that_no_command_can_hold_is_refused(served: Any, given: dict[str, Any]) -> None:
    served.get("/")
    assert served.client.post("/api/runs", json={"paths": ["slow.yaml"], **given}).status_code == 422


def test_a_baseline_can_be_chosen_shown_and_forgotten(serve: Any, own_project: Any) -> None:
    served = serve(store=own_project.store, root=own_project.path)

    assert served.client.put("/api/baselines", json={"run_id": "good"}).json()["name"] == "first version"
    assert served.json("/api/baselines") == [{"suite": None, "run_id": "good", "name": "first version"}]
    asked = {"baseline_run_id": "baseline", "candidate_run_id": "bad"}
    assert served.json("/api/runs/compare", params=asked)["base"]["id"] == "good"
    assert served.client.delete("/api/baselines").status_code == 204
    assert served.client.delete("/api/baselines").status_code == 404


def test_a_baseline_of_a_suite_that_the_run_lacks_is_refused(served: Any) -> None:
    answer = served.client.put("/api/baselines", json={"run_id": "good", "suite": "nosuch"})

    assert (answer.status_code, "nosuch" in answer.text) == (422, True)


def test_suites_are_the_files_under_the_folder(served: Any) -> None:
    assert served.json("/api/suites") == {"suites": ["hostile.trial.json", "slow.yaml", "tables.json"]}


def test_a_verdict_is_made_anew_when_the_rows_change(serve: Any, own_project: Any) -> None:
    served = serve(store=own_project.store, root=own_project.path)
    assert served.json("/api/runs/bad")["totals"]["error_count"] == 1
    (own_project.path / "agent.py").write_text("def answer(messages, ctx): return 'x'\n", encoding="utf-8")

    own_project.seatrial("run", "--resume=bad", "--retry-agent-errors")

    assert served.json("/api/runs/bad")["totals"]["error_count"] == 0


def test_unknown_keys_of_a_request_are_refused(served: Any) -> None:
    served.get("/")
    answer = served.client.post("/api/runs", json={"paths": ["slow.yaml"], "agent": {"type": "command"}})

    assert answer.status_code == 422
    assert "agent" in answer.json()["detail"]
