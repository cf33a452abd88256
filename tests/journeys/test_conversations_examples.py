"""The booking agent in three forms, held to one suite file: a Python function, an HTTP endpoint, a Node program."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = "examples/booking/scenarios.yaml"


def run(tmp_path: Path, *flags: str) -> tuple[int, Any, str]:
    """The exit code, what each trial called and replied, and the console."""
    results = tmp_path / "results.json"
    kept = ["--store", str(tmp_path / "runs.db"), "--report", f"json={results}"]
    ended = subprocess.run(
        [sys.executable, "-m", "seatrial", "run", SUITE, *kept, *flags],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert results.exists(), ended.stderr
    said = {
        (scenario["name"], trial["index"]): [
            (turn["reply"], [(call["name"], call["arguments"]) for call in turn["tool_calls"]])
            for turn in trial["turns"]
        ]
        for scenario in json.loads(results.read_text("utf-8"))["scenarios"]
        for trial in scenario["trials"]
    }
    return ended.returncode, said, ended.stdout + ended.stderr


@contextmanager
def endpoint() -> Iterator[str]:
    """The example's server, as a process of its own."""
    with subprocess.Popen(
        [sys.executable, "examples/booking/server.py", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        if os.environ.get("SEATRIAL_TEST_SKIP_NODE") == "1":
            pytest.skip("node is not installed, and SEATRIAL_TEST_SKIP_NODE=1 says that this is known")
        pytest.fail("node is not installed; install it, or set SEATRIAL_TEST_SKIP_NODE=1 to go without these tests")
    return found


def test_an_endpoint_does_what_the_function_does(tmp_path: Path) -> None:
    expected = run(tmp_path)
    assert expected[0] == 0, expected[2]

    with endpoint() as base_url:
        code, said, out = run(tmp_path, "--agent", json.dumps({"type": "openai", "base_url": base_url}))

    assert code == 0, out
    assert said == expected[1]


def test_a_node_program_does_what_the_function_does(tmp_path: Path, node: str) -> None:
    expected = run(tmp_path)

    code, said, out = run(tmp_path, "--agent", f"{{type: command, argv: [{node}, examples/booking/agent.mjs]}}")

    assert code == 0, out
    assert said == expected[1]


def test_the_function_can_run_in_a_process_of_its_own(tmp_path: Path) -> None:
    expected = run(tmp_path)

    code, said, out = run(tmp_path, "--set", "isolation=process")

    assert code == 0, out
    assert said == expected[1]


def test_agent_settings_on_the_command_line_must_be_settings(folder: Any) -> None:
    folder.write("suite.yaml", '{"scenarios": [{"name": "a", "input": "b"}]}')

    ended = folder.seatrial("run", "suite.yaml", "--agent", "{type: openai, base_ulr: x}")

    assert ended.code == 2
    assert "unknown key 'base_ulr'. Did you mean 'base_url'?" in ended.err
