"""`seatrial calibrate`: a judge held against human labels."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from seatrial.model.run import ScenarioKey
from seatrial.store.runs import Label
from seatrial.store.store import open_store
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

RUBRIC = ("--rubric", "Gives a reference.")


def lenient(request: ReceivedRequest) -> str:
    """Passes what has a reference, and whatever is polite."""
    shown = request.messages[-1][1]
    return json.dumps({"reasoning": "by its looks", "passed": "BK-" in shown or "please" in shown})


def csv(*rows: tuple[str, str]) -> str:
    return "label,input,output\n" + "\n".join(f"{label},Book it,{output}" for label, output in rows)


LABELS = csv(("pass", "BK-1"), ("pass", "BK-2"), ("pass", "done"), ("fail", "no"), ("fail", "no please"), ("", "BK-9"))


def calibrate(folder: Any, answers: Any, *args: str) -> Any:
    with ModelServer(answers) as server:
        return folder.seatrial("calibrate", *args, "--judge-model", f"openai:j@{server.base_url}")


def test_labels_in_a_csv_file_show_what_the_judge_misses(folder: Any) -> None:
    folder.write("labels.csv", LABELS)

    ended = calibrate(folder, lenient, "labels.csv", *RUBRIC)

    assert ended.code == 0
    assert re.search(r"human passed +2 +1\n", ended.out)
    assert re.search(r"human failed +1 +1\n", ended.out)
    assert "estimated for all 6 trials that the judge saw:" in ended.out
    assert "(kappa) 0.16 [-0.52, 0.77]" in ended.out
    assert "recognises a pass (TPR) 0.73 [0.13, 0.98]" in ended.out
    assert "recognises a failure (TNR) 0.43 [0.02, 0.95]" in ended.out
    assert "pass rate: judge 0.67, humans would say 0.61" in ended.out
    assert ended.out.index("labels.csv:6: human failed, judge passed") < ended.out.index("labels.csv:4: human passed")
    assert "6 model calls" in ended.out


def test_labels_in_json_lines_may_hold_whole_conversations(folder: Any) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Book it."},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "book", "arguments": '{"day": 2}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "BK-7"},
        {"role": "assistant", "content": "Done."},
        {"role": "assistant", "content": "I cancelled the other one."},
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "Bye."},
    ]
    rows = [{"label": True, "messages": messages}, {"label": False, "messages": messages[1:2]}]
    folder.write("labels.jsonl", "\n".join(map(json.dumps, rows)))
    seen: list[str] = []

    def judge(request: ReceivedRequest) -> str:
        seen.append(request.messages[-1][1])
        return lenient(request)

    ended = calibrate(folder, judge, "labels.jsonl", *RUBRIC, "--json")

    found = json.loads(ended.out)
    assert found["table"] == {"seen_passes": 1, "missed_passes": 0, "missed_failures": 0, "seen_failures": 1}
    whole = next(text for text in seen if "BK-7" in text)
    for shown in (
        '"Be brief."',
        '"tool": "book"',
        '"day": 2',
        '"turn": 2',
        '"Done.\\nI cancelled the other one."',
        '"Bye."',
    ):
        assert shown in whole


def test_a_metric_counts_as_a_pass_from_a_score_on(folder: Any) -> None:
    folder.write("labels.csv", csv(("5", "BK-1"), ("2", "meh"), ("fail", "no")))

    def judge(request: ReceivedRequest) -> str:
        score = 4 if "BK-" in request.messages[-1][1] else 3
        return json.dumps({"metrics": {"helpfulness": {"turn_1": {"reason": "r", "score": score}}}, "summary": "s"})

    low = json.loads(calibrate(folder, judge, "labels.csv", "--metric", "helpfulness", "--json").out)
    high = json.loads(
        calibrate(folder, judge, "labels.csv", "--metric", "helpfulness", "--at-least", "4", "--json").out
    )

    assert low["table"]["missed_failures"] == 2
    assert high["table"] == {"seen_passes": 1, "missed_passes": 0, "missed_failures": 0, "seen_failures": 2}


def test_votes_that_differ_are_shown(folder: Any) -> None:
    folder.write("labels.csv", csv(("pass", "BK-1"), ("fail", "no")))
    asked: dict[str, int] = {}

    def judge(request: ReceivedRequest) -> str:
        shown = request.messages[-1][1]
        asked[shown] = asked.get(shown, 0) + 1
        hesitates = "BK-" in shown and asked[shown] == 1
        return json.dumps({"reasoning": "hm" if hesitates else "sure", "passed": "BK-" in shown and not hesitates})

    ended = calibrate(folder, judge, "labels.csv", *RUBRIC, "--votes", "3")

    assert "the judge's votes differ in 1 trial:\n  labels.csv:2: sure (2 of 3 votes; disagreeing: hm)" in ended.out
    assert sorted(asked.values()) == [2, 3]


def test_a_judge_without_an_answer_is_left_out_and_said(folder: Any) -> None:
    folder.write("labels.csv", csv(("pass", "BK-1"), ("fail", "no"), ("fail", "broken")))

    def judge(request: ReceivedRequest) -> ServerReply | str:
        return ServerReply(status=401) if "broken" in request.messages[-1][1] else lenient(request)

    ended = calibrate(folder, judge, "labels.csv", *RUBRIC)

    assert ended.code == 1
    assert "no answer: labels.csv:4: Judge failed after 1 attempt" in ended.out
    assert "1 trial not judged and not counted above" in ended.out
    assert re.search(r"human failed +0 +1\n", ended.out)


def a_run(folder: Any) -> str:
    """Four trials: two pass, one fails, one errs."""
    folder.write(
        "agent.py",
        """
        def answer(input):
            if input == "crash": raise OSError("down")
            return input
        """,
    )
    folder.write(
        "suite.yaml",
        json.dumps(
            {
                "suite": {"name": "s", "agent": "agent:answer"},
                "scenarios": [
                    {"name": name, "input": name, "expected_output": "good", "trials": trials}
                    for name, trials in (("good", 2), ("bad", 1), ("crash", 1))
                ],
            }
        ),
    )
    folder.seatrial("run", "suite.yaml")
    found: str = folder.results()["run"]["id"]
    return found


def test_stored_verdicts_are_held_against_a_file_that_names_trials(folder: Any) -> None:
    run = a_run(folder)
    folder.write("labels.csv", "scenario,trial,label\ngood,1,pass\ngood,trial-2,fail\nbad,1,fail\n")

    found = json.loads(folder.seatrial("calibrate", "labels.csv", "--run", run, "--json").out)

    assert found["table"] == {"seen_passes": 1, "missed_passes": 0, "missed_failures": 1, "seen_failures": 1}
    assert [row["place"] for row in found["rows"] if row["judge"] is None] == ["crash trial-1"]


def test_labels_in_the_store_need_no_file(folder: Any) -> None:
    run = a_run(folder)
    with open_store(".seatrial/runs.db") as store:
        for name, value in (("good", 1.0), ("bad", 0.0)):
            key = ScenarioKey("s", name)
            store.label(
                Label(run_id=run, key=key, index=0, metric="passed", value=value, who="me", at=datetime.now(UTC))
            )

    found = json.loads(folder.seatrial("calibrate", "--run", run, "--json").out)

    assert (found["table"]["seen_passes"], found["table"]["seen_failures"]) == (1, 1)


def test_a_trial_that_several_people_labelled_counts_once_for_the_pass_rate_of_the_run(folder: Any) -> None:
    run = a_run(folder)
    with open_store(".seatrial/runs.db") as store:
        labels = [("good", 1.0, who) for who in ("ann", "ben", "cem")] + [("bad", 0.0, "ann")]
        for name, value, who in labels:
            key = ScenarioKey("s", name)
            store.label(
                Label(run_id=run, key=key, index=0, metric="passed", value=value, who=who, at=datetime.now(UTC))
            )

    found = json.loads(folder.seatrial("calibrate", "--run", run, "--json").out)

    assert found["table"]["seen_passes"] == 3
    assert found["corrected"]["raw"] == pytest.approx(2 / 3), "two trials of three were passed; the fourth crashed"


def test_a_judge_can_be_tried_on_the_stored_conversations(folder: Any) -> None:
    run = a_run(folder)
    folder.write("labels.csv", "scenario,trial,label\ngood,1,pass\nbad,1,fail\n")
    harsh = json.dumps({"reasoning": "no", "passed": False})

    ended = calibrate(folder, [harsh], "labels.csv", "--run", run, *RUBRIC)

    assert re.search(r"human passed +0 +1\n", ended.out)
    assert "labels.csv:2 (good 1): human passed, judge failed: no" in ended.out


@pytest.mark.parametrize(
    ("text", "args", "told"),
    [
        ("label,input,output\nmaybe,a,b", RUBRIC, "labels.csv:2: label: expected pass, fail or a score, got 'maybe'"),
        ("label,inptu\npass,a", RUBRIC, "unknown column 'inptu'. Known: label"),
        ("label,input\npass,a", RUBRIC, "a conversation needs both input and output"),
        ("label\n", RUBRIC, "has no rows"),
        ("label,input,output\npass,a,b", (), "Give --judge-model and a --rubric or --metric"),
        ("label,judge\nnan,pass", (), "labels.csv:2: label: expected pass, fail or a score, got 'nan'"),
        ("label,scenario,trial\npass,a,1", RUBRIC, "has no conversation to judge"),
        ("label,input,output\npass,a,b", (*RUBRIC, "--votes", "2"), "expected an odd number"),
        (
            "label,input,output\npass,a,b",
            (*RUBRIC, "--metric", "helpfulness"),
            "--rubric and --metric cannot be used together",
        ),
        ("label,input,output\npass,a,b", ("--metric", "helpfullness"), "Did you mean 'helpfulness'?"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(folder: Any, text: str, args: tuple[str, ...], told: str) -> None:
    folder.write("labels.csv", text)
    model = ("--judge-model", "openai:j@http://127.0.0.1:9/v1") if args else ()

    ended = folder.seatrial("calibrate", "labels.csv", *args, *model)

    assert ended.code == 2
    assert told in ended.err


def test_a_score_of_one_in_the_judges_column_is_no_pass_on_a_scale_up_to_five(folder: Any) -> None:
    folder.write("labels.csv", "label,judge\n1,1\n5,5\nfail,fail\npass,pass\n")

    found = json.loads(folder.seatrial("calibrate", "labels.csv", "--metric", "helpfulness", "--json").out)

    assert [(row["human"], row["judge"]) for row in found["rows"]] == [(False, False), (True, True)] * 2
