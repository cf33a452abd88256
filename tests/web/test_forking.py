"""The page of a trial: beside a passed one, and continued from one of its steps by a button."""

import json
import re
from typing import Any

import pytest


@pytest.fixture
def server(serve: Any, own_project: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(own_project.path)
    started = serve(store=own_project.store, root=own_project.path)
    started.get("/")  # for the session
    return started


def trial_page(server: Any, run_id: str, name: str = "books a table", number: int = 1) -> str:
    return f"/runs/{run_id}/scenarios/{server.scenario(run_id, name)}/trials/{number}"


def press_fork(server: Any, page: str, **fields: str) -> Any:
    csrf = re.search(r'name="csrf" value="([^"]+)"', server.get(page).text)
    assert csrf is not None
    return server.client.post(f"{page}/fork", data={"csrf": csrf[1], "at": "1", "trials": "2", **fields})


def wait_for(server: Any, run_id: str) -> None:
    with server.client.stream("GET", f"/api/runs/{run_id}/events") as answer:
        for _ in answer.iter_lines():
            pass


def test_a_button_continues_a_trial_in_a_new_run(server: Any) -> None:
    page = trial_page(server, "bad")
    assert '<option value="call:1">call 1: check</option>' in server.get(page).text
    answer = press_fork(server, page)
    assert answer.status_code == 303, answer.text
    run_id = answer.headers["location"].removeprefix("/runs/")
    wait_for(server, run_id)
    (scenario,) = server.json(f"/api/runs/{run_id}")["scenarios"]
    assert (scenario["name"], scenario["trial_counts"]["passed"]) == ("books a table", 2)


def test_a_run_with_an_agent_from_an_option_is_not_continued_here(server: Any, own_project: Any) -> None:
    own_project.seatrial("run", "tables.json", "--agent=agent:answer", "--id=option")
    page = trial_page(server, "option")
    said = server.get(page).text
    assert "was started with an agent or settings from options" in said
    assert f"{page}/fork" not in said
    refused = press_fork(server, page)
    assert refused.status_code == 409
    assert "seatrial fork option SCENARIO 1 --at" in refused.text


def test_an_agent_that_cannot_continue_is_refused_with_the_reason(server: Any, own_project: Any) -> None:
    (own_project.path / "bare.py").write_text("def answer(input):\n    return 'no'\n", encoding="utf-8")
    suite = {"suite": {"agent": "bare:answer"}, "scenarios": [{"name": "asks", "input": "x", "expected_output": "yes"}]}
    (own_project.path / "bare.json").write_text(json.dumps(suite), encoding="utf-8")
    own_project.seatrial("run", "bare.json", "--id=bare")
    answer = press_fork(server, trial_page(server, "bare", "asks"))
    run_id = answer.headers["location"].removeprefix("/runs/")
    wait_for(server, run_id)
    said = server.get(f"/runs/{run_id}").text
    assert "The run did not start" in said
    assert "cannot be forked" in said


@pytest.mark.parametrize("fields", [{"at": "two"}, {"at": "--agent=x"}, {"trials": "0"}, {"trials": "many"}])
def test_wrong_fields_of_the_form_are_refused(server: Any, fields: dict[str, str]) -> None:
    assert press_fork(server, trial_page(server, "bad"), **fields).status_code == 422


def test_a_failed_trial_is_shown_beside_a_passed_one_with_the_first_difference_marked(served: Any) -> None:
    page = trial_page(served, "bad")
    assert f'href="{page}/beside"' in served.get(page).text
    said = served.get(f"{page}/beside").text
    before, after = said.split("▶ first difference: the agent made no further call")
    assert ("<b>check</b>" in before, "<b>book</b>" in before) == (True, False)
    assert "<b>book</b>" in after
    assert "trial-1 of run good" in said
    assert '<tr class="first-difference"' in said


def test_without_a_passed_trial_the_page_says_so(served: Any) -> None:
    said = served.get(f"{trial_page(served, 'bad', 'crashes')}/beside").text
    assert "No trial of this scenario passed" in said


def test_a_trial_that_does_not_exist_has_no_page_beside(served: Any) -> None:
    assert served.get(f"{trial_page(served, 'bad', number=9)}/beside").status_code == 404


def test_a_run_whose_files_are_elsewhere_is_refused_with_the_reason(server: Any, own_project: Any) -> None:
    (own_project.path / "gone.json").write_bytes((own_project.path / "tables.json").read_bytes())
    own_project.seatrial("run", "gone.json", "--id=gone")
    (own_project.path / "gone.json").unlink()
    refused = press_fork(server, trial_page(server, "gone"))
    assert refused.status_code == 422
    assert "there is no such suite" in refused.text
