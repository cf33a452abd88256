"""Situations in which sound formulas, combined in the wrong way, give wrong verdicts: see `docs/statistics.md`."""

import csv
import io
import itertools
import json
import subprocess
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer

SCRIPTED = """
    import json
    from pathlib import Path

    def answer(input, ctx):
        said = json.loads(Path("script.json").read_text())[input]
        letter = said[(int(ctx.trial_id.rpartition("-")[2]) - 1) % len(said)]
        if letter == "x" and not Path("mended").exists():
            raise RuntimeError("down")
        return "sorry" if letter == "f" else "ok"
"""


def write(folder: Any, **script: str) -> None:
    """Scenarios whose trials pass (p), fail (f) or crash (x) as written."""
    scenarios = [{"name": name, "input": name, "expected_output": "ok"} for name in script]
    folder.write("agent.py", SCRIPTED)
    folder.write(
        "scenarios/shop.json", json.dumps({"suite": {"name": "shop", "agent": "agent:answer"}, "scenarios": scenarios})
    )
    folder.write("script.json", json.dumps(script))


def run(folder: Any, name: str, *flags: str, **script: str) -> Any:
    if script:
        folder.write("script.json", json.dumps(script))
    return folder.seatrial("run", "--name", name, *flags)


NAMES = ("hours", "books", "refund", "trips")


def test_trials_that_results_added_are_not_compared_with_a_fixed_number(folder: Any) -> None:
    """An agent of 70 % in both runs. `trials: auto` stops in a bad moment, with 2 of 5."""
    write(folder, **dict.fromkeys(NAMES, "ppfpppfpfp"))
    run(folder, "base", "--trials", "20")
    run(folder, "cand", "--trials", "auto", **dict.fromkeys(NAMES, "ppfff"))
    ended = folder.seatrial("compare", "base", "cand", "--gate", "statistical", "--no-pool")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "NO REGRESSION")
    assert "pass rate    70.0 % → 66.7 %   (56/80 trials → 8/12 trials; first trials only)" in ended.out
    assert "hours  14/20 → 2/3 (all: 2/5)  within noise" in ended.out


def test_an_agent_that_crashed_does_not_pass_by_repeating_its_trials(folder: Any) -> None:
    write(folder, hours="ppxppxppxx")
    run(folder, "crashes", "--trials", "10")
    folder.write("mended", "")
    for flag in ("--retry-errors", "--retry-agent-errors"):
        ended = folder.seatrial("run", "--resume", "crashes", flag)
        assert (ended.code, "6/10 trials passed" in ended.out) == (1, True)
    assert "errored before it was repeated: agent: RuntimeError: down" in ended.out
    assert "the judge is not sure" not in ended.out
    assert [row["passed"] for row in json.loads(folder.seatrial("list", "flaky", "--json").out)] == [6]


def test_confirm_runs_nothing_if_the_baseline_cannot_decide(folder: Any) -> None:
    names = [f"n{number}" for number in range(20)]
    write(folder, **dict.fromkeys(names, "p"))
    run(folder, "base")
    run(folder, "cand", **{**dict.fromkeys(names, "p"), "n2": "f", "n5": "f", "n9": "f"})
    ended = folder.seatrial("compare", "base", "cand", "--confirm")
    assert (ended.code, ended.out.splitlines()[-1]) == (3, "UNDECIDED")
    assert "Nothing was run again" in ended.out
    assert "n2: its baseline is 1 trial, too short to decide. Run the baseline with at least 3 trials" in ended.out
    assert len(json.loads(folder.seatrial("list", "runs", "--json").out)) == 2


RANDOM = """
    import random

    def answer(input, ctx):
        return "ok" if random.Random(f"{ctx.seed} {input}").random() < 0.6 else "sorry"
"""


def test_runs_of_one_seed_count_once(folder: Any) -> None:
    write(folder, **dict.fromkeys(NAMES, "p"))
    folder.write("agent.py", RANDOM)
    folder.write(".gitignore", ".seatrial\n__pycache__\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run([*git, *arguments], cwd=folder.path, check=True)
    for number in range(4):
        run(folder, f"copy {number}", "--trials", "5", "--seed", "5")
    flaky = json.loads(folder.seatrial("list", "flaky", "--json").out)
    assert flaky
    assert {(row["total"], len(row["runs"])) for row in flaky} == {(5, 1)}
    folder.write("agent.py", RANDOM.replace("0.6", "0.5"))
    run(folder, "cand", "--trials", "5", "--seed", "6")
    form = json.loads(folder.seatrial("compare", "copy 0", "cand", "--json").out)
    assert form["evidence"]["pooled_runs"] == []
    assert {one["pooled"] for one in form["scenarios"]} == {0}


JUDGED = """
    def answer(input, ctx):
        # Of 500 trials, the check passes 434. People pass 423 of these, and 22 of the other 66.
        number = int(ctx.trial_id.rpartition("-")[2]) * 37 % 500
        said = "ok" if number < 434 else "sorry"
        return f"{said}, {'right' if number < 423 or number >= 478 else 'wrong'}"
"""


@pytest.mark.parametrize("chosen_by", ["label", "failures first"])
def test_labels_chosen_by_verdict_do_not_bias_what_humans_would_say(folder: Any, chosen_by: str) -> None:
    write(folder, hours="p")
    folder.write("agent.py", JUDGED)
    run(folder, "judged", "--trials", "500", "--set", "threshold=0.5")
    rows = list(csv.DictReader(io.StringIO(folder.seatrial("label", "latest", "--next", "400").out)))
    if chosen_by == "label":
        rows = list(csv.DictReader(io.StringIO(folder.seatrial("label", "latest", "--next", "50").out)))
    else:
        failed = [row for row in rows if "sorry" in row["output"]]
        rows = failed[:25] + [row for row in rows if row not in failed][:25]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows({**row, "label": "pass" if "right" in row["output"] else "fail"} for row in rows)
    folder.write("labels.csv", text.getvalue())
    assert "stored 50 labels" in folder.seatrial("label", "latest", "labels.csv").out

    found = json.loads(folder.seatrial("calibrate", "--run", "latest", "--json").out)["corrected"]
    assert found["raw"] == pytest.approx(434 / 500)
    assert found["interval"][0] <= 0.89 <= found["interval"][1] < 1.0
    assert found["true_pass_rate"] == pytest.approx(423 / 445, abs=0.08)
    assert found["true_pass_interval"][0] <= 423 / 445 <= found["true_pass_interval"][1]
    assert found["true_fail_interval"][0] <= 44 / 55 <= found["true_fail_interval"][1]
    said = folder.seatrial("calibrate", "--run", "latest").out
    assert "estimated for all 500 trials that the judge saw:" in said
    assert f"recognises a pass (TPR) {found['true_pass_rate']:.2f} [" in said


def test_kappa_of_twenty_labels_is_not_certain(folder: Any) -> None:
    folder.write("agree.csv", "judge,label\n" + "pass,pass\n" * 19 + "fail,fail\n")
    assert "(kappa) 1.00 [0.21, 1.00]" in folder.seatrial("calibrate", "agree.csv").out


def test_equal_conversations_are_judged_each_on_its_own(folder: Any) -> None:
    """A judge that is wrong in every tenth answer is wrong in one trial of ten, not in a whole scenario."""
    asked = itertools.count(1)

    def judge(_: object) -> str:
        return json.dumps({"reasoning": "r", "passed": next(asked) % 10 != 0})

    write(folder, **dict.fromkeys(NAMES, "p"))
    scenarios = [{"name": name, "input": name, "expect": {"judge": {"rubric": "Is polite."}}} for name in NAMES]
    suite = {"name": "shop", "agent": "agent:answer"}
    folder.write("scenarios/shop.json", json.dumps({"suite": suite, "scenarios": scenarios}))
    with ModelServer(judge) as server:
        for concurrency in ("1", "20"):
            flags = ("--trials", "5", "--judge-model", f"openai:judge-{concurrency}@{server.base_url}")
            run(folder, concurrency, "--concurrency", concurrency, *flags)
            assert folder.results()["totals"]["model_calls"] == 20
            assert folder.results()["totals"]["passed_count"] == 18


def test_every_changed_count_is_listed_with_one_word(folder: Any) -> None:
    write(folder, books="ppppf", hours="ppppp", trips="p")
    run(folder, "base", "--trials", "5")
    run(folder, "cand", "--trials", "5", books="ppfff", hours="ppppf", trips="p")
    ended = folder.seatrial("compare", "base", "cand")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "NO REGRESSION")
    assert "✗ books  4/5 → 2/5  within noise (if nothing had changed" in ended.out
    assert "✗ hours  5/5 → 4/5  within noise (as likely luck as not)" in ended.out
    assert "1 scenario with the same pass rate" in ended.out
    assert "regressed" not in ended.out
    assert "p =" not in ended.out
    assert "p = 0.26" in folder.seatrial("compare", "base", "cand", "-v").out


def test_a_single_trial_that_breaks_is_never_green(folder: Any) -> None:
    write(folder, **dict.fromkeys(NAMES, "p"))
    run(folder, "base")
    run(folder, "cand", **dict.fromkeys(NAMES, "f"))
    ended = folder.seatrial("compare", "base", "cand")
    assert ended.code == 1
    assert "The suite as a whole got worse" in ended.out
    run(folder, "one", **{**dict.fromkeys(NAMES, "p"), "hours": "f"})
    ended = folder.seatrial("compare", "base", "one")
    assert (ended.code, "run both versions with 3 trials each" in ended.out) == (3, True)
