"""Models may be named by a text or by a mapping, wherever a model may be named."""

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.model.scenario import Scenario
from seatrial.scenarios.load import load
from seatrial.scenarios.models import RunModels
from seatrial.scenarios.problems import FileProblems

MINE = {"model": "openai:m", "base_url": "http://127.0.0.1:1/v1", "api_key": "k", "settings": {"temperature": 0}}


def _load(tmp_path: Path, scenario: dict[str, Any]) -> Scenario:
    path = tmp_path / "suite.json"
    path.write_text(json.dumps({"scenarios": [{"name": "a", "input": "hi", **scenario}]}), "utf-8")
    [suite] = load(path)
    (found,) = suite.scenarios
    return found


@pytest.mark.parametrize("role", ["judge", "user", "dedup"])
def test_a_mapping_reaches_the_model_layer_whole(tmp_path: Path, role: Any) -> None:
    scenario = _load(tmp_path, {"models": {role: {**MINE, "output": "native"}}})

    spec = RunModels(environ={}).model(role, scenario)

    assert (spec.label, spec.base_url, spec.api_key) == ("openai:m", "http://127.0.0.1:1/v1", "k")
    assert (dict(spec.settings), spec.output) == ({"temperature": 0}, "native")


def test_a_judge_may_have_a_model_of_its_own_as_a_mapping(tmp_path: Path) -> None:
    scenario = _load(tmp_path, {"expect": {"judge": {"rubric": "is kind", "model": MINE}}})

    assert scenario.expect is not None
    assert scenario.expect.judge is not None
    spec = RunModels(environ={}).model("judge", scenario, own=scenario.expect.judge.model)
    assert spec.base_url == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize("model", [{"base_url": "http://x/v1"}, {**MINE, "base_ulr": "x"}, {**MINE, "output": "json"}])
def test_a_mistake_in_a_mapping_is_placed_in_the_file(tmp_path: Path, model: Any) -> None:
    with pytest.raises(FileProblems, match=r"suite\.json:1:\d+: scenarios\[0\]\.models\.judge"):
        _load(tmp_path, {"models": {"judge": model}})
