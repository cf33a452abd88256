"""`metrics_file`: metrics of the suite's own, in the form of the file that comes with the package."""

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.judges.metrics import resolve_metrics
from seatrial.scenarios.fingerprint import fingerprints
from seatrial.scenarios.load import load
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.scenarios.problems import FileProblems

BREVITY = """
[brevity]
asks = "Is it short?"
scope = "turn"
scale = "1-5"
scores = {5 = "One sentence.", 1 = "A page."}

[helpfulness]
asks = "Did it help, by our own standards?"
scope = "turn"
scale = "1-5"
"""


def loaded(tmp_path: Path, *, file: str = BREVITY, **keys: Any) -> LoadedSuite:
    (tmp_path / "ours.toml").write_text(file, "utf-8")
    content = {"suite": {"config": {"metrics_file": "ours.toml"}}, "scenarios": [{"name": "a", "input": "hi", **keys}]}
    (tmp_path / "suite.json").write_text(json.dumps(content), "utf-8")
    [suite] = load(tmp_path / "suite.json")
    return suite


def metrics_of(suite: LoadedSuite) -> dict[str, Any]:
    [scenario] = suite.scenarios
    return {metric.name: metric for metric in resolve_metrics(scenario.metrics or ())}


def test_a_metric_of_the_file_can_be_chosen_by_name(tmp_path: Path) -> None:
    suite = loaded(tmp_path, metrics=["brevity"], thresholds={"brevity": 4})

    brevity = metrics_of(suite)["brevity"]

    assert (brevity.asks, brevity.scope, brevity.scale) == ("Is it short?", "turn", "1-5")
    assert brevity.scores["5"] == "One sentence."


def test_a_metric_of_the_file_takes_the_place_of_the_usual_one(tmp_path: Path) -> None:
    metrics = metrics_of(loaded(tmp_path, metrics=["conversation"]))

    assert metrics["helpfulness"].asks == "Did it help, by our own standards?"
    assert metrics["coherence"].asks != ""


def test_an_edit_of_the_file_is_an_edit_of_the_scenarios_that_use_it(tmp_path: Path) -> None:
    def prints(file: str, metric: str) -> str:
        [scenario] = loaded(tmp_path, file=file, metrics=[metric]).scenarios
        return fingerprints(scenario, "agent")

    edited = BREVITY.replace("Is it short?", "Is it very short?")
    assert prints(BREVITY, "brevity") != prints(edited, "brevity")
    assert prints(BREVITY, "coherence") == prints(edited, "coherence")


@pytest.mark.parametrize(
    ("file", "keys", "told"),
    [
        ("[brevity]\nasks = ''", {}, "'asks' must say what the judge is asked"),
        ("[brevity]\nask = 'x'", {}, "unknown key 'ask'"),
        ("[default]\nasks = 'x'", {}, "stands for several metrics"),
        ("[brevity", {}, "the metrics cannot be read"),
        (BREVITY + "weight = 1", {}, "[helpfulness] is graded per turn, so it has no part in the overall score"),
        ("[done]\nasks = 'x'\nscale = 'binary'\npass = 100", {}, "above 0 and at most 5, got 100"),
        (BREVITY, {"metrics": ["brevety"]}, "Did you mean 'brevity'?"),
        (BREVITY, {"metrics": ["brevity"], "thresholds": {"brevity": 6}}, "its scale ends at 5"),
        (BREVITY, {"metrics": [{"name": "brevity", "weight": 1}]}, "not part of the overall score"),
    ],
)
def test_a_file_or_a_choice_that_does_not_fit_is_refused(
    tmp_path: Path, file: str, keys: dict[str, Any], told: str
) -> None:
    with pytest.raises(FileProblems, match=r"suite\.json:1") as refused:
        loaded(tmp_path, file=file, **keys)
    assert told in str(refused.value)


def test_a_metric_that_is_chosen_twice_is_refused_and_a_group_may_be_changed(tmp_path: Path) -> None:
    reweighed = metrics_of(loaded(tmp_path, metrics=["default", {"name": "tool_routing", "weight": 0.85}]))
    assert reweighed["tool_routing"].weight == pytest.approx(0.5)

    with pytest.raises(FileProblems, match="the metric 'tool_routing' is chosen twice"):
        loaded(tmp_path, metrics=["tool_routing", {"name": "tool_routing", "weight": 1}])
