"""How long a cold process takes to list and to show a run of 10,000 trials.

python benchmarks/listing.py [--rounds 5]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import throughput

SEATRIAL = [sys.executable, "-m", "seatrial"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        throughput.write_suite(folder / "suite.jsonl", 10_000)
        (folder / "bench_agent.py").write_text(throughput.AGENT, encoding="utf-8")
        run = [*SEATRIAL, "run", "suite.jsonl", "--agent", "bench_agent:answer"]
        subprocess.run(run, cwd=folder, capture_output=True, check=False)
        for command in (["list", "runs"], ["show", "latest"]):
            taken = []
            for _ in range(rounds):
                started = time.perf_counter()
                subprocess.run([*SEATRIAL, *command], cwd=folder, capture_output=True, check=True)
                taken.append(time.perf_counter() - started)
            print(f"{' '.join(command):12} {statistics.median(taken):5.2f} s")


if __name__ == "__main__":
    main()
