"""examples/langgraph passes, and the trial says so for the right reasons."""

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "langgraph"


def run(folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "run", "scenarios.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_example_passes(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "langgraph")

    code, said = run(tmp_path / "langgraph")

    assert code == 0, said
    assert "2/2 scenarios passed\nPASS\n" in said


def test_without_one_of_its_mocks_it_does_not(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "langgraph")
    file = tmp_path / "langgraph" / "scenarios.yaml"
    written = file.read_text("utf-8")
    file.write_text(written.replace("      get_weather: {returns: storm}\n", ""), "utf-8")

    code, said = run(tmp_path / "langgraph")

    assert code == 1
    assert "1/2 scenarios passed" in said
    assert "Tool 'get_weather' was called but no mock is defined" in said
