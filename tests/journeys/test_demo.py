"""`make demo`, from a copy of the examples."""

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def test_the_demo_shows_a_run_that_passes_and_one_that_fails(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".seatrial"))

    done = subprocess.run(
        [sys.executable, "examples/demo.py"], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "4/4 scenarios passed\nPASS\n" in done.stdout
    assert "3/4 scenarios passed\nFAIL: 1 scenario failed\n" in done.stdout
    assert "Missing tool calls: change_booking" in done.stdout
    assert "Where to look next:" in done.stdout


def test_the_demo_fails_where_the_defect_goes_unnoticed(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", ".seatrial"))
    booking = tmp_path / "examples" / "booking"
    shutil.copy(booking / "agent_v1.py", booking / "agent_v2.py")

    done = subprocess.run(
        [sys.executable, "examples/demo.py"], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )

    assert done.returncode == 1
    assert "The demo did not go as meant: exit codes 0, 0 and 0 instead of 0, 1 and 0." in done.stdout
