"""What `seatrial init` writes for the framework whose environment this is passes at once, without any key."""

import subprocess
import sys
from pathlib import Path

FRAMEWORK = Path(sys.prefix).name


def seatrial(folder: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", *args], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_init_writes_passes_at_once(tmp_path: Path) -> None:
    begun = seatrial(tmp_path, "init", "--agent", FRAMEWORK)
    ended = seatrial(tmp_path, "run")

    assert "pip install" not in begun, "everything it needs is installed here"
    assert "3/3 scenarios passed\nPASS\n" in ended
