"""`seatrial label` and the gate `judge_corrected`: people confirm what the judge says."""

import csv
import io
import json
from typing import Any

import pytest

AGENT = """
    def answer(input, ctx):
        return "ok" if int(ctx.trial_id.rpartition("-")[2]) % 5 else "sorry"
"""
SUITE = """
    suite:
      name: shop
      agent: "agent:answer"
      config: {trials: 100, threshold: 0.5}
    scenarios:
      - {name: refund, input: refund, expected_output: ok}
      - {name: hours, input: hours, expected_output: ok}
"""


@pytest.fixture
def shop(folder: Any) -> Any:
    folder.write("agent.py", AGENT)
    folder.write("scenarios/shop.yaml", SUITE)
    return folder


def chosen(folder: Any, count: int) -> list[dict[str, str]]:
    ended = folder.seatrial("label", "latest", "--next", str(count))
    assert ended.code == 0, ended.err
    return list(csv.DictReader(io.StringIO(ended.out)))


def fill(folder: Any, rows: list[dict[str, str]], *, wrong: int = 0) -> None:
    """Label the trials by what the agent said; people contradict the judge in the first `wrong` passes."""
    for row in rows:
        row["label"] = "pass" if row["output"] == "ok" else "fail"
    for row in [row for row in rows if row["label"] == "pass"][:wrong]:
        row["label"] = "fail"
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    folder.write("labels.csv", text.getvalue())


def test_the_next_trials_are_chosen_at_random_within_each_verdict_and_do_not_tell_it(shop: Any) -> None:
    shop.seatrial("run")
    rows = chosen(shop, 20)
    outputs = [row["output"] for row in rows]
    assert (outputs.count("ok"), outputs.count("sorry")) == (10, 10)
    assert set(rows[0]) == {"scenario", "trial", "label", "input", "output"}
    assert chosen(shop, 20) == rows
    assert {(row["scenario"], row["trial"]) for row in rows} < {
        (row["scenario"], row["trial"]) for row in chosen(shop, 40)
    }


def test_stored_labels_are_not_chosen_again_and_correct_the_pass_rate(shop: Any) -> None:
    shop.seatrial("run")
    rows = chosen(shop, 40)
    fill(shop, rows, wrong=3)
    assert "stored 40 labels" in shop.seatrial("label", "latest", "labels.csv", "--who", "ann").out
    again = chosen(shop, 40)
    assert not {(row["scenario"], row["trial"]) for row in rows} & {(row["scenario"], row["trial"]) for row in again}
    found = json.loads(shop.seatrial("calibrate", "--run", "latest", "--json").out)
    passes = sum(row["output"] == "ok" for row in rows)
    assert found["corrected"]["raw"] == 0.8
    assert found["corrected"]["estimate"] == pytest.approx(0.8 * (passes - 3) / passes)


def test_labels_chosen_by_verdict_do_not_bias_the_corrected_rate(folder: Any) -> None:
    """500 trials; people pass 89 %. 25 labels of each verdict: their own pass rate is 64 %."""
    rows = [
        *["pass,pass"] * 24,
        "pass,fail",
        *["pass,"] * 409,
        *["fail,pass"] * 8,
        *["fail,fail"] * 17,
        *["fail,"] * 41,
    ]
    folder.write("labels.csv", "judge,label\n" + "\n".join(rows) + "\n")
    found = json.loads(folder.seatrial("calibrate", "labels.csv", "--json").out)["corrected"]
    assert found["raw"] == pytest.approx(434 / 500)
    assert found["interval"][0] < 0.89 < found["interval"][1]
    assert found["interval"][1] < 1.0


def test_few_labels_give_a_warning_and_a_verdict_without_any_gives_bounds(folder: Any) -> None:
    folder.write("labels.csv", "judge,label\n" + "pass,pass\n" * 8 + "fail,fail\n" * 2 + "fail,\n" * 10)
    assert (
        "only 2 of the 12 trials that the judge failed have a label" in folder.seatrial("calibrate", "labels.csv").out
    )
    folder.write("labels.csv", "judge,label\n" + "pass,pass\n" * 8 + "fail,\n" * 2)
    said = folder.seatrial("calibrate", "labels.csv").out
    assert "humans would say between 0.80 and 1.00: one of the judge's verdicts has no label" in said


GATED = SUITE.replace("threshold: 0.5", "threshold: 0.5, judge_corrected: {pass_rate: 0.6, confidence: 0.9}")


def test_a_run_is_inconclusive_until_labels_confirm_its_pass_rate(shop: Any) -> None:
    shop.write("scenarios/shop.yaml", GATED)
    ended = shop.seatrial("run")
    assert ended.code == 1
    assert "INCONCLUSIVE: judge_corrected: people must confirm a pass rate of 60 %" in ended.out
    fill(shop, chosen(shop, 60))
    labelled = shop.seatrial("label", "latest", "labels.csv")
    assert (labelled.code, "PASS: judge_corrected: humans would pass 80 %" in labelled.out) == (0, True)
    shown = json.loads(shop.seatrial("show", "latest", "--json").out)
    assert shown["status"] == "passed"
    assert any("humans would pass 80 %" in note for note in shown["notes"])


def test_labels_that_contradict_the_judge_fail_the_run(shop: Any) -> None:
    shop.write("scenarios/shop.yaml", GATED)
    shop.seatrial("run")
    fill(shop, chosen(shop, 60), wrong=30)
    assert shop.seatrial("label", "latest", "labels.csv").code == 1
    assert json.loads(shop.seatrial("show", "latest", "--json").out)["status"] == "failed"
    assert shop.seatrial("calibrate", "--run", "latest").code == 1


def test_few_labels_leave_the_gate_undecided(shop: Any) -> None:
    shop.write("scenarios/shop.yaml", GATED.replace("pass_rate: 0.6", "pass_rate: 0.79"))
    shop.seatrial("run")
    fill(shop, chosen(shop, 10))
    ended = shop.seatrial("label", "latest", "labels.csv")
    assert (ended.code, "INCONCLUSIVE" in ended.out, "Label more trials" in ended.out) == (3, True, True)
    assert json.loads(shop.seatrial("show", "latest", "--json").out)["status"] == "inconclusive"


def test_the_chosen_trials_can_be_written_to_a_file_that_calibrate_reads(shop: Any) -> None:
    shop.seatrial("run")
    assert "seatrial label" in shop.seatrial("label", "latest", "--next", "20", "--output", "next.csv").err
    rows = list(csv.DictReader(io.StringIO((shop.path / "next.csv").read_text("utf-8"))))
    fill(shop, rows)
    assert "humans would say 0.80" in shop.seatrial("calibrate", "labels.csv", "--run", "latest").out


def test_mistakes_are_told(shop: Any) -> None:
    shop.seatrial("run")
    assert "give --next 20" in shop.seatrial("label", "latest").err
    shop.write("labels.csv", "scenario,trial,label\nrefund,1,\n")
    assert "no row has a label" in shop.seatrial("label", "latest", "labels.csv").err
    shop.write("labels.csv", "scenario,trial,label\nnothing,1,pass\n")
    assert "has no scenario 'nothing'" in shop.seatrial("label", "latest", "labels.csv").err
    shop.write("scenarios/shop.yaml", SUITE.replace("threshold: 0.5", "judge_corrected: {confidence: 0.9}"))
    assert "pass_rate" in shop.seatrial("validate").err
