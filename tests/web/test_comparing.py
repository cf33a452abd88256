"""Comparisons in pages and in the API: no green where the candidate has none, and the answer of the command line."""

import re
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
    marks = re.findall(r'<tr data-row><td>\s*<span class="mark ([a-z_]+)".*?<a [^>]*>([^<]*)</a>', listed)

    assert {name: mark for mark, name in marks} == {"books a table": "failed", "only looks": "passed"}
    beside = served.get(f"/compare/{served.scenario('bad', 'books a table')}", params=both).text
    assert header_of(beside) == "failed"
