"""Scenarios that pass and fail although nothing changed, in one run and across several."""

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import Scenario, Suite
from seatrial.cli.main import main
from seatrial.model.run import ScenarioEntry, ScenarioKey, ScenarioOutcome, Status, Verdict
from seatrial.reports.registry import write_report
from seatrial.reports.scenario_totals import flaky_line, is_flaky, repeat_chances
from seatrial.runs.history import find_flaky
from seatrial.store.store import open_store


def an_outcome(passed: int, failed: int, errored: int = 0) -> ScenarioOutcome:
    entry = ScenarioEntry(key=ScenarioKey("s", "a"), position=0, fingerprint="f", trials=passed + failed + errored)
    verdict = Verdict(status=Status.FAILED)
    return ScenarioOutcome(entry=entry, verdict=verdict, passed=passed, failed=failed, errored=errored)


def a_run(
    store: Path, *replies: str, trials: int = 1, expected: str = "ok", name: str | None = None
) -> seatrial.Report:
    turns = cycle(replies)
    scenario = Scenario(name="a", input="hi", expected_output=expected)

    def agent(input: str) -> str:
        return next(turns)

    suite = Suite(name="s", scenarios=[scenario])
    return seatrial.run(suite, agent=agent, store=str(store), trials=trials, concurrency=1, name=name)


def test_tries_are_counted_without_bias():
    found = repeat_chances(an_outcome(3, 2))
    assert found.pass_hat_k == (0.6, 0.3, 0.1, 0.0, 0.0)
    assert found.pass_at_k == (0.6, 0.9, 1.0, 1.0, 1.0)


def test_errored_trials_are_no_tries():
    assert repeat_chances(an_outcome(2, 0, errored=3)).pass_hat_k == (1.0, 1.0)


def test_an_agent_that_gives_out_in_some_trials_is_flaky_and_no_pass_to_who_tries(tmp_path):
    turns = cycle(["ok", None])

    def agent(input: str) -> str:
        reply = next(turns)
        if reply is None:
            raise ConnectionError("gone")
        return reply

    scenario = Scenario(name="a", input="hi", expected_output="ok")
    report = seatrial.run(scenario, agent=agent, store=str(tmp_path / "runs.db"), trials=4, concurrency=1)
    write_report("json", report.record, tmp_path / "results.json")
    write_report("markdown", report.record, tmp_path / "report.md")

    [found] = json.loads((tmp_path / "results.json").read_text("utf-8"))["scenarios"]
    assert found["flaky"] is True
    assert found["pass_hat_k"][:2] == pytest.approx([1 / 2, 1 / 6])
    assert found["pass_at_k"][:2] == pytest.approx([1 / 2, 5 / 6])
    assert "flaky: 2 passed, 2 errored; two tries: both pass in about 17 %" in (tmp_path / "report.md").read_text(
        "utf-8"
    )


def test_nothing_answered_gives_no_chances():
    assert repeat_chances(an_outcome(0, 0, errored=2)).pass_at_k == ()


def test_only_passes_and_failures_together_are_flaky():
    assert is_flaky(an_outcome(3, 2))
    assert not is_flaky(an_outcome(3, 0, errored=2))
    assert not is_flaky(an_outcome(0, 3))
    assert flaky_line(an_outcome(3, 2)) == (
        "flaky: 3 passed, 2 failed; two tries: both pass in about 30 % (pass^2, at least 2 %), "
        "at least one in about 90 % (pass@2, at least 27 %)"
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("console", "flaky: 2 passed, 2 failed; two tries: both pass in about 17 % (pass^2"),
        ("json", '"flaky": true'),
        ("markdown", "flaky: 2 passed, 2 failed"),
        ("junit", "pass_hat_2=0.167"),
    ],
)
def test_every_report_says_that_a_scenario_is_flaky(tmp_path, kind, words):
    report = a_run(tmp_path / "runs.db", "ok", "no", trials=4)
    out = tmp_path / "out"
    write_report(kind, report.record, out)
    assert words in out.read_text("utf-8").replace('"flaky":true', '"flaky": true')


def test_a_scenario_that_passed_in_one_run_and_failed_in_another_is_flaky(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "runs.db"
    reports = [a_run(store, reply) for reply in ("ok", "no", "ok")]
    with open_store(store) as opened:
        [found] = find_flaky(opened)
    assert (found.key.name, found.passed, found.failed) == ("a", 2, 1)
    assert found.runs == tuple(report.run.id for report in reversed(reports))


def test_a_scenario_that_was_edited_in_between_is_not_flaky(tmp_path):
    store = tmp_path / "runs.db"
    a_run(store, "ok")
    a_run(store, "ok", expected="something else")
    with open_store(store) as opened:
        assert find_flaky(opened) == []


def test_flaky_scenarios_are_listed(tmp_path, monkeypatch, capsys: Any):
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "runs.db"
    a_run(store, "ok", "no", trials=2)
    with pytest.raises(SystemExit) as ended:
        main(["list", "flaky", "--store", str(store), "--json"])
    assert not ended.value.code
    [row] = json.loads(capsys.readouterr().out)
    assert (row["scenario"], row["passed"], row["total"]) == ("a", 1, 2)
    with pytest.raises(SystemExit):
        main(["list", "flaky", "--store", str(store)])
    assert "1/2 trials" in capsys.readouterr().out
