import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.judges.metrics import Metric, load_metrics, overall_score, resolve_metrics
from seatrial.model.results import MetricScore
from seatrial.model.scenario import MetricChoice

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "scoring.json").read_text("utf-8"))
OVERALL = [vector for vector in VECTORS if vector["kind"] == "overall"]
REFUSED = [vector for vector in OVERALL if vector["expect"].get("config_error")]
SCORED = [vector for vector in OVERALL if "overall_score" in vector["expect"]]


def chosen(selection: list[dict[str, Any]] | None) -> tuple[Metric, ...]:
    if selection is None:
        return resolve_metrics([MetricChoice(name="default")])
    return resolve_metrics([MetricChoice(name=entry["metric"], weight=entry["weight"]) for entry in selection])


def graded(metrics: tuple[Metric, ...], scores: dict[str, int | bool]) -> list[MetricScore]:
    values = {metric.name: metric.value_of(scores[metric.name]) for metric in metrics}
    return [
        MetricScore(
            metric=metric.name,
            value=values[metric.name],
            label=metric.label_of(values[metric.name]),
            weight=metric.weight,
        )
        for metric in metrics
    ]


def custom(name: str = "on_brand", rubric: str = "Sounds like us.", **more: Any) -> MetricChoice:
    return MetricChoice(name=name, rubric=rubric, **more)


@pytest.mark.parametrize("vector", SCORED, ids=lambda vector: str(vector["id"]))
def test_the_overall_score_is_the_weighted_mean(vector: dict[str, Any]) -> None:
    metrics = chosen(vector["input"]["selection"])
    scores = graded(metrics, vector["input"]["scores"])
    expected = vector["expect"]
    assert overall_score(scores) == expected["overall_score"]
    if "weights" in expected:
        assert {metric.name: metric.weight for metric in metrics} == pytest.approx(expected["weights"])
    if "labels" in expected:
        assert [score.label for score in scores] == expected["labels"]


@pytest.mark.parametrize("vector", REFUSED, ids=lambda vector: str(vector["id"]))
def test_an_impossible_selection_of_metrics_is_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="metrics"):
        chosen(vector["input"]["selection"])


def test_the_vectors_are_all_used() -> None:
    off_the_scale = [vector for vector in OVERALL if vector["expect"].get("status") == "errored"]
    assert len(SCORED) + len(REFUSED) + len(off_the_scale) == len(OVERALL)


def test_every_metric_says_what_each_of_its_scores_means() -> None:
    scales = {"0-5": set("012345"), "1-5": set("12345"), "binary": {"pass", "fail"}}
    for metric in load_metrics().values():
        assert set(metric.scores) == scales[metric.scale], metric.name


def test_default_is_the_eight_weighted_metrics_and_conversation_those_of_a_conversation() -> None:
    eight = resolve_metrics([MetricChoice(name="default")])
    talk = resolve_metrics([MetricChoice(name="conversation")])
    assert len(eight) == 8
    assert sum(metric.weight or 0 for metric in eight) == pytest.approx(1.0)
    assert [(metric.scope, metric.scale) for metric in talk] == [("turn", "1-5")] * 5 + [("trial", "binary")]
    assert [metric.weight for metric in talk] == [None] * 6


def test_metrics_outside_the_overall_score_do_not_change_it() -> None:
    both = resolve_metrics([MetricChoice(name="tool_routing"), MetricChoice(name="goal_completion")])
    assert overall_score(graded(both, {"tool_routing": 4, "goal_completion": False})) == 80.0


def test_a_goal_reached_is_worth_one_and_a_task_completed_five() -> None:
    known = load_metrics()
    assert known["goal_completion"].value_of(True) == 1.0
    assert known["task_completion"].value_of(True) == 5.0
    assert known["goal_completion"].label_of(0.0) == "fail"


def test_a_metric_of_ones_own_is_graded_like_any_other() -> None:
    (metric,) = resolve_metrics([custom(scale="1-5", weight=3)])
    assert (metric.scale, metric.scope, metric.weight, metric.asks) == ("1-5", "trial", 1.0, "Sounds like us.")


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        (MetricChoice(name="helpfullness"), "Did you mean 'helpfulness'"),
        (MetricChoice(name="helpfulness", weight=1), "not part of the overall score"),
        (MetricChoice(name="task_completion"), "needs a weight"),
        (MetricChoice(name="default", weight=1), "stands for several"),
        (MetricChoice(name="tool_routing", scale="1-5"), "already defined"),
        (custom(name="tool_routing"), "already defined"),
        (custom(rubric="  "), "empty rubric"),
        (custom(scope="turn", weight=1), "per turn"),
        (custom(weight=float("nan")), "weight"),
        (custom(weight=float("inf")), "weight"),
    ],
)
def test_a_choice_that_makes_no_sense_says_what_would(choice: MetricChoice, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        resolve_metrics([choice])


def test_no_weight_no_overall_score() -> None:
    with pytest.raises(UsageError, match="no overall score"):
        overall_score([MetricScore(metric="helpfulness", value=5.0)])


def test_a_file_of_ones_own_replaces_the_definitions(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[kindness]\nasks = "Is it kind?"\nscale = "1-5"\nscope = "turn"\n', "utf-8")
    (metric,) = resolve_metrics([MetricChoice(name="kindness")], known=load_metrics(file))
    assert metric.asks == "Is it kind?"


@pytest.mark.parametrize(
    "text",
    [
        "[kindness",
        '[kindness]\nscale = "1-5"',
        '[kindness]\nasks = "?"\nscale = "1-10"',
        '[k]\nask = "?"',
        "k = 1",
        '[k]\nasks = "?"\nscores = "y"',
        '[k]\nasks = "?"\npass = "a"',
        '[k]\nasks = "?"\nscale = "binary"\npass = -5',
        '[k]\nasks = "?"\nscale = "binary"\npass = 0',
        '[k]\nasks = "?"\nscale = "binary"\npass = 10',
        '[k]\nasks = "?"\nscale = "binary"\npass = inf',
        '[k]\nasks = "?"\nscale = "binary"\npass = nan',
        '[k]\nasks = "?"\nscale = "0-5"\npass = 3',
        '[k]\nasks = "?"\nscope = "turn"\nweight = 0.5',
    ],
)
def test_a_broken_file_of_metrics_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"mine\.toml"):
        load_metrics(file)
