"""Comparisons in pages and in the API: no green where the candidate has none, and the answer of the command line."""

import json
import re
import subprocess
from typing import Any

import pytest


def header_of(text: str) -> str:
    found = re.search(r'<header class="top ([a-z_]*)"', text)
    assert found is not None
    return found[1]


@pytest.fixture
def still_bad(own_project: Any) -> Any:
    """The project, where the run `worse` fails as `bad` did before it."""
    (own_project.path / "broken").touch()
    own_project.seatrial("run", "tables.json", "--id=worse")
    return own_project


def test_a_scenario_that_fails_as_before_is_not_marked_as_passed(still_bad: Any, serve: Any) -> None:
    served = serve(store=still_bad.store, root=still_bad.path)
    both = {"baseline_run_id": "bad", "candidate_run_id": "worse"}
    listed = served.get("/compare", params={**both, "change": "unchanged"}).text
    marks = re.findall(
        r'<tr data-row class="[a-z]*"><td>\s*<span class="mark ([a-z_]+)".*?<a [^>]*>([^<]*)</a>', listed
    )

    assert {name: mark for mark, name in marks} == {"books a table": "failed", "only looks": "passed"}
    beside = served.get(f"/compare/{served.scenario('bad', 'books a table')}", params=both).text
    assert header_of(beside) == "failed"


PATIENT = {"hx-request": "true"}
"""A page that is asked for so waits until what it shows is worked out."""


def write_suite(
    project: Any, *, expected: tuple[str, ...] = ("never", "never"), delay_ms: int = 0, **more: Any
) -> None:
    """`two.json`, whose scenarios pass where `Booked` is expected."""
    scenarios = [
        {"name": f"number {place}", "input": "19:00", "expected_output": text, **more}
        for place, text in enumerate(expected)
    ]
    mocks = {name: {"returns": True, "delay_ms": delay_ms} for name in ("check", "book")}
    head = {"name": "two", "agent": "agent:answer", "config": {"concurrency": 1, "mocks": mocks}}
    (project.path / "two.json").write_text(json.dumps({"suite": head, "scenarios": scenarios}), encoding="utf-8")


def test_what_the_api_refuses_it_refuses_also_after_a_page_has_shown_it(own_project: Any, serve: Any) -> None:
    write_suite(own_project)
    own_project.seatrial("run", "two.json", "--id=part", "--fail-fast")
    own_project.seatrial("run", "two.json", "--id=whole")
    served = serve(store=own_project.store, root=own_project.path)
    both = {"baseline_run_id": "part", "candidate_run_id": "whole"}
    assert served.get("/compare", params=both, headers=PATIENT).status_code == 200

    answer = served.get("/api/runs/compare", params=both)

    assert answer.status_code == 422
    assert "1 of its trials was not run" in answer.json()["detail"]


def commit(project: Any, **files: str) -> None:
    """All of the project as a new commit."""
    for name, text in files.items():
        (project.path / name).write_text(text, encoding="utf-8")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "a commit"]):
        subprocess.run(["git", *command], cwd=project.path, check=True)


def test_runs_that_are_pooled_with_the_baseline_later_count_in_the_api_too(own_project: Any, serve: Any) -> None:
    write_suite(own_project, expected=("Booked",), trials=2)
    commit(own_project, **{".gitignore": "*.db*\n__pycache__/\n.seatrial/\n"})
    own_project.seatrial("run", "two.json", "--id=before")
    commit(own_project, broken="yes")
    own_project.seatrial("run", "two.json", "--id=after")
    served = serve(store=own_project.store, root=own_project.path)
    asked = {"baseline_run_id": "before", "candidate_run_id": "after", "gate": "statistical"}
    assert served.json("/api/runs/compare", params=asked)["passed"] is True

    subprocess.run(["git", "checkout", "-q", "HEAD~1"], cwd=own_project.path, check=True)
    for number in range(4):
        own_project.seatrial("run", "two.json", f"--id=again-{number}")

    answer = served.json("/api/runs/compare", params=asked)
    assert answer["scenarios"][0]["pooled"] == 8
    assert answer["passed"] is False
    told = own_project.seatrial("compare", "before", "after", "--gate=statistical", "--json")
    assert answer == json.loads(told.stdout)


def test_a_run_that_is_not_whole_is_not_said_to_have_no_regression(own_project: Any, serve: Any) -> None:
    write_suite(own_project, delay_ms=100)  # so that no candidate is slower, whatever the machine does
    own_project.seatrial("run", "two.json", "--id=whole")
    own_project.seatrial("run", "two.json", "--id=part", "--fail-fast")
    write_suite(own_project)
    own_project.seatrial("run", "two.json", "--id=candidate")
    served = serve(store=own_project.store, root=own_project.path)

    def show(base: str) -> str:
        asked = {"baseline_run_id": base, "candidate_run_id": "candidate"}
        text: str = served.get("/compare", params=asked, headers=PATIENT).text
        return text

    assert "NO REGRESSION" in show("whole")
    part = show("part")
    assert "NO REGRESSION" not in part
    assert header_of(part) == "not_run"
    assert "run part: 1 of its trials was not run (number 1), so the comparison is incomplete" in part
