"""Every case of the trajectory vectors, written as scenarios with `trajectory:` and run with `seatrial run`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parent.parent / "vectors"
FILES = ("trajectory", "trajectory_fuzz", "trajectory_extended")
CASES: dict[str, list[dict[str, Any]]] = {
    name: json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8")) for name in FILES
}
AGENT = """
import json
from pathlib import Path

from seatrial import AgentResult, ToolCall

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text(encoding="utf-8"))


def answer(input, ctx):
    return AgentResult("done", tool_calls=[ToolCall(call["name"], call["args"]) for call in CALLS[ctx.scenario]])
"""


def entries(case: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [
        {("arg_match" if name == "argMatchMode" else name): value for name, value in entry.items()}
        for entry in case.get(key, ())
    ]


def scenario_of(case: dict[str, Any]) -> dict[str, Any]:
    rule = {"mode": case["mode"], "expected": entries(case, "expected"), "forbidden": entries(case, "forbidden")}
    return {"name": case["id"], "input": "go", "trajectory": {key: value for key, value in rule.items() if value}}


@pytest.fixture(scope="module")
def matches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The trajectory of each scenario, after one run over all files."""
    folder = tmp_path_factory.mktemp("trajectories")
    calls = {}
    for name, cases in CASES.items():
        content = {"scenarios": [scenario_of(case) for case in cases]}
        (folder / f"{name}.trial.json").write_text(json.dumps(content), encoding="utf-8")
        calls |= {case["id"]: case["actual"] for case in cases}
    (folder / "calls.json").write_text(json.dumps(calls), encoding="utf-8")
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "run", ".", "--agent", "agent:answer", "--report", "json"],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1, done.stderr
    results = json.loads((folder / ".seatrial" / "results.json").read_text("utf-8"))
    assert results["totals"]["error_count"] == 0
    return {scenario["name"]: scenario["trials"][0]["trajectory"] for scenario in results["scenarios"]}


@pytest.mark.parametrize("name", ["trajectory", "trajectory_fuzz"])
def test_a_trajectory_in_a_file_matches_as_the_vector_says(name: str, matches: dict[str, Any]) -> None:
    wrong = []
    for case in CASES[name]:
        if not agrees(matches[case["id"]], case["result"]):
            wrong.append((case["id"], case["result"], matches[case["id"]]))

    assert wrong == []


def agrees(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return (
        found["matched"] == wanted["matched"]
        and found["forbidden_calls"] == wanted["forbidden"]
        and bool(found["ordering_issues"]) == bool(wanted["ordering"])
        and len(found["missing_calls"]) == wanted.get("missing_count", len(wanted.get("missing", ())))
        and len(found["extra_calls"]) == wanted.get("extra_count", len(wanted.get("extra", ())))
    )


def test_counts_alternatives_and_matchers_in_a_file_match_as_the_vector_says(matches: dict[str, Any]) -> None:
    cases = CASES["trajectory_extended"]

    assert [case["id"] for case in cases if matches[case["id"]]["matched"] != case["matched"]] == []
