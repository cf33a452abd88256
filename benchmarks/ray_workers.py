"""Agents that compute instead of waiting: a Ray cluster with four workers beside one process.

The agent burns 50 ms of CPU. Both play the same trials, in turns, four at a time; their rate is taken from the first
trial's start to the last one's end, since Ray takes seconds to start its workers. The machine may have other work: what
four bare processes gain over one, in the same minutes, is shown beside it.

    .venvs/ray/bin/python benchmarks/ray_workers.py [--trials 400] [--rounds 3]
"""

import argparse
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seatrial.store.store import open_store

AGENT = """
import time

def answer(input):
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    return "done"

if __name__ == "__main__":
    import sys
    for _ in range(int(sys.argv[1])):
        answer("x")
"""
WORKERS = 4
LEAST = 1.6


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a cluster on this machine, with a token of its own."""
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token), RAY_USAGE_STATS_ENABLED="0")
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": WORKERS, "include_dashboard": False})
    try:
        yield started.address
    finally:
        started.shutdown()


def play(folder: Path, *flags: str) -> tuple[float, float]:
    """(trials a second while they were played, seconds of the whole command)."""
    (folder / "runs.db").unlink(missing_ok=True)
    command = [sys.executable, "-m", "seatrial", "run", "suite.yaml", "--store", "runs.db"]
    started = time.perf_counter()
    done = subprocess.run([*command, *flags], cwd=folder, capture_output=True, text=True, check=False)
    whole = time.perf_counter() - started
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]
    with open_store(str(folder / "runs.db")) as store:
        trials = list(store.summaries(store.run("latest").id))
    first = min(trial.started_at.timestamp() for trial in trials)
    last = max(trial.started_at.timestamp() + trial.duration_ms / 1000 for trial in trials)
    return len(trials) / (last - first), whole


def bare(folder: Path, trials: int, processes: int) -> float:
    """Trials a second of so many plain processes."""
    started = time.perf_counter()
    command = [sys.executable, "agent.py", str(trials // processes)]
    for process in [subprocess.Popen(command, cwd=folder) for _ in range(processes)]:
        assert process.wait() == 0
    return trials / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "agent.py").write_text(AGENT, encoding="utf-8")
        suite = f"suite: {{agent: agent:answer}}\nscenarios:\n  - {{name: burns, input: x, trials: {options.trials}}}\n"
        (folder / "suite.yaml").write_text(suite, encoding="utf-8")
        with cluster(folder) as address:
            for _ in range(options.rounds):
                alone, alone_s = play(folder, "--concurrency", str(WORKERS))
                ray = ("--executor", "ray", "--ray-address", address)
                many, many_s = play(folder, "--concurrency", str(WORKERS), *ray)
                gain = bare(folder, options.trials, WORKERS) / bare(folder, options.trials, 1)
                rows.append((alone, many, many / alone, gain, alone_s, many_s))
                print(
                    f"one process {alone:5.1f} trials/s ({alone_s:.1f} s in all), ray {many:5.1f} ({many_s:.1f} s), "
                    f"{many / alone:.2f}x; bare processes {gain:.2f}x; load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
    ratio = statistics.median(row[2] for row in rows)
    share = statistics.median(row[2] / row[3] for row in rows)
    print(f"{ratio:.2f}x of one process at the median (at least {LEAST} on two free cores)")
    print(f"{share:.0%} of what bare processes gained at the same time")


if __name__ == "__main__":
    main()
