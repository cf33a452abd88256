"""Finding trials by what was said in them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.store.keeping import keep

from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.results import EvalResult
from seatrial.model.run import Run, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.store.store import Store, open_store
from seatrial.store.trials import search_trials

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
KEY = ScenarioKey("shop", "order lookup")
OTHER = ScenarioKey("shop", "refund")


def a_trial(index: int, *, key: ScenarioKey = KEY, user: str = "hi", reply: str | None = "", args: Any = None) -> Trial:
    call = ToolCall("lookup_order", args, {"secret": "of the tool"})
    turn = PlayedTurn(index=0, user=user, reply=reply, tool_calls=(call,))
    return Trial(
        key=key,
        index=index,
        status=Status.PASSED,
        transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED),
        results=(EvalResult(passed=True, evaluator="passfail", reasoning="Output produced: PASS."),),
        started_at=NOON,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "runs.db")) as opened:
        opened.start_run(Run(id="r1", name="nightly", started_at=NOON))
        entries = [
            ScenarioEntry(key=key, position=place, fingerprint="f", trials=9) for place, key in enumerate((KEY, OTHER))
        ]
        trials = [
            a_trial(0, user="Where is my Straße \U0001f6a2?"),
            a_trial(1, reply='She said: "shipped", then left'),
            a_trial(2, args={"order_id": "ORD-789", "items": [1, 2]}),
            a_trial(3, args="not a mapping \\ at all"),
            a_trial(4, reply="x" * 40_000 + " far away " + "y" * 40_000),
            a_trial(5, reply=None, args={"odd": [1, float("nan")]}),
            a_trial(0, key=OTHER, reply="refunded ORD-789"),
        ]
        keep(opened, "r1", entries, trials)
        yield opened


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("straße", {0}),
        ("STRASSE", set()),
        ("\U0001f6a2?", {0}),
        ('said: "SHIPPED", then', {1}),
        ('"order_id": "ord-789"', {2}),
        ("[1, 2]", {2}),
        ("mapping \\", {3}),
        ("far away", {4}),
        ("lookup_order", {0, 1, 2, 3, 4, 5}),
        ("output produced", set()),
        ("of the tool", set()),
    ],
)
def test_what_was_said_is_found_whatever_its_case_and_nothing_else(store: Store, text: str, found: set[int]) -> None:
    said = store.search("r1", text, key=KEY)
    assert said.trials == {(KEY, index) for index in found}
    assert said.complete


def test_all_scenarios_of_a_run_are_searched(store: Store) -> None:
    assert store.search("r1", "ORD-789").trials == {(KEY, 2), (OTHER, 0)}


def test_a_search_that_was_cut_says_how_far_it_came(store: Store) -> None:
    said = search_trials(store._connections, "r1", "ORD-789", max_bytes=600)
    assert not said.complete
    assert 0 < said.searched < 7
    assert (OTHER, 0) not in said.trials
