"""`seatrial trend`: a slow decay of the pass rate over accepted runs."""

import json
from typing import Any

import pytest

AGENT = """
    from pathlib import Path

    def answer(input, ctx):
        every = int(Path("every").read_text()) if Path("every").exists() else 0
        trial = int(ctx.trial_id.rpartition("-")[2])
        return "sorry" if every and trial % every == 0 else "ok"
"""
SUITE = """
    suite: {name: shop, agent: "agent:answer", config: {threshold: 0.1}}
    scenarios:
      - {name: refund, input: refund, expected_output: ok}
      - {name: hours, input: hours, expected_output: ok}
      - {name: books, input: books, expected_output: ok}
"""


@pytest.fixture
def shop(folder: Any) -> Any:
    """A project with a reference of 60 trials of each scenario, of which one in 20 fails."""
    folder.write("agent.py", AGENT)
    folder.write("scenarios/shop.yaml", SUITE)
    accept(folder, "reference", trials=60, every=20)
    return folder


def accept(folder: Any, *names: str, trials: int, every: int) -> None:
    folder.write("every", str(every))
    for name in names:
        assert folder.seatrial("run", "--trials", str(trials), "--name", name).code == 0
        folder.seatrial("baseline", "set", name)


def test_a_steady_pass_rate_is_no_drift(shop: Any) -> None:
    accept(shop, "a", "b", "c", "d", trials=20, every=20)
    ended = shop.seatrial("trend")
    assert ended.code == 0
    assert "NO DRIFT\nshop: no slow decay in 4 runs after the reference: 57 of 60 trials passed" in ended.out


def test_a_decay_is_found_with_the_run_where_it_began(shop: Any) -> None:
    accept(shop, "a", "b", trials=20, every=20)
    accept(shop, "c", "d", "e", "f", trials=20, every=5)
    ended = shop.seatrial("trend", "--json")
    assert ended.code == 1
    (trend,) = json.loads(ended.out)
    began = next(point for point in trend["points"] if point["run"] == trend["since"])
    assert (trend["verdict"], began["name"]) == ("DRIFT", "c")
    assert "the decay begins here" in shop.seatrial("trend").out


def test_the_summary_of_a_run_against_the_history_tells_of_the_decay(shop: Any) -> None:
    accept(shop, "c", "d", "e", "f", trials=20, every=5)
    shop.seatrial("run", "--against", "baseline", "--report", "markdown=summary.md")
    assert "the pass rate decays since run" in (shop.path / "summary.md").read_text("utf-8")


def test_too_few_runs_are_no_pass(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("scenarios/shop.yaml", SUITE)
    assert folder.seatrial("trend").code == 2  # no store yet
    accept(folder, "a", trials=5, every=0)
    ended = folder.seatrial("trend")
    assert ended.code == 3
    assert "50 trials of each scenario are needed first, and the accepted runs have 5" in ended.out
    assert folder.seatrial("trend", "--suite", "other").code == 2
