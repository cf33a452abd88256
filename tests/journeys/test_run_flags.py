"""What the flags of `seatrial run` do, seen from outside."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from seatrial.cli.options import read_environment

AGENT = """
    import os, threading
    lock = threading.Lock()

    def answer(input):
        with lock, open("called", "a") as called: called.write(input + "\\n")
        return "yes" if input != "b" else "no"

    def yes(input): return "yes"
    def variable(input): return os.environ.get("GREETING", "nothing")
"""
SUITE = """
    suite: {name: letters, agent: "agent:answer"}
    scenarios:
      - {name: a, input: a, expected_output: "yes", tags: [vowel]}
      - {name: b, input: b, expected_output: "yes"}
      - {name: c, input: c, expected_output: "yes"}
"""


@pytest.fixture
def letters(folder: Any) -> Any:
    """A suite of three scenarios, of which b fails."""
    folder.write("agent.py", AGENT)
    folder.write("scenarios/letters.yaml", SUITE)
    return folder


def statuses(folder: Any) -> dict[str, str]:
    return {one["name"]: one["status"] for one in folder.results()["scenarios"]}


def test_without_paths_the_folder_scenarios_is_run(letters: Any) -> None:
    ended = letters.seatrial("run")

    assert ended.code == 1
    assert statuses(letters) == {"a": "passed", "b": "failed", "c": "passed"}
    assert "2/3 scenarios passed\nFAIL: 1 scenario failed\n" in ended.out


def test_scenario_and_tag_choose(letters: Any) -> None:
    assert letters.seatrial("run", "--scenario", "A", "--scenario", "c").code == 0
    assert statuses(letters) == {"a": "passed", "c": "passed"}
    assert letters.seatrial("run", "--tag", "vowel").code == 0
    assert statuses(letters) == {"a": "passed"}


def test_failed_runs_again_what_did_not_pass(letters: Any) -> None:
    letters.seatrial("run")

    ended = letters.seatrial("run", "--failed", "--agent", "agent:yes")

    assert ended.code == 0
    assert statuses(letters) == {"b": "passed"}


def test_shards_together_are_the_whole(letters: Any) -> None:
    seen: list[str] = []
    for shard in ("1/2", "2/2"):
        letters.seatrial("run", "--shard", shard)
        seen += statuses(letters)

    assert sorted(seen) == ["a", "b", "c"]


def test_a_dry_run_calls_no_agent_and_stores_nothing(letters: Any) -> None:
    ended = letters.seatrial("run", "--dry-run", "--trials", "2")

    assert ended.code == 0
    assert ended.out.splitlines()[1].split() == ["letters", "a", "agent:answer", "2", "trials"]
    assert ended.out.endswith("3 scenarios, 6 trials; nothing was run\n")
    assert not letters.exists("called")
    assert not letters.exists(".seatrial")


def test_a_dry_run_of_nothing_is_a_mistake(letters: Any) -> None:
    assert letters.seatrial("run", "--dry-run", "--tag", "nope").code == 2


def test_flags_override_the_files(letters: Any) -> None:
    letters.seatrial("run", "--trials", "3", "--seed", "7", "--name", "three", "--concurrency", "2")

    results = letters.results()
    assert [len(one["trials"]) for one in results["scenarios"]] == [3, 3, 3]
    assert (results["run"]["seed"], results["run"]["name"]) == (7, "three")
    assert results["run"]["config"]["run"]["concurrency"] == 2


def test_set_reaches_any_key_of_the_config(letters: Any) -> None:
    ended = letters.seatrial("run", "--scenario", "a", "--set", "limits.turns=3", "--set", "threshold=0.5")

    assert ended.code == 0
    assert letters.results()["scenarios"][0]["gates"]["threshold"] == 0.5
    assert [result["evaluator"] for result in letters.results()["scenarios"][0]["trials"][0]["results"]] == [
        "passfail",
        "limits",
    ]


def test_set_reaches_keys_that_have_a_flag_of_their_own(letters: Any) -> None:
    letters.seatrial("run", "--scenario", "a", "--set", "trials=2", "--set", "seed=7")

    assert len(letters.results()["scenarios"][0]["trials"]) == 2
    assert letters.results()["run"]["seed"] == 7


def test_a_run_passes_where_enough_cases_passed(letters: Any) -> None:
    assert letters.seatrial("run", "--cases-pass-threshold", "60").code == 0
    assert letters.seatrial("run", "--cases-pass-threshold", "70").code == 1


def test_verbose_shows_whole_transcripts(letters: Any) -> None:
    quiet = letters.seatrial("run").out
    verbose = letters.seatrial("run", "--verbose").out

    assert "user: a" not in quiet
    assert "user: a" in verbose


@pytest.mark.parametrize("kind", ["json", "jsonl", "html", "junit", "markdown", "github"])
def test_every_report_can_be_asked_for(letters: Any, kind: str) -> None:
    letters.seatrial("run", "--report", f"{kind}=out/report")

    assert (letters.path / "out" / "report").read_text("utf-8").strip()


def test_a_suite_asks_for_its_own_reports(letters: Any) -> None:
    letters.write("scenarios/letters.yaml", SUITE.replace("name: letters,", "name: letters, reports: [junit=j.xml],"))

    letters.seatrial("run")
    letters.seatrial("run", "--report", "junit=other.xml")

    assert letters.exists("j.xml")
    assert letters.exists("other.xml")


@pytest.mark.parametrize("elsewhere", ["inner", "/"])
def test_an_agent_that_changes_the_folder_moves_neither_store_nor_reports(folder: Any, elsewhere: str) -> None:
    (folder.path / "inner").mkdir()
    folder.write("agent.py", f"import os\n\ndef answer(input):\n    os.chdir({elsewhere!r})\n    return 'yes'\n")
    folder.write("one.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: a}]\n")

    ended = folder.process("run", "one.yaml", "--report", "junit=out/j.xml", "--store", "kept/runs.db")

    assert ended.code == 0, ended.err
    assert "wrote out/j.xml" in ended.err
    assert (folder.path / "out/j.xml").is_file()
    assert (folder.path / "kept/runs.db").is_file()
    assert not list((folder.path / "inner").iterdir())


def test_no_report_is_written_without_being_asked_since_everything_is_stored(letters: Any) -> None:
    letters.seatrial("run")

    assert not letters.exists(".seatrial/results.json")
    assert letters.results()["schema_version"] == 1


def test_runs_go_to_the_store_that_is_named(letters: Any) -> None:
    letters.seatrial("run", "--store", "kept/mine.db")

    assert letters.exists("kept/mine.db")
    assert not letters.exists(".seatrial/runs.db")
    assert len(json.loads(letters.seatrial("list", "runs", "--store", "kept/mine.db", "--json").out)) == 1


def test_settings_come_from_the_project_file_and_the_environment(letters: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    letters.write("pyproject.toml", '[tool.seatrial]\nstore = "from-project.db"\nagent = "agent:yes"\n')
    letters.write("scenarios/letters.yaml", SUITE.replace(', agent: "agent:answer"', ""))

    assert letters.seatrial("run").code == 0
    assert letters.exists("from-project.db")

    monkeypatch.setenv("SEATRIAL_STORE", "from-environment.db")
    letters.seatrial("run")
    assert letters.exists("from-environment.db")


def test_an_env_file_fills_in_what_is_not_set(letters: Any) -> None:
    letters.write(".env", "# for the agent\nexport GREETING='yes, hello'\n")

    without = letters.process("run", "--agent", "agent:variable", "--scenario", "a")
    with_it = letters.process("run", "--agent", "agent:variable", "--scenario", "a", "--env-file", ".env")

    assert (without.code, with_it.code) == (1, 0)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("yes # for the agent", "yes"),
        ("yes\t#for the agent", "yes"),
        ("yes#1", "yes#1"),
        ("#yes", "#yes"),
        (" # none", ""),
        ("'yes # really'", "yes # really"),
        ('"yes" # it\'s "quoted"', "yes"),
        ("it's 'yes'", "it's 'yes'"),
    ],
)
def test_a_comment_after_a_value_of_an_env_file_is_no_part_of_it(
    letters: Any, monkeypatch: pytest.MonkeyPatch, line: str, value: str
) -> None:
    monkeypatch.setenv("GREETING", "")
    monkeypatch.delenv("GREETING")  # so that it is taken away again afterwards
    letters.write(".env", f"GREETING={line}\n")

    assert read_environment(str(letters.path / ".env"))["GREETING"] == value


def test_retried_errors_take_the_place_of_the_errored_trials(letters: Any) -> None:
    letters.write(
        "agent.py",
        """
        from pathlib import Path
        def answer(input):
            if input == "b" and not Path("up").exists(): raise OSError("down")
            with open("called", "a") as called: called.write(input)
            return "yes"
        """,
    )
    assert letters.process("run").code == 1
    letters.write("up", "")
    letters.write("called", "")

    ended = letters.process("run", "--resume", "latest", "--retry-agent-errors")

    assert ended.code == 1, ended.out
    assert "errored before it was repeated: agent: OSError: down" in ended.out
    assert (letters.path / "called").read_text() == "b"


def test_the_schema_is_json(folder: Any) -> None:
    schema = json.loads(folder.seatrial("schema").out)

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["else"]["properties"].keys() == {"suite", "scenarios"}


def test_reading_the_output_only_in_part_is_no_crash_and_no_pass(letters: Any) -> None:
    command = f"{sys.executable} -m seatrial schema | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=letters.path, capture_output=True, text=True, check=False)

    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_to_a_full_disk_is_reported_and_does_not_pass(letters: Any) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "seatrial", "run", "--scenario", "a"]
        done = subprocess.run(command, cwd=letters.path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: cannot write all output: No space left on device"


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
@pytest.mark.parametrize(("scenario", "code"), [("a", 0), ("b", 1)])
def test_who_closes_the_output_still_gets_the_exit_code(letters: Any, closed: str, scenario: str, code: int) -> None:
    command = f"{sys.executable} -m seatrial run --scenario {scenario} {closed}"
    done = subprocess.run(["bash", "-c", command], cwd=letters.path, capture_output=True, text=True, check=False)

    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@pytest.mark.parametrize("value", ["", " ", "null"])
def test_set_without_a_value_is_refused_instead_of_changing_nothing(letters: Any, value: str) -> None:
    ended = letters.seatrial("run", "--scenario", "a", "--set", f"cases_pass_threshold={value}")

    assert ended.code == 2
    assert "the value is empty. If it comes from a variable, check that it is set" in ended.err


def test_an_annotation_names_the_failing_check_of_a_scenario_with_several_trials(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'within 40 days'")
    folder.write("s.yaml", "scenarios: [{name: a, input: x, expected_output: 30 days, trials: 4}]")

    ended = folder.seatrial("run", "s.yaml", "--agent", "agent:answer", "--report", "github")

    [line] = [line for line in ended.out.splitlines() if line.startswith("::error")]
    assert line.startswith('::error title=a,file=s.yaml,line=1::reply lacks "30 days"; 0/4 trials passed')
