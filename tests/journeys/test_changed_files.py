"""Large files of scenarios that somebody writes to while they are played."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = """
from pathlib import Path

def answer(input):
    if input == "1":
        file = Path("large.jsonl")
        lines = file.read_text().splitlines()
        file.write_text("\\n".join(CHANGE(lines)) + "\\n")
    return "ok"
"""
COUNT = 12_000
SHORTER = "lambda lines: lines[:6_000]"
EDITED = "lambda lines: [*lines[:-1], lines[-1].replace('not this', 'ok')]"


@pytest.mark.parametrize("change", [SHORTER, EDITED])
def test_a_large_file_that_is_changed_while_it_is_played_does_not_pass(tmp_path: Path, change: str) -> None:
    (tmp_path / "editing.py").write_text(AGENT.replace("CHANGE", f"({change})"))
    scenarios = [{"name": f"s{n}", "input": str(n), "expected_output": "ok"} for n in range(COUNT)]
    scenarios[-1]["expected_output"] = "not this"
    lines = [{"suite": {"name": "large", "agent": "editing:answer"}}, *scenarios]
    (tmp_path / "large.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = subprocess.run(
        [sys.executable, "-m", "seatrial", "run", "large.jsonl"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "large.jsonl: the file was changed after it was checked" in ran.stderr
    assert ran.returncode == 2
