"""How long a cold process takes to list, show and compare runs of 10,000 trials.

python benchmarks/listing.py [--rounds 5]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import throughput

SEATRIAL = [sys.executable, "-m", "seatrial"]
COMMANDS = (["list", "runs"], ["show", "latest"], ["compare", "first", "second"])
TRIALS = 10_000


def measure(*, rounds: int) -> dict[str, float]:
    """The median seconds of each command, taken in turns."""
    taken: dict[str, list[float]] = {" ".join(command): [] for command in COMMANDS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        throughput.write_suite(folder / "suite.jsonl", TRIALS)
        (folder / "bench_agent.py").write_text(throughput.AGENT, encoding="utf-8")
        for each in ("first", "second"):
            run = [*SEATRIAL, "run", "suite.jsonl", "--agent", "bench_agent:answer", "--name", each]
            subprocess.run(run, cwd=folder, capture_output=True, check=False)
        for _ in range(rounds):
            for command in COMMANDS:
                started = time.perf_counter()
                done = subprocess.run([*SEATRIAL, *command], cwd=folder, capture_output=True, text=True, check=False)
                taken[" ".join(command)].append(time.perf_counter() - started)
                # Between two runs of an instant agent the latency may differ, which `compare` rightly reports.
                assert done.returncode == 0 or (command[0] == "compare" and done.returncode == 1), done.stderr
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # whoever uses Seatrial has it compiled
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    for name, seconds in measure(rounds=parser.parse_args().rounds).items():
        print(f"{name:22} {seconds:5.2f} s")


if __name__ == "__main__":
    main()
