"""`run --against`: a run is tested against the history of accepted runs, with more trials only where needed."""

import json
import re
from typing import Any

import pytest

import seatrial

AGENT = """
    from pathlib import Path

    def answer(input, ctx):
        if Path("flaky").exists() and ctx.trial_id.endswith("-2"):
            return "sorry"
        broken = Path("broken").read_text().split() if Path("broken").exists() else []
        if "raises" in broken and input == "refund":
            raise RuntimeError("no")
        if Path("promise").exists():
            Path("promise").unlink()
            return "ok, I guarantee it"
        return "sorry" if input in broken else "ok"
"""
SUITE = """
    suite: {name: shop, agent: "agent:answer", config: {trials: 2}}
    scenarios:
      - {name: refund, input: refund, expected_output: ok}
      - {name: hours, input: hours, expected_output: ok}
      - {name: books, input: books, expected_output: ok}
"""


@pytest.fixture
def shop(folder: Any) -> Any:
    """A project with an accepted run of 60 trials of each scenario."""
    folder.write("agent.py", AGENT)
    folder.write("scenarios/shop.yaml", SUITE)
    folder.seatrial("run", "--trials", "60", "--name", "main")
    folder.seatrial("baseline", "set", "main")
    return folder


def against(folder: Any, *arguments: str) -> tuple[int, Any]:
    """The exit code, and the JSON report of the latest run."""
    ended = folder.seatrial("run", "--against", "baseline", *arguments)
    assert ended.code in (0, 1, 3), ended.err
    return ended.code, json.loads(folder.seatrial("show", "latest", "--json").out)


def played(report: Any) -> dict[str, int]:
    return {one["name"]: len(one["trials"]) for one in report["scenarios"]}


def decisions(report: Any) -> dict[str, Any]:
    return {one["name"]: one["history"] and one["history"]["decision"] for one in report["scenarios"]}


def test_an_unchanged_agent_is_not_worse_after_a_few_trials(shop: Any) -> None:
    code, report = against(shop)
    assert code == 0
    assert report["against"]["verdict"] == "NOT WORSE"
    assert set(decisions(report).values()) == {"cleared"}
    assert all(3 <= count <= 5 for count in played(report).values())


def test_a_broken_scenario_is_a_regression_and_named(shop: Any) -> None:
    shop.write("broken", "books")
    code, report = against(shop)
    assert code == 1
    assert report["against"]["verdict"] == "REGRESSION"
    assert report["against"]["worse"] == ["books"]
    assert decisions(report) == {"refund": "cleared", "hours": "cleared", "books": "worse"}
    assert "worse than its history (60/60): 0/1 trial passed when it was decided" in shop.seatrial("show").out


def test_a_crashing_agent_is_a_regression(shop: Any) -> None:
    shop.write("broken", "raises")
    code, report = against(shop)
    assert (code, report["against"]["worse"]) == (1, ["refund"])


def test_trials_of_a_scenario_that_was_edited_are_no_history(shop: Any) -> None:
    shop.write(
        "scenarios/shop.yaml", SUITE.replace("input: hours, expected_output: ok", "input: hours, expected_output: k")
    )
    code, report = against(shop)
    assert code == 0
    assert decisions(report) == {"refund": "cleared", "hours": None, "books": "cleared"}
    assert played(report)["hours"] == 2  # its own trials
    assert any("hours (0 trials of history, 20 needed)" in note for note in report["notes"])


def test_a_scenario_with_a_short_history_that_fails_its_own_gate_exits_with_1(shop: Any) -> None:
    shop.write("scenarios/shop.yaml", SUITE + "      - {name: new, input: new, expected_output: ok}\n")
    shop.write("broken", "new")
    code, report = against(shop)
    assert code == 1
    assert report["against"]["worse"] == []
    assert report["against"]["verdict"] is None


def test_a_scenario_that_must_pass_uses_its_own_trials_and_gate(shop: Any) -> None:
    shop.write("scenarios/shop.yaml", SUITE.replace("name: hours,", "name: hours, must_pass: true,"))
    shop.write("broken", "hours")
    code, report = against(shop)
    assert code == 1
    assert decisions(report)["hours"] is None
    assert played(report)["hours"] == 2


def test_a_scenario_that_never_passed_is_listed_and_not_run(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("scenarios/shop.yaml", SUITE)
    folder.write("broken", "hours")
    folder.seatrial("run", "--trials", "60", "--name", "main")
    folder.seatrial("baseline", "set", "main")
    code, report = against(folder)
    assert code == 0
    assert played(report)["hours"] == 0
    skip = next(one["skip"] for one in report["scenarios"] if one["name"] == "hours")
    assert "passed 0 of 60 trials of its history, so it cannot get worse" in skip


def test_without_a_baseline_every_scenario_uses_its_own_trials(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("scenarios/shop.yaml", SUITE)
    code, report = against(folder)
    assert code == 0
    assert played(report) == {"refund": 2, "hours": 2, "books": 2}
    assert any("no run is accepted as its baseline" in note for note in report["notes"])
    assert report["against"]["verdict"] is None, "nothing was compared, so nothing is known to be not worse"
    assert "\nPASS\n" in folder.seatrial("show").out


FLAKY = """
    from pathlib import Path

    def answer(input):
        count = int(Path("count").read_text()) if Path("count").exists() else 0
        Path("count").write_text(str(count + 1))
        return "ok" if Path("all").exists() or count % 4 != 3 else "sorry"
"""


def test_a_scenario_between_same_and_worse_is_undecided_with_exit_code_3(folder: Any) -> None:
    """60 of 60 before, and 3 of 4 now: neither a drop of 40 points nor the same."""
    folder.write("agent.py", FLAKY)
    folder.write("scenarios/shop.yaml", SUITE.split("  - {name: hours")[0])
    folder.write("all", "")
    folder.seatrial("run", "--trials", "24", "--name", "main", "--concurrency", "1")
    folder.seatrial("baseline", "set", "main")
    (folder.path / "all").unlink()
    (folder.path / "count").unlink()
    folder.seatrial("run", "--name", "candidate", "--trials", "4", "--concurrency", "1")
    ended = folder.seatrial("compare", "--gate", "sequential")
    assert ended.code == 3
    assert "UNDECIDED: cannot tell whether worse than its history: refund" in ended.out
    assert "seatrial run --against baseline" in ended.out


def test_compare_decides_stored_trials_by_the_history(shop: Any) -> None:
    shop.write("broken", "books")
    shop.seatrial("run", "--trials", "6")
    ended = shop.seatrial("compare", "--gate", "sequential")
    assert ended.code == 1
    assert "REGRESSION: worse than its history: books" in ended.out
    (shop.path / "broken").unlink()
    shop.seatrial("run", "--trials", "6")
    assert shop.seatrial("compare", "--gate", "sequential").code == 0


def test_compare_by_the_history_is_not_green_if_a_scenario_is_missing(shop: Any) -> None:
    shop.seatrial("run", "--trials", "6", "--scenario", "refund")
    ended = shop.seatrial("compare", "--gate", "sequential")
    assert ended.code == 1
    assert "lacks scenarios of the baseline: hours, books" in ended.out
    assert shop.seatrial("compare", "--gate", "sequential", "--allow-missing").code == 0


def test_the_forecast_says_calls_and_power_and_runs_nothing(shop: Any) -> None:
    before = shop.seatrial("list", "runs").out
    said = shop.seatrial("run", "--against", "baseline", "--dry-run").out
    assert re.search(r"3 scenarios, 1\d trials on average if nothing changed, at most 144", said)
    assert "a drop of 40 points in one scenario is found in" in said
    assert "at most 5 % are false alarms" in said
    assert shop.seatrial("list", "runs").out == before


def test_a_run_against_the_history_adds_only_its_first_trials_to_it(shop: Any) -> None:
    shop.write("broken", "books")
    against(shop)
    (shop.path / "broken").unlink()
    shop.seatrial("baseline", "set", "latest")
    said = shop.seatrial("run", "--against", "baseline", "--dry-run").out
    assert "history 60/63" in said


def test_runs_of_another_agent_are_no_history(shop: Any) -> None:
    shop.write("other.py", AGENT)
    shop.seatrial("run", "--trials", "30", "--agent", "other:answer", "--name", "other")
    shop.seatrial("baseline", "set", "other")
    shop.seatrial("baseline", "set", "main")
    assert "history 60/60" in shop.seatrial("run", "--against", "baseline", "--dry-run").out


def test_runs_of_one_seed_count_once(shop: Any) -> None:
    for name in ("a", "b"):
        shop.seatrial("run", "--trials", "5", "--seed", "7", "--name", name)
        shop.seatrial("baseline", "set", name)
    forecast = shop.seatrial("run", "--against", "baseline", "--dry-run").out
    assert "history 65/65" in forecast
    assert "1 run of the history has the seed of another run, so each seed counts once" in forecast


def test_the_history_has_at_most_the_newest_100_trials(shop: Any) -> None:
    shop.write("broken", "refund hours books")
    shop.seatrial("run", "--trials", "80", "--name", "new")
    shop.seatrial("baseline", "set", "new")
    said = shop.seatrial("run", "--against", "baseline", "--dry-run").out
    assert "history 20/100" in said


STOPPED = """
    import os, signal, threading
    from pathlib import Path

    def answer(input):
        if Path("stop").exists() and input == "books":
            Path("stop").unlink()
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(60)
        return "ok"
"""


def test_an_interrupted_run_goes_on_with_the_history_that_it_started_with(shop: Any) -> None:
    shop.write("agent.py", STOPPED)
    shop.write("stop", "")
    stopped = shop.process("run", "--against", "baseline", "--concurrency", "1")
    assert stopped.code == 130
    shop.seatrial("run", "--trials", "5", "--name", "later")
    shop.seatrial("baseline", "set", "later")
    interrupted = next(
        run["id"] for run in json.loads(shop.seatrial("list", "runs", "--json").out) if run["state"] == "interrupted"
    )
    ended = shop.process("run", "--resume", interrupted)
    assert ended.code == 0, ended.out + ended.err
    shown = shop.process("show", interrupted, "--json")
    assert shown.code == 0, shown.err
    report = json.loads(shown.out)
    assert {one["history"]["total"] for one in report["scenarios"]} == {60}
    assert set(decisions(report).values()) == {"cleared"}


def test_the_flag_is_refused_where_it_cannot_work(shop: Any) -> None:
    shard = shop.seatrial("run", "--against", "baseline", "--shard", "1/2")
    assert (shard.code, "--shard" in shard.err) == (2, True)
    unknown = shop.seatrial("run", "--against", "nothing")
    assert (unknown.code, "nothing" in unknown.err) == (2, True)
    again = shop.seatrial("run", "--resume", "main", "--against", "baseline")
    assert (again.code, "Leave out --against" in again.err) == (2, True)


def test_python_tests_against_the_history_too(shop: Any) -> None:
    shop.write("broken", "books")
    report = seatrial.run("scenarios", against="baseline")
    assert report.exit_code == 1
    assert report.outcome.against is not None
    assert report.outcome.against.worse == ("books",)
    with pytest.raises(seatrial.UsageError, match="needs a store"):
        seatrial.run("scenarios", against="baseline", store=None)


def test_a_threshold_of_the_suite_does_not_hide_a_regression(shop: Any) -> None:
    shop.write("scenarios/shop.yaml", SUITE.replace("trials: 2", "trials: 2, cases_pass_threshold: 10"))
    shop.write("broken", "books")
    code, report = against(shop)
    assert (code, report["against"]["verdict"]) == (1, "REGRESSION")


def test_a_violated_invariant_exits_with_1_whatever_the_history(shop: Any) -> None:
    rule = "invariants: [{name: no promises, never: {says: {$contains: guarantee}}}]"
    shop.write("scenarios/shop.yaml", SUITE.replace('agent: "agent:answer",', f'agent: "agent:answer", {rule},'))
    shop.seatrial("run", "--trials", "60", "--name", "main")
    shop.seatrial("baseline", "set", "main")
    assert against(shop)[0] == 0
    shop.write("promise", "")
    code, report = against(shop, "--concurrency", "1")
    assert code == 1
    assert any("an invariant was violated: no promises" in reason for reason in report["failure_reasons"])


@pytest.mark.parametrize("flags", [("--against", "baseline"), ("--trials", "auto")])
def test_every_report_is_written_for_a_flaky_scenario_that_stops_by_results(shop: Any, flags: tuple[str, ...]) -> None:
    shop.write("flaky", "")
    kinds = ("json", "jsonl", "html", "junit", "markdown", "comment", "github")
    reports = [flag for kind in kinds for flag in ("--report", f"{kind}=out/{kind}")]
    ended = shop.seatrial("run", *flags, *reports)
    assert "flaky:" in ended.out
    assert "pass^" not in ended.out
    assert sorted(path.name for path in (shop.path / "out").iterdir()) == sorted(kinds)
    assert "The number of trials depends on their results" in (shop.path / "out" / "html").read_text("utf-8")
    written = (shop.path / "out" / "junit").read_text("utf-8")
    assert 'name="refund.flaky" value="true"' in written
    assert "pass_hat_2" not in written
