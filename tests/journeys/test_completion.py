"""What a shell completes, asked for as a shell does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = str(Path(sys.executable).with_name("seatrial"))


def offered(folder: Any, line: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    environ = {
        **os.environ,
        "_SEATRIAL_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    done = subprocess.run([COMMAND], cwd=folder.path, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.fixture
def project(folder: Any) -> Any:
    folder.seatrial("init")
    return folder


def test_commands_are_completed(folder: Any) -> None:
    assert offered(folder, "seatrial re") == ["regrade"]


def test_flags_are_completed(folder: Any) -> None:
    assert offered(folder, "seatrial run --fail") == ["--failed", "--fail-fast"]


def test_tags_of_the_suite_are_completed(project: Any) -> None:
    assert offered(project, "seatrial run --tag ") == ["policy", "tools"]


def test_names_of_scenarios_are_completed_as_one_word(project: Any) -> None:
    assert offered(project, "seatrial run --scenario ORDER") == ["'looks up the order'"]


def test_runs_are_completed(project: Any) -> None:
    project.seatrial("run", "--id", "job-1", "--name", "nightly")

    assert offered(project, "seatrial show ") == ["latest", "baseline", "job-1", "nightly"]
    assert offered(project, "seatrial compare job") == ["job-1"]
    assert offered(project, "seatrial run --resume ni") == ["nightly"]


@pytest.mark.parametrize("line", ["seatrial show ", "seatrial run --tag ", "seatrial run --scenario x"])
def test_where_there_is_nothing_to_read_nothing_is_offered(folder: Any, line: str) -> None:
    assert offered(folder, line) == []
    assert not folder.exists(".seatrial")


def test_a_broken_suite_writes_nothing_into_the_line(folder: Any) -> None:
    folder.write("scenarios/broken.yaml", "scenarios: [")

    assert offered(folder, "seatrial run --tag ") == []


@pytest.mark.parametrize("line", ["seatrial run --tag ", "seatrial run --scenario ", "seatrial run pack.suite --tag "])
def test_completing_runs_no_code_of_the_folder(folder: Any, line: str) -> None:
    code = "import pathlib; pathlib.Path(__file__).with_suffix('.executed').touch()\n"
    for name in ("scenarios/more_trials.py", "checks.py", "pack/__init__.py", "pack/suite.py"):
        folder.write(name, code)
    suite = "suite: {agent: 'agent:answer', evaluators: [checks], tags: [all]}\nscenarios: [{name: hello, input: hi}]\n"
    folder.write("scenarios/one.yaml", suite)

    words = offered(folder, line)

    assert list(folder.path.rglob("*.executed")) == []
    if "pack" not in line:
        assert words == (["all"] if "--tag" in line else ["hello"])


def test_scenarios_of_every_data_format_are_completed(folder: Any) -> None:
    folder.write(
        "scenarios/a.jsonl", '{"suite": {"tags": ["lines"]}}\n{"name": "line", "input": "x", "tags": ["one"]}\n'
    )
    folder.write("scenarios/b.json", '{"scenarios": [{"name": "object", "input": "x", "tags": ["two"]}]}')
    folder.write("scenarios/c.yaml", "id: transcript\ntags: [three]\nturns: [{user: hi}]\n")

    assert offered(folder, "seatrial run --scenario ") == ["line", "object", "transcript"]
    assert offered(folder, "seatrial run --tag ") == ["lines", "one", "three", "two"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_says_where_it_belongs(folder: Any, shell: str) -> None:
    ended = folder.seatrial("completion", shell)

    assert ended.code == 0
    assert ended.out.startswith("# Completion for seatrial.")
    assert f"_SEATRIAL_COMPLETE={shell}_complete" in ended.out


def test_another_shell_is_refused_with_those_there_are(folder: Any) -> None:
    ended = folder.seatrial("completion", "tcsh")

    assert ended.code == 2
    assert "'bash', 'zsh', 'fish'" in ended.err


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_itself_completes_with_the_script(project: Any) -> None:
    ask = """
        eval "$(seatrial completion bash)"
        COMP_WORDS=(seatrial run --tag po); COMP_CWORD=3
        _seatrial_completion seatrial
        echo "${COMPREPLY[@]}"
    """
    environ = {**os.environ, "PATH": f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"}

    done = subprocess.run(["bash", "-c", ask], env=environ, capture_output=True, text=True, check=False)

    assert done.stdout == "policy\n", done.stderr
