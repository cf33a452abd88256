"""`seatrial doctor`: what is found here, each with a remedy, and an exit code."""

import socket
import sys
from typing import Any

import pytest

from seatrial.version import __version__

SUITE = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios: [{name: returns, input: How long can I take to return something?, expected_output: 30 days}]
"""
AGENT = """
    def answer(input):
        with open("called", "a") as file:
            file.write("x")
        return "Within 30 days."
"""


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(folder: Any) -> Any:
    folder.write("agent.py", AGENT)
    folder.write("scenarios/shop.yaml", SUITE)
    return folder


def test_an_empty_folder_has_no_problem_and_stays_empty(folder: Any) -> None:
    ended = folder.seatrial("doctor")

    assert ended.code == 0, ended.out
    assert f"ok       seatrial {__version__}, Python {sys.version.split()[0]} at " in ended.out
    assert "ok       store .seatrial/runs.db: does not exist yet; the first run creates it\n" in ended.out
    assert "no problem found" in ended.out
    assert list(folder.path.iterdir()) == []


def test_extras_are_listed_with_the_versions_that_are_installed(folder: Any) -> None:
    from importlib.metadata import version

    ended = folder.seatrial("doctor")

    assert f"ok       extra schema: jsonschema {version('jsonschema')}\n" in ended.out
    assert "(pip install 'seatrial[NAME]')" in ended.out


def test_an_extra_that_is_too_old_is_a_warning(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from seatrial.cli import doctor as doctor_checks

    monkeypatch.setattr(doctor_checks, "_version", lambda name: "0.9")

    ended = folder.seatrial("doctor")

    assert ended.code == 0
    assert "warning  extra schema: jsonschema 0.9; it needs jsonschema>=4.23\n" in ended.out
    assert "         -> pip install --upgrade 'seatrial[schema]'\n" in ended.out


def test_keys_are_named_and_never_shown(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "")

    ended = folder.seatrial("doctor")

    assert "ok       model keys: ANTHROPIC_API_KEY\n" in ended.out
    assert "warning  OPENAI_API_KEY is set, but empty\n" in ended.out
    assert "sk-very-secret" not in ended.out + ended.err


def test_keys_of_an_env_file_count(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Put back by monkeypatch: a file's variables are set for the whole process.
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    monkeypatch.delenv("GEMINI_API_KEY")
    folder.write(".env", "GEMINI_API_KEY=abcdefgh\n")

    assert "ok       model keys: GEMINI_API_KEY\n" in folder.seatrial("doctor", "--env-file", ".env").out


def test_a_wrong_setting_is_a_problem(folder: Any) -> None:
    folder.write("pyproject.toml", '[tool.seatrial]\nstroe = "runs.db"\n')

    ended = folder.seatrial("doctor")

    assert ended.code == 2
    assert "pyproject.toml: [tool.seatrial] unknown key 'stroe'. Did you mean 'store'?" in ended.out
    assert ended.out.endswith("\n1 problem found\n")


def test_a_variable_that_nothing_reads_is_a_warning(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_STROE", "x")

    ended = folder.seatrial("doctor")

    assert "warning  nothing reads the variable SEATRIAL_STROE\n         -> did you mean SEATRIAL_STORE?\n" in ended.out


def test_the_store_is_opened_and_its_last_run_named(project: Any) -> None:
    project.seatrial("run", "--id", "job-7")

    said = project.seatrial("doctor").out

    assert "ok       store .seatrial/runs.db: schema " in said
    assert ", last run job-7\n" in said


def test_a_store_that_is_none_is_a_problem(folder: Any) -> None:
    folder.write("notes.txt", "these are my notes, and certainly no database " * 50)

    ended = folder.seatrial("doctor", "--store", "notes.txt")

    assert ended.code == 2
    told = "problem  notes.txt: is not a SQLite database. Name another place: --store, or SEATRIAL_STORE.\n"
    assert told in ended.out


def test_a_store_that_cannot_be_made_is_a_problem(folder: Any) -> None:
    folder.write("file", "")

    ended = folder.seatrial("doctor", "--store", "file/runs.db")

    assert ended.code == 2
    assert "problem  store file/runs.db: cannot be created" in ended.out


def test_without_paths_the_suite_is_loaded_and_no_agent_asked(project: Any) -> None:
    ended = project.seatrial("doctor")

    assert ended.code == 0
    assert "ok       suite scenarios/shop.yaml: 1 scenario\n" in ended.out
    assert "To call each agent once: seatrial doctor scenarios\n" in ended.out
    assert not project.exists("called")


def test_with_a_path_the_agent_is_asked_once_and_nothing_is_stored(project: Any) -> None:
    ended = project.seatrial("doctor", "scenarios")

    assert ended.code == 0
    asked = "ok       agent: sent 'How long can I take to return something?'; got 'Within 30 days.' in "
    assert asked in ended.out
    assert "its tool calls are not recorded" in ended.out
    assert (project.path / "called").read_text() == "x"
    assert not project.exists(".seatrial")


def test_each_of_several_agents_is_asked(project: Any) -> None:
    project.write(
        "scenarios/shop.yaml", SUITE.replace('agent: "agent:answer"', "agents: {a: agent:answer, b: agent:no}")
    )
    project.write("agent.py", "def answer(input): return 'yes'\ndef no(input): raise ValueError('down')\n")

    ended = project.seatrial("doctor", "scenarios")

    assert ended.code == 2
    assert "ok       agent a: sent " in ended.out
    assert "problem  agent b: sent 'How long can I take to return something?'; ValueError: down\n" in ended.out


def test_an_agent_that_says_nothing_is_a_problem(project: Any) -> None:
    project.write("agent.py", "def answer(input): return ''")

    ended = project.seatrial("doctor", "scenarios")

    assert ended.code == 2
    assert "the reply is empty" in ended.out


def test_an_endpoint_that_is_not_there_is_a_problem_with_its_address(project: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        ended = project.seatrial("doctor", "scenarios", "--agent", f"{{type: openai, base_url: '{address}'}}")

    assert ended.code == 2
    assert f"cannot connect to {address}" in ended.out
    assert "-> is the agent running at this address?" in ended.out


def test_every_mistake_of_a_suite_is_a_line(project: Any) -> None:
    project.write("scenarios/shop.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, inptu: x}, {name: a}]")

    ended = project.seatrial("doctor")

    assert ended.code == 2
    assert "problem  scenarios/shop.yaml:2:" in ended.out
    assert "Did you mean 'input'?" in ended.out


def test_a_judge_without_a_key_is_found_before_anything_is_asked(project: Any) -> None:
    project.write("scenarios/shop.yaml", SUITE.replace("expected_output: 30 days", "expected_outcomes: [It is true.]"))

    ended = project.seatrial("doctor", "scenarios")

    assert ended.code == 2
    assert not project.exists("called")


def test_an_agent_without_a_suite_is_a_mistake(folder: Any) -> None:
    ended = folder.seatrial("doctor", "--agent", "agent:answer")

    assert ended.code == 2
    assert "--agent: needs a suite" in ended.err


def test_no_judge_is_called_for_the_asking(project: Any) -> None:
    model = "openai:nobody@http://127.0.0.1:9/v1"
    project.write(
        "scenarios/shop.yaml",
        f"suite: {{agent: 'agent:answer', config: {{metrics: [helpfulness], models: {{judge: '{model}'}}}}}}\n"
        "scenarios: [{name: a, turns: [{user: hi}]}]\n",
    )

    ended = project.seatrial("doctor", "scenarios")

    assert ended.code == 0, ended.out
    assert (project.path / "called").read_text() == "x"
