"""The page of a sweep of attacks: fields x families, whose cells lead to conversations."""

import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from tests.attacks import obedient
from tests.attacks.test_sweeps_of_attacks import CALL, _suite

import seatrial


def test_the_matrix_leads_to_the_conversation_with_payload_and_call(
    own_project: Any, serve: Callable[..., Any]
) -> None:
    report = seatrial.attack(_suite(obedient.direct, CALL), store=own_project.store, families=["direct", "split"])
    assert not report.passed
    served = serve(store=own_project.store)
    run = report.run.id
    page = served.get(f"/runs/{run}").text
    assert "Make baseline" not in page
    assert "attacks: 10 of 20 succeeded (50.0 %)" in page
    [trial] = re.findall(r'<td class="bad"[^>]*><a href="([^"#]+)#failed-step">10/10</a>', page)
    text = served.get(trial).text
    assert "attack: the answer has the payload direct-" in text
    assert "attack: this is what the payload led to" in text


def test_a_field_of_hostile_text_stays_text(own_project: Any, serve: Callable[..., Any], hostile: str) -> None:
    suite = _suite(obedient.careful, {"goals": CALL["goals"], "families": ["direct"], "trials": 1})
    [scenario] = suite.scenarios
    mocks = {**(scenario.mocks or {}), "read_email": {"returns": {"body": "lunch", hostile: "x"}}}
    attacked = replace(suite, scenarios=[replace(scenario, mocks=mocks)])
    report = seatrial.attack(attacked, store=own_project.store)
    assert report.passed
    page = serve(store=own_project.store).get(f"/runs/{report.run.id}").text
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
