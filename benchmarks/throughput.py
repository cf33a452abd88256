"""10,000 instant scenarios with two tool calls each, beside a bare loop that does the same work.

The floor: read the JSONL, call the agent, make the same four checks, write a row for the scenario, the trial and its
body into SQLite, in batches of 100, with the durability that SQLite has by default. Some scenarios are wrong on
purpose; both must find exactly those.

    python benchmarks/throughput.py [--scenarios 10000] [--trials 1] [--rounds 3]
"""

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AGENT = """
from seatrial import AgentResult, ToolCall

def answer(input):
    number = input.rsplit(" ", 1)[1]
    order = "ORD-0" if int(number) % 97 == 0 else f"ORD-{number}"
    return AgentResult(
        f"Order {order} is on its way.",
        [ToolCall("lookup_order", {"order_id": order}), ToolCall("track_parcel", {"order_id": order})],
    )

async def answer_async(input):
    return answer(input)
"""

FLOOR = """
import json, sqlite3, sys, time, uuid

def agent(text):
    number = text.rsplit(" ", 1)[1]
    order = "ORD-0" if int(number) % 97 == 0 else f"ORD-{number}"
    return f"Order {order} is on its way.", [
        {"name": "lookup_order", "arguments": {"order_id": order}},
        {"name": "track_parcel", "arguments": {"order_id": order}},
    ]

def check(scenario, output, calls):
    # The four checks of passfail, and what they found.
    if not output.strip():
        return False, "Output produced: FAIL (empty output)."
    found = ["Output produced: PASS."]
    names = {call["name"] for call in calls}
    missing = [tool for tool in scenario["expected_tools"] if tool not in names]
    if missing:
        return False, " ".join([*found, f"Expected tools called: FAIL (missing: {', '.join(missing)})."])
    found.append(f"Expected tools called: PASS ({', '.join(scenario['expected_tools'])}).")
    for tool, arguments in scenario["expected_tool_args"].items():
        first = next((call for call in calls if call["name"] == tool), None)
        if first is None:
            return False, " ".join([*found, f"Tool arguments match: FAIL ({tool}: not called)."])
        for key, value in arguments.items():
            if first["arguments"].get(key) != value:
                return False, " ".join([*found, f"Tool arguments match: FAIL ({tool}.{key})."])
    found.append("Tool arguments match: PASS.")
    text = scenario["expected_output"]
    if text.lower() not in output.lower():
        return False, " ".join([*found, f"Expected output found: FAIL ({text!r} not found in output)."])
    found.append(f"Expected output found: PASS ({text!r} found in output).")
    return True, " ".join(found)

database = sqlite3.connect(sys.argv[2])
database.execute("CREATE TABLE scenarios (name TEXT PRIMARY KEY, body BLOB)")
database.execute("CREATE TABLE trials (id TEXT PRIMARY KEY, scenario TEXT, passed INTEGER, started REAL, ms REAL)")
database.execute("CREATE TABLE bodies (id TEXT PRIMARY KEY, body BLOB)")

def save(scenarios, trials, bodies):
    with database:
        database.executemany("INSERT INTO scenarios VALUES (?, ?)", scenarios)
        database.executemany("INSERT INTO trials VALUES (?, ?, ?, ?, ?)", trials)
        database.executemany("INSERT INTO bodies VALUES (?, ?)", bodies)
    for rows in (scenarios, trials, bodies):
        rows.clear()

scenarios, trials, bodies, failed = [], [], [], 0
for line in open(sys.argv[1], encoding="utf-8"):
    scenario = json.loads(line)
    scenarios.append((scenario["name"], line.encode()))
    for _ in range(int(sys.argv[3])):
        at, started = time.time(), time.perf_counter()
        output, calls = agent(scenario["input"])
        passed, reasoning = check(scenario, output, calls)
        failed += not passed
        ms = 1000 * (time.perf_counter() - started)
        name = uuid.uuid4().hex
        result = {"evaluator": "passfail", "passed": passed, "reasoning": reasoning}
        turn = {"user": scenario["input"], "reply": output, "tool_calls": calls, "latency_ms": ms}
        trials.append((name, scenario["name"], passed, at, ms))
        bodies.append((name, json.dumps({"turns": [turn], "results": [result]}).encode()))
        if len(trials) == 100:
            save(scenarios, trials, bodies)
save(scenarios, trials, bodies)
print(failed)
"""


def write_suite(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(1, count + 1):
            order = f"ORD-{number}"
            scenario = {
                "name": f"order {number}",
                "input": f"Where is order {number}",
                "expected_tools": ["lookup_order", "track_parcel"],
                "expected_tool_args": {"lookup_order": {"order_id": order}},
                "expected_output": order,
            }
            file.write(json.dumps(scenario) + "\n")


def measure(command: list[str], folder: Path) -> tuple[float, float, float, str]:
    """(wall seconds, CPU seconds, peak MB, standard output) of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, usage.ru_maxrss / 1024, output


def compare(
    scenarios: int, *, rounds: int, trials: int = 1, agent: str = "bench_agent:answer"
) -> dict[str, list[float]]:
    """Medians of (wall seconds, CPU seconds, peak MB, MB stored) for both, taken in turns."""
    wrong = scenarios // 97 * trials
    figures: dict[str, list[tuple[float, ...]]] = {"floor": [], "seatrial": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_suite(folder / "suite.jsonl", scenarios)
            (folder / "bench_agent.py").write_text(AGENT, encoding="utf-8")
            (folder / "floor.py").write_text(FLOOR, encoding="utf-8")
            floor = measure([sys.executable, "floor.py", "suite.jsonl", "floor.db", str(trials)], folder)
            run = [sys.executable, "-m", "seatrial", "run", "suite.jsonl", "--agent", agent, "--trials", str(trials)]
            ours = measure(run, folder)
            assert int(floor[3]) == wrong, floor[3]
            database = sqlite3.connect(folder / ".seatrial" / "runs.db")
            found = dict(database.execute("SELECT status, count(*) FROM trials GROUP BY status"))
            database.close()
            assert found == {"passed": scenarios * trials - wrong, "failed": wrong}, found
            figures["floor"].append((*floor[:3], megabytes(folder / "floor.db")))
            figures["seatrial"].append((*ours[:3], megabytes(folder / ".seatrial" / "runs.db")))
    return {name: [statistics.median(values) for values in zip(*rows, strict=True)] for name, rows in figures.items()}


def megabytes(file: Path) -> float:
    return file.stat().st_size / 1e6


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # whoever uses Seatrial has it compiled
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--agent", default="bench_agent:answer")
    options = parser.parse_args()
    medians = compare(options.scenarios, rounds=options.rounds, trials=options.trials, agent=options.agent)
    for name, (wall, cpu, peak, _) in medians.items():
        print(f"{name:10} wall {wall:6.2f} s   cpu {cpu:6.2f} s   peak {peak:6.1f} MB")
    ratio = [ours / floor for ours, floor in zip(medians["seatrial"], medians["floor"], strict=True)]
    print(f"ratio      wall {ratio[0]:6.2f}     cpu {ratio[1]:6.2f}")


if __name__ == "__main__":
    main()
