"""Every case of files.json, written to a file and given to `seatrial validate`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "files.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_validate_accepts_and_refuses_as_the_vector_says(case: dict[str, Any], folder: Any) -> None:
    (folder.path / "one.yaml").write_text(case["yaml"], encoding="utf-8")

    ended = folder.seatrial("validate", "one.yaml")

    assert ended.code == (0 if case["load_ok"] else 2), ended.err
    if case["load_ok"]:
        assert ended.out == "one.yaml: ok, 1 scenario\n"
        assert ended.err == ""
        return
    problems = ended.err.splitlines()
    assert all(re.match(r"(error: )?one\.yaml(:\d+:\d+)?: .", problem) for problem in problems), ended.err
    for place in case.get("error_at", ()):
        assert any(plain(place) in plain(problem) for problem in problems), ended.err


def plain(place: str) -> str:
    """A key path in one notation: scenarios[0].input as scenarios.0.input."""
    return re.sub(r"\[(\d+)\]", r".\1", place).replace("<file>.", "").replace("<file>", "").replace("(root)", "")


def test_all_mistakes_of_all_files_are_shown_at_once(folder: Any) -> None:
    refused = [case for case in CASES if not case["load_ok"]]
    for case in refused:
        (folder.path / f"{case['id']}.yaml").write_text(case["yaml"], encoding="utf-8")

    ended = folder.seatrial("validate", ".")

    assert ended.code == 2
    named = {line.removeprefix("error: ").partition(".yaml")[0] for line in ended.err.splitlines()}
    assert named == {case["id"] for case in refused}


def test_run_refuses_what_validate_refuses(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): open('called', 'w'); return 'ok'")
    folder.write("good.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: hi}]")
    folder.write("wrong.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, inputs: hi}]")

    ended = folder.seatrial("run", ".")

    assert ended.code == 2
    assert "wrong.yaml:2:23: scenarios[0].inputs: unknown key 'inputs'. Did you mean 'input'?" in ended.err
    assert not folder.exists("called")
