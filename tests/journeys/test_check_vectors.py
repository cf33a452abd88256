"""Every case of checks.json, written to files and run with `seatrial run`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors" / "checks.json").read_text(encoding="utf-8")
)
SCORERS = {
    "ContainsEvaluator": "contains",
    "ToolCallEvaluator": "tool_calls",
    "ToolCallArgsEvaluator": "tool_calls_args",
}
CONSTRUCTOR_ARGUMENTS = {
    "PAE-102": "an evaluator built empty; a file that asserts nothing is refused",
    "PAE-103": "a text that is in every reply; a file that looks for it is refused",
    "PAE-124": "an evaluator built empty; a file that asserts nothing is refused",
}
PARSED = {"PAE-133"}
"""Arguments as a text of JSON: the evaluator alone takes them for malformed, but a run reads them as the mapping."""
JUDGES = {case["id"] for case in CASES if case["scorer"] == "JudgeEvaluator"}
STUBBED = {case["id"] for case in CASES if case["scorer"] == "similarity" and "config_error" not in case["expect"]}
REFUSED = {case["id"] for case in CASES if case["expect"].get("config_error")}
PLAYED = [
    case
    for case in CASES
    if case["id"] not in CONSTRUCTOR_ARGUMENTS.keys() | JUDGES | REFUSED and case["scorer"] != "transcript"
]
TRANSCRIPTS = [case for case in CASES if case["scorer"] == "transcript"]

AGENT = """
import json, threading, time
from pathlib import Path

from seatrial import AgentResult

ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text(encoding="utf-8"))
lock = threading.Lock()


def answer(input, ctx):
    with lock:
        made = ANSWERS[ctx.scenario]
        made = made["runs"].pop(0) if "runs" in made else made
    time.sleep(made.get("sleep", 0))
    if "raises" in made:
        raise RuntimeError(made["raises"].removeprefix("RuntimeError: "))
    return AgentResult(made["output"], tool_calls=made["tool_calls"])
"""
SIMILAR = """
import json
from pathlib import Path

from seatrial import Scenario, Similarity


def stub(cosine):
    async def embed(texts):
        return [(1.0, 0.0), (cosine, (1 - cosine**2) ** 0.5)]

    return embed


def scenario(case):
    keys = {**case["scenario"], "name": case["id"]}
    threshold = keys["metadata"].get("similarity_threshold", 0.7)
    embed = stub(case["agent_result"]["cosine"])
    return Scenario(**keys, scorers=[Similarity(threshold=threshold, embed=embed)])


SCENARIOS = [scenario(case) for case in json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))]
"""


def scenario_of(case: dict[str, Any]) -> dict[str, Any]:
    """The case as a scenario in a file."""
    if case["scorer"] in SCORERS:
        # The evaluator alone decides: an empty reply is for it to judge.
        turns = [{"user": "go", "reply": "optional"}]
        return {"name": case["id"], "turns": turns, "scorers": [{SCORERS[case["scorer"]]: case["scenario"]}]}
    return {"scorers": [case["scorer"]], **case["scenario"], "name": case["id"]}


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def seatrial(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "seatrial", *args], cwd=folder, capture_output=True, encoding="utf-8", check=False
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """results.json by scenario, after one run over all files."""
    folder = tmp_path_factory.mktemp("checks")
    plain = [case for case in PLAYED if case["id"] not in STUBBED]
    write(folder / "scenarios" / "all.trial.json", {"scenarios": [scenario_of(case) for case in plain]})
    for case in TRANSCRIPTS:
        write(folder / "scenarios" / f"{case['id']}.trial.json", {"id": case["id"], **case["scenario"]})
    write(folder / "scenarios" / "cases.json", [case for case in PLAYED if case["id"] in STUBBED])
    (folder / "scenarios" / "similar_trials.py").write_text(SIMILAR, encoding="utf-8")
    write(folder / "answers.json", {case["id"]: case["agent_result"] for case in CASES})
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")

    done = seatrial(folder, "run", "--agent", "agent:answer", "--report", "json", "scenarios")

    assert done.returncode == 1, done.stderr
    results = json.loads((folder / ".seatrial" / "results.json").read_text("utf-8"))
    return {scenario["name"]: scenario for scenario in results["scenarios"]}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in [*PLAYED, *TRANSCRIPTS]])
def test_a_scenario_file_decides_as_the_vector_says(case: dict[str, Any], played: dict[str, Any]) -> None:
    found, wanted = played[case["id"]], {"passed": True} if case["id"] in PARSED else case["expect"]
    trials = found["trials"]
    results = [result for trial in trials for result in trial["results"] if result["evaluator"] != "reply"]

    assert found["passed"] == wanted["passed"], found["failure_reasons"]
    if wanted.get("status") == "errored":
        assert found["status"] == "errored"
        assert trials[0]["error"]["kind"] in ("agent", "limit")
        return
    if case["scorer"] == "transcript":
        assert sum(trial["passed"] for trial in trials) / len(trials) == wanted["score"]
    elif "score" in wanted:
        assert [result["score"] for result in results] == [pytest.approx(wanted["score"])]
    failed = [check["name"] for result in results for check in result["checks"] if not check["passed"]]
    if "failing_checks" in wanted:
        assert failed == wanted["failing_checks"]
    elif "failing_check" in wanted:
        assert failed == [wanted["failing_check"]]
    elif case["scorer"] != "transcript":
        assert failed == []


def test_mistakes_in_the_vectors_are_all_refused_before_any_agent_is_called(tmp_path: Path) -> None:
    for case in CASES:
        if case["id"] in REFUSED:
            write(tmp_path / f"{case['id']}.trial.json", {"scenarios": [scenario_of(case)]})
    (tmp_path / "agent.py").write_text("open('called', 'w')\ndef answer(input): return 'ok'\n", encoding="utf-8")

    done = seatrial(tmp_path, "run", "--agent", "agent:answer", ".")

    assert done.returncode == 2
    assert {line.partition(".trial.json:")[0].removeprefix("error: ") for line in done.stderr.splitlines()} == REFUSED
    assert not (tmp_path / "called").exists()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("id", CONSTRUCTOR_ARGUMENTS)
def test_what_only_python_may_build_is_refused_in_a_file(id: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case["id"] == id)
    write(tmp_path / "one.trial.json", {"scenarios": [scenario_of(case)]})

    done = seatrial(tmp_path, "validate", ".")

    assert done.returncode == 2, done.stdout
    assert "one.trial.json:" in done.stderr


def test_no_case_is_forgotten() -> None:
    covered = {case["id"] for case in [*PLAYED, *TRANSCRIPTS]} | REFUSED | CONSTRUCTOR_ARGUMENTS.keys() | JUDGES

    assert covered == {case["id"] for case in CASES}
    assert len(JUDGES) == 4
