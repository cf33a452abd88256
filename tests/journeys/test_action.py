"""The GitHub Action: its own steps are run as GitHub runs them."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.github_action import ACTION, ROOT, GitHub, Job

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the steps are written for bash")


@pytest.fixture
def github() -> Iterator[GitHub]:
    with GitHub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def shop(folder: Any) -> Any:
    folder.write("agent.py", "def answer(input): return 'Within 30 days, @everyone.'\n")
    folder.write(
        "scenarios/shop.yaml",
        """
        suite: {agent: 'agent:answer'}
        scenarios:
          - {name: return policy, input: x, expected_output: 30 days}
        """,
    )
    return folder


def test_a_pass_is_one_comment_and_outputs(shop: Any, github: GitHub) -> None:
    job = Job(shop.path, github)

    assert job.play() == 0, job.printed
    assert (job.outputs["verdict"], job.outputs["passed-trials"], job.outputs["trials"]) == ("passed", "1", "1")
    [_, comment] = github.comments
    assert comment["body"].startswith("<!-- seatrial: scenarios -->\n## ✅ ")
    assert "Commit 0123456" in comment["body"]
    made = {file.name for file in Path(job.outputs["reports"]).iterdir()}
    assert made == {"report.html", "junit.xml", "results.json", "comment.md"}
    assert "## ✅" in (job.temp / "summary.md").read_text("utf-8")


def test_a_failure_updates_the_same_comment_and_names_the_check(shop: Any, github: GitHub) -> None:
    Job(shop.path, github).play()
    shop.write("agent.py", "def answer(input): return 'Within 40 days, @everyone.'\n")
    job = Job(shop.path, github, args="--trials 4")

    assert job.play() == 1
    [_, comment] = github.comments
    assert "## ❌ " in comment["body"]
    assert "\ntrial-1, trial-2, trial-3, trial-4 (1 turn)\n" in comment["body"]
    assert '::error title=return policy,file=scenarios/shop.yaml,line=3::reply lacks "30 days"' in job.printed
    assert job.outputs["verdict"] == "failed"


def test_a_regression_from_the_accepted_history_fails(shop: Any, github: GitHub) -> None:
    main = Job(shop.path, github, event="push", args="--trials 30")
    assert main.play() == 0, main.printed
    shop.write("agent.py", "def answer(input): return 'I do not know.'\n")
    job = Job(shop.path, github)

    assert job.play() == 1
    body = github.comments[1]["body"]
    assert "REGRESSION" in body
    assert re.search(
        r"\| 0/3 \|.*worse than its history \(30/30\)\\?: 0/\d trials? passed when it was decided \|\n", body
    )
    assert len(github.comments) == 2, "a push writes no comment"


def test_a_run_of_a_pull_request_is_not_accepted_as_history(shop: Any, github: GitHub) -> None:
    Job(shop.path, github, args="--trials 30").play()

    assert shop.seatrial("baseline", "show").out.startswith("no baseline is set.")


@pytest.mark.parametrize("event", ["pull_request_target", "issue_comment", "workflow_run"])
def test_an_event_that_may_run_code_of_a_pull_request_is_not_accepted(shop: Any, github: GitHub, event: str) -> None:
    assert Job(shop.path, github, event=event).play() == 0

    assert shop.seatrial("baseline", "show").out.startswith("no baseline is set.")


def test_annotations_name_files_from_the_root_of_the_repository(shop: Any, github: GitHub) -> None:
    shop.write("bots/agent.py", "def answer(input): return 'Within 40 days.'\n")
    shop.write("bots/scenarios/shop.yaml", (shop.path / "scenarios/shop.yaml").read_text("utf-8"))
    job = Job(shop.path, github, working_directory="bots")

    assert job.play() == 1
    assert "::error title=return policy,file=bots/scenarios/shop.yaml,line=3::" in job.printed


def test_a_mistake_in_a_file_is_told_in_the_comment(shop: Any, github: GitHub) -> None:
    shop.write("scenarios/shop.yaml", "scenarios: [{name: a, inptu: x}]\n")
    job = Job(shop.path, github)

    assert job.play() == 2
    assert (job.outputs["verdict"], job.outputs["run"]) == ("error", "")
    assert "Did you mean 'input'?" in github.comments[1]["body"]


def test_a_fork_without_the_right_to_comment_keeps_its_verdict(shop: Any, github: GitHub) -> None:
    github.writable = False
    job = Job(shop.path, github)

    assert job.play() == 0
    assert "::warning title=seatrial::the comment could not be written: HTTP Error 403" in job.printed


def test_inputs_are_no_shell_code(shop: Any, github: GitHub) -> None:
    job = Job(shop.path, github, args="--tag '$(touch pwned)'", paths="scenarios/shop.yaml; touch pwned")

    assert job.play() == 2
    assert not shop.exists("pwned")


def test_pytest_can_run_the_scenarios(shop: Any, github: GitHub) -> None:
    (shop.path / "scenarios/shop.yaml").rename(shop.path / "scenarios/shop.trial.yaml")
    job = Job(shop.path, github, runner="pytest", args="-p no:cacheprovider")

    assert job.play() == 0, job.printed
    assert github.comments[1]["body"].startswith("<!-- seatrial: scenarios -->\n## ✅ ")


def installed(folder: Any, *, builds: bool = True, requirements: str = "auto", runner: str = "seatrial") -> list[str]:
    """The calls of the installer that the first step makes. Its uv notes its arguments, and may fail to build."""
    folder.write("bin/uv", f'#!/bin/sh\necho "$*" >> uv.log\ncase "$*" in *\' .\') exit {0 if builds else 1};; esac\n')
    (folder.path / "bin/uv").chmod(0o755)
    path = os.pathsep.join([str(folder.path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    inputs = {"SEATRIAL_REQUIREMENT": "seatrial", "REQUIREMENTS": requirements, "RUNNER_OF_TESTS": runner}
    command = ["bash", str(ROOT / "action/install.sh")]
    subprocess.run(command, cwd=folder.path, env={"PATH": path, **inputs}, check=True, capture_output=True)
    return [line.partition("/python ")[2] for line in (folder.path / "uv.log").read_text("utf-8").splitlines()]


def test_the_requirements_of_the_project_are_installed_with_seatrial(folder: Any) -> None:
    assert installed(folder)[-1] == "seatrial"
    folder.write("requirements.txt", "humanize")
    assert installed(folder, runner="pytest")[-1] == "seatrial pytest -r requirements.txt"
    folder.write("pyproject.toml", "[project]\nname = 'shop'\n")
    assert installed(folder)[-1] == "seatrial -r requirements.txt ."
    assert installed(folder, requirements="-e '.[dev]'")[-1] == "seatrial -e .[dev]"


def test_a_project_that_is_no_package_gets_its_dependencies(folder: Any) -> None:
    folder.write("pyproject.toml", "[project]\nname = 'shop'\ndependencies = ['humanize>=4', 'rich']\n")

    assert installed(folder, builds=False) == ["seatrial .", "seatrial humanize>=4 rich"]


def test_every_input_is_used_and_every_step_has_a_script() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")

    assert [name for name in ACTION["inputs"] if f"inputs.{name}" not in text] == []
    # A use named `a` must not restore the history of `a-b`: caches are found by the start of their key.
    assert "restore-keys: seatrial/${{ inputs.name }}/\n" in text
    for script in re.findall(r"\$GITHUB_ACTION_PATH/(\S+?)\"", text):
        assert (ROOT / script).is_file()
