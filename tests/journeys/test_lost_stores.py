"""A store that is lost while a run is played: nothing is reported that is not kept, and the run ends with an error."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seatrial.clock import now
from seatrial.errors import StoreError
from seatrial.model.run import Run
from seatrial.store.store import open_store

SCENARIOS = [{"name": f"s{number}", "input": f"s{number}", "expected_output": "ok"} for number in range(20)]
LOSSES = {
    "folder": "shutil.rmtree('.seatrial')",
    "file": "os.remove('.seatrial/runs.db')",
    "replaced": "os.remove('.seatrial/runs.db'); open('.seatrial/runs.db', 'w').close()",
}
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps files that are open")


def write(folder: Any, at_s5: str) -> None:
    folder.write(
        "agent.py", f"import os, shutil\n\ndef answer(input):\n    if input == 's5': {at_s5}\n    return 'ok'\n"
    )
    suite = {"name": "lost", "agent": "agent:answer", "config": {"concurrency": 1}}
    folder.write("scenarios/suite.yaml", json.dumps({"suite": suite, "scenarios": SCENARIOS}))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_run_whose_store_is_deleted_ends_with_an_error_that_names_it(folder: Any, loss: str) -> None:
    write(folder, loss)

    ended = folder.seatrial("run")

    assert ended.code not in (0, 130)
    assert "error: .seatrial/runs.db: " in ended.err
    assert "PASS" not in ended.out
    assert "[20/20]" not in ended.err


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_pytest_does_not_pass_on_a_store_that_is_deleted(folder: Any, loss: str) -> None:
    write(folder, loss)
    folder.write("pyproject.toml", '[tool.seatrial]\ntestpaths = ["scenarios"]\n')

    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-s", "scenarios"]
    ended = subprocess.run(command, cwd=folder.path, capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 1, ended.stdout
    assert ".seatrial/runs.db: was deleted or replaced while it was in use" in ended.stdout
    assert "the run could not be ended" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_a_full_disk_ends_the_run_with_an_error_that_names_the_store(folder: Any) -> None:
    folder.write(
        "agent.py",
        """
        import resource, signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

        def answer(input):
            return "ok" + input * 20_000
        """,
    )
    suite = {"name": "full", "agent": "agent:answer"}
    folder.write("scenarios/suite.yaml", json.dumps({"suite": suite, "scenarios": SCENARIOS}))

    ended = folder.process("run")

    assert ended.code == 1
    assert "error: .seatrial/runs.db: " in ended.err
    assert "Traceback" not in ended.err
    assert "PASS" not in ended.out


def test_nothing_is_written_to_a_store_that_is_no_longer_there(tmp_path: Path) -> None:
    with open_store(tmp_path / "runs.db") as store:
        (tmp_path / "runs.db").unlink()
        with pytest.raises(StoreError, match=r"runs\.db: "):
            store.start_run(Run(id="r1", name="n", started_at=now()))
