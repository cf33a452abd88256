"""How long `seatrial run` of one scenario takes from a cold process, beside `agenticassure run` of the same scenario.

Both are run in turn, and medians are compared. AgenticAssure is installed into a throwaway environment.

    python benchmarks/cold_start.py [--rounds 9]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

PEER = "agenticassure==0.4.0"

SUITE = """
suite: {name: support-agent}
scenarios:
  - name: order_lookup
    input: "What is the status of order #ORD-789?"
    expected_tools: [lookup_order]
    expected_tool_args: {lookup_order: {order_id: "ORD-789"}}
    expected_output: "ORD-789"
"""

OUR_AGENT = """
from seatrial import AgentResult, ToolCall

def answer(input):
    return AgentResult("Order ORD-789 is on its way.", [ToolCall("lookup_order", {"order_id": "ORD-789"})])
"""

THEIR_AGENT = """
from agenticassure.results import AgentResult, ToolCall

class Adapter:
    def run(self, input, context=None):
        calls = [ToolCall(name="lookup_order", arguments={"order_id": "ORD-789"})]
        return AgentResult(output="Order ORD-789 is on its way.", tool_calls=calls)
"""


def measure(command: list[str], folder: Path) -> tuple[float, float]:
    """(wall, CPU) seconds of a command that must pass."""
    before = os.times()
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": "."}, capture_output=True, check=False)
    wall = time.perf_counter() - started
    after = os.times()
    assert done.returncode == 0, done.stderr.decode()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # whoever uses Seatrial has it compiled
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "peer", with_pip=True)
        subprocess.run([folder / "peer/bin/pip", "install", "--quiet", PEER], check=True)
        (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
        (folder / "ours.py").write_text(OUR_AGENT, encoding="utf-8")
        (folder / "theirs.py").write_text(THEIR_AGENT, encoding="utf-8")
        commands = {
            PEER: [str(folder / "peer/bin/agenticassure"), "run", "suite.yaml", "-a", "theirs.Adapter"],
            "seatrial": [str(Path(sys.executable).parent / "seatrial"), "run", "suite.yaml", "--agent", "ours:answer"],
        }
        figures: dict[str, list[tuple[float, float]]] = {label: [] for label in commands}
        for turn in range(rounds + 1):
            for label, command in commands.items():
                taken = measure(command, folder)
                if turn:  # the first of each only warms the disk
                    figures[label].append(taken)
    medians = {
        label: [statistics.median(column) for column in zip(*rows, strict=True)] for label, rows in figures.items()
    }
    for label, (wall, cpu) in medians.items():
        print(f"{label:22} wall {wall:6.3f} s   cpu {cpu:6.3f} s")
    ratio = [ours / theirs for ours, theirs in zip(medians["seatrial"], medians[PEER], strict=True)]
    print(f"{'ratio':22} wall {ratio[0]:6.2f}     cpu {ratio[1]:6.2f}     (at most 0.85)")


if __name__ == "__main__":
    main()
