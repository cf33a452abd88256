"""`seatrial run --watch`: what is affected by an edit is played, with what the edit says."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SUITE = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios:
      - {name: greets, input: hello, expected_output: Hello}
      - {name: thanks, input: thanks, expected_output: welcome}
"""
AGENT = """
    from words import GREETING

    def answer(input):
        return GREETING if input == "hello" else "You are welcome."
"""


class Watched:
    """The command, and what it says round by round."""

    def __init__(self, folder: Any, *args: str) -> None:
        self._folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "seatrial", "run", "--watch", *args],
            cwd=folder.path,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        # A round that never comes must not hold up the session.
        self._patience = threading.Timer(60, self._kill)
        self._patience.start()

    def round(self) -> str:
        """Everything that is said until files are watched again."""
        said: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said.append(line)
            if line.startswith("watching "):
                return "".join(said)
        raise AssertionError(f"it ended: {''.join(said)}")

    def after(self, file: str, old: str, new: str) -> str:
        """The round that follows an edit."""
        path = self._folder.path / file
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")
        return self.round()

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C, as a terminal sends it: to everything that runs."""
        os.killpg(self.process.pid, signal.SIGINT)
        out, _ = self.process.communicate(timeout=30)
        return self.process.returncode, out

    def _kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        self._patience.cancel()
        self._kill()
        self.process.communicate()


@pytest.fixture
def watched(folder: Any) -> Iterator[Any]:
    started: list[Watched] = []

    def start(*args: str) -> Watched:
        started.append(Watched(folder, *args))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def project(folder: Any) -> Any:
    folder.write("agent.py", AGENT)
    folder.write("words.py", "GREETING = 'Hello!'\n")
    folder.write("scenarios/shop.yaml", SUITE)
    return folder


def verdicts(said: str) -> list[str]:
    return [line.split("  (")[0] for line in said.splitlines() if line[:2] in ("✓ ", "✗ ")]


def test_an_edited_scenario_is_played_alone(project: Any, watched: Any) -> None:
    watch = watched()
    first = watch.round()

    second = watch.after("scenarios/shop.yaml", "expected_output: Hello", "expected_output: Moin")

    assert verdicts(first) == ["✓ greets", "✓ thanks"]
    assert verdicts(second) == ["✗ greets"]
    assert "  scenarios/shop.yaml changed: 1 of 2 scenarios ──" in second


def test_an_edited_module_is_loaded_anew_also_where_the_agent_only_imports_it(project: Any, watched: Any) -> None:
    watch = watched()
    watch.round()

    said = watch.after("words.py", "Hello!", "Moin!")

    assert verdicts(said) == ["✗ greets", "✓ thanks"]
    assert "  words.py changed: 2 of 2 scenarios ──" in said


def test_what_did_not_pass_is_played_first_and_not_forgotten(project: Any, watched: Any) -> None:
    watch = watched("--concurrency", "1")
    watch.round()
    watch.after("scenarios/shop.yaml", "expected_output: welcome", "expected_output: nowhere")

    partial = watch.after("scenarios/shop.yaml", "input: hello,", "input: hello, timeout_seconds: 20,")
    whole = watch.after("agent.py", "def answer", "# a remark\ndef answer")

    assert verdicts(partial) == ["✓ greets"]
    assert "not passed in earlier rounds: thanks\n" in partial, "a green part is no green whole"
    played = [line.partition(":")[0] for line in whole.splitlines() if "trials passed  [" in line]
    assert played == ["thanks", "greets"]


def test_only_the_suites_that_use_a_module_are_played(project: Any, watched: Any) -> None:
    project.write("other.py", "def answer(input): return 'Other.'\n")
    project.write("scenarios/two.yaml", "suite: {name: two, agent: 'other:answer'}\nscenarios: [{name: o, input: x}]\n")
    watch = watched()
    watch.round()

    assert verdicts(watch.after("other.py", "Other.", "Another.")) == ["✓ o"]
    assert verdicts(watch.after("words.py", "Hello!", "Hello.")) == ["✓ greets", "✓ thanks"]


def test_a_prompt_that_the_agent_reads_is_watched_like_code(project: Any, watched: Any) -> None:
    project.write("agent.py", "def answer(input):\n    with open('prompt.txt') as file:\n        return file.read()\n")
    project.write("prompt.txt", "Hello, you are welcome")
    watch = watched()
    watch.round()

    assert verdicts(watch.after("prompt.txt", "welcome", "here")) == ["✓ greets", "✗ thanks"]


def test_a_program_in_another_language_is_watched(project: Any, watched: Any) -> None:
    program = "import json\ninput()\nprint(json.dumps({'type': 'reply', 'content': 'Hello, welcome'}))\n"
    project.write("program", program)
    project.write("scenarios/shop.yaml", SUITE.replace('"agent:answer"', "{type: command, argv: [python3, program]}"))
    watch = watched()
    watch.round()

    assert verdicts(watch.after("program", "Hello, welcome", "Hello")) == ["✓ greets", "✗ thanks"]


def test_a_new_file_of_scenarios_is_noticed(project: Any, watched: Any) -> None:
    watch = watched()
    watch.round()

    project.write("scenarios/new.yaml", "suite: {name: new, agent: 'agent:answer'}\nscenarios: [{name: n, input: x}]\n")

    assert verdicts(watch.round()) == ["✓ n"]


def test_a_mistake_is_shown_and_its_correction_plays_what_had_changed(project: Any, watched: Any) -> None:
    watch = watched()
    watch.round()

    broken = watch.after("words.py", "GREETING = 'Hello!'", "GREETING = 'Moin!")
    mended = watch.after("words.py", "'Moin!", "'Moin!'")

    assert "error: scenarios/shop.yaml: agent 'agent:answer': importing 'agent' failed at " in broken
    assert "Traceback" not in broken
    assert verdicts(mended) == ["✗ greets", "✓ thanks"]


def test_a_module_that_was_missing_at_first_is_found_when_it_comes(project: Any, watched: Any) -> None:
    (project.path / "words.py").unlink()
    watch = watched()
    first = watch.round()

    project.write("words.py", "GREETING = 'Hello!'\n")

    assert "because it needs the module 'words'" in first
    assert verdicts(watch.round()) == ["✓ greets", "✓ thanks"]


def test_an_edit_that_decides_nothing_plays_nothing(project: Any, watched: Any) -> None:
    watch = watched()
    watch.round()

    said = watch.after("scenarios/shop.yaml", "{name: greets,", "{name: greets, tags: [polite],")

    assert verdicts(said) == []
    assert "changed: no scenario is affected ──" in said


def test_scenarios_in_python_are_played_when_their_file_changes(project: Any, watched: Any) -> None:
    project.write(
        "scenarios/more_trials.py",
        """
        from seatrial import Scenario, Suite

        def answer(input):
            return "Hello!"

        SUITE = Suite(name="more", agent=answer, scenarios=[Scenario(name="p", input="x", expected_output="Hello")])
        """,
    )
    watch = watched()
    watch.round()

    assert verdicts(watch.after("scenarios/more_trials.py", '"Hello!"', '"Moin!"')) == ["✗ p"]


def test_a_file_that_the_agent_writes_starts_no_round(project: Any, watched: Any) -> None:
    project.write(
        "agent.py",
        """
        from pathlib import Path

        def answer(input):
            log = Path("log.txt")
            log.write_text((log.read_text() if log.exists() else "") + input)
            return "Hello, you are welcome"
        """,
    )
    watch = watched()
    first = watch.round()

    code, rest = watch.interrupt()

    assert first.endswith("watching 2 files; Ctrl-C to stop\n"), first
    assert (code, rest) == (130, "\ninterrupted\n")


def test_ctrl_c_ends_it_and_every_round_is_kept(project: Any, watched: Any) -> None:
    watch = watched()
    watch.round()
    watch.after("words.py", "Hello!", "Moin!")

    code, said = watch.interrupt()

    assert code == 130, "a watch that ends is no pass"
    assert "Traceback" not in said
    kept = json.loads(project.seatrial("list", "runs", "--json").out)
    assert [run["verdict"] for run in kept] == ["failed", "passed"]


def test_ctrl_c_during_a_round_ends_it_too(project: Any, watched: Any) -> None:
    started = project.path / "started"
    project.write("agent.py", "import time\ndef answer(input):\n    open('started', 'w').close()\n    time.sleep(60)\n")
    watch = watched()
    wait_for(started, watch.process)

    code, said = watch.interrupt()

    assert code == 130
    assert "Traceback" not in said


def wait_for(file: Path, process: "subprocess.Popen[str]") -> None:
    while not file.exists():
        assert process.poll() is None
        threading.Event().wait(0.02)


@pytest.mark.parametrize(
    "flags",
    [["--failed"], ["--resume", "latest"], ["--id", "x"], ["--dry-run"], ["--retry-errors"], ["--retry-agent-errors"]],
)
def test_flags_that_make_no_sense_in_round_after_round_are_refused(project: Any, flags: list[str]) -> None:
    ended = project.seatrial("run", "--watch", *flags)

    assert ended.code == 2
    assert f"cannot be combined with {flags[0]}" in ended.err
