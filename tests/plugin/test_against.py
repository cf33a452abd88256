"""`--seatrial-against`: scenarios of files are tested against the history of accepted runs."""

from typing import Any

import pytest

import seatrial
from seatrial.store.store import Store, open_store

pytest_plugins = ["pytester"]

SUITE = """
    suite: {name: shop, agent: "history_shop:answer", config: {trials: 2}}
    scenarios:
      - {name: refund, input: refund, expected_output: ok}
      - {name: hours, input: hours, expected_output: ok}
"""
SHOP = """
    from pathlib import Path

    def answer(input):
        broken = Path("broken").read_text().split() if Path("broken").exists() else []
        return "sorry" if input in broken else "ok"
"""


@pytest.fixture
def shop(project: Any) -> Any:
    project.write("history_shop.py", SHOP)
    project.write("shop.trial.yaml", SUITE)
    return project


def stored(project: Any) -> Store:
    return open_store(project.path / ".seatrial" / "runs.db")


def accept(project: Any, *arguments: str) -> None:
    """A run of 40 trials that becomes the baseline."""
    project.run("--seatrial-trials", "40", *arguments)
    with stored(project) as store:
        store.set_baseline(store.run("latest").id)


def test_an_unchanged_agent_passes_with_a_few_trials(shop: Any) -> None:
    accept(shop)
    shop.run("--seatrial-against", "baseline").assert_outcomes(passed=2)
    with stored(shop) as store:
        run = store.run("latest")
        assert {entry.history.total for entry in store.entries(run.id) if entry.history} == {40}
        assert len(list(store.summaries(run.id))) < 12


def test_a_worse_scenario_fails_its_test(shop: Any) -> None:
    accept(shop)
    shop.write("broken", "hours")
    result = shop.run("--seatrial-against", "baseline")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*worse than its history (40/40): 0/*"])


def test_a_scenario_that_cannot_get_worse_is_skipped(shop: Any) -> None:
    shop.write("broken", "hours")
    accept(shop)
    shop.run("--seatrial-against", "baseline").assert_outcomes(passed=1, skipped=1)


def test_runs_of_the_command_are_history_for_pytest(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(shop.path)
    seatrial.run("shop.trial.yaml", trials=40, name="main")
    with stored(shop) as store:
        store.set_baseline(store.run("main").id)
    shop.write("broken", "refund hours")
    result = shop.run("--seatrial-against", "baseline")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*the suite as a whole is worse*"])


def test_a_suite_that_is_worse_turns_a_session_red_although_every_test_passes(shop: Any) -> None:
    names = [f"n{number}" for number in range(12)]
    listed = "\n".join(f"      - {{name: {name}, input: {name}, expected_output: ok}}" for name in names)
    shop.write("shop.trial.yaml", SUITE[: SUITE.index("      - ")] + listed)
    shop.write(
        "history_shop.py",
        """
        from pathlib import Path

        def answer(input, ctx):
            is_first = int(ctx.trial_id.rpartition("-")[2]) == 1
            return "sorry" if is_first and Path("broken").exists() else "ok"
        """,
    )
    accept(shop)
    shop.write("broken", "")
    result = shop.run("--seatrial-against", "baseline")
    result.assert_outcomes(passed=12)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*the suite as a whole is worse: 24 of the first 36 trials passed, * expected"])
