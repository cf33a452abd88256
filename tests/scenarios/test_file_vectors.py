"""The files that every build must accept or refuse."""

import json
import re
from pathlib import Path

import pytest

from seatrial.scenarios.keys import json_schema
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "files.json").read_text("utf-8"))
ACCEPTED = [case for case in VECTORS if case["load_ok"]]
REFUSED = [case for case in VECTORS if not case["load_ok"]]


def _file(tmp_path: Path, case: dict[str, str]) -> Path:
    path = tmp_path / "vector.yaml"
    path.write_text(case["yaml"], "utf-8")
    return path


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case["id"])
def test_a_right_file_loads(case, tmp_path):
    [suite] = load(_file(tmp_path, case))
    assert suite.count == len(list(suite.scenarios)) == 1
    if "parsed" in case:
        [scenario] = suite.scenarios
        expected = case["parsed"]
        assert (scenario.name, scenario.threshold) == (expected["id"], expected["threshold"])
        assert (scenario.trials, list(scenario.tags)) == (expected["runs"], expected["tags"])


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["id"])
def test_a_wrong_file_is_refused_with_its_place(case, tmp_path):
    path = _file(tmp_path, case)
    with pytest.raises(FileProblems) as refused:
        load(path)
    for line in str(refused.value).splitlines():
        assert re.match(rf"{re.escape(str(path))}:\d+:\d+: \S", line)
    paths = [problem.path for problem in refused.value.problems]
    for place in case.get("error_at", []):
        ours = re.sub(r"\.(\d+)", r"[\1]", place.removeprefix("<file>").removeprefix("(root)").removeprefix("."))
        assert any(found.startswith(ours) for found in paths)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case["id"])
def test_the_schema_accepts_a_right_file(case):
    from jsonschema import Draft202012Validator

    from seatrial.scenarios.yaml_files import parse

    Draft202012Validator(json_schema()).validate(parse(case["yaml"]).data)
