"""Judge recorded conversations of τ-bench by their end states, and compare the verdicts with the recorded rewards.

    python agree.py PATH_OF_A_CHECKOUT [airline|retail] [RECORDINGS.json]

The recordings are those of the checkout (historical_trajectories). Nothing is downloaded, and no model is called.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from math import comb
from pathlib import Path

HERE = Path(__file__).parent
STOP = "###STOP###"


def conversation(recorded):
    """A recorded conversation as chat messages. The user's last message only says that it ends."""
    messages, stopped = recorded["traj"], {}
    if messages and messages[-1]["role"] == "user":
        stopped = {"stop_reason": "user_stopped" if STOP in messages[-1]["content"] else "max_turns"}
        messages = messages[:-1]
    # The tools run only the first call of a message.
    first = [{**each, "tool_calls": each["tool_calls"][:1]} if each.get("tool_calls") else each for each in messages]
    return {"id": f"task-{recorded['task_id']}", "messages": first, **(stopped or {"stop_reason": "max_turns"})}


def judge(checkout, domain, file, folder):
    """The verdicts by task, in the order of the recordings."""
    recordings = json.loads(file.read_text("utf-8"))
    lines = [json.dumps(conversation(each)) for each in recordings]
    (folder / "recordings.jsonl").write_text("\n".join(lines), "utf-8")
    environ = {**os.environ, "TAU_BENCH": str(checkout), "TAU_DOMAIN": domain, "TAU_RECORDINGS": str(file)}
    command = ["import-trace", "recordings.jsonl", "--suite", str(HERE / "tau_bench_trials.py"), "--store", "runs.db"]
    subprocess.run(
        [sys.executable, "-m", "seatrial", *command, "--report", "json=results.json"],
        cwd=folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    results = json.loads((folder / "results.json").read_text("utf-8"))
    return recordings, {each["name"]: each["trials"] for each in results["scenarios"]}


def pass_hat(tasks, k):
    """The mean chance that k trials of a task all pass."""
    return sum(comb(sum(passed), k) / comb(len(passed), k) for passed in tasks) / len(tasks)


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python agree.py PATH_OF_A_CHECKOUT [airline|retail] [RECORDINGS.json]")
    checkout = Path(sys.argv[1]).resolve()
    domain = sys.argv[2] if len(sys.argv) > 2 else "airline"
    default = checkout / "historical_trajectories" / f"gpt-4o-{domain}.json"
    file = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else default
    if not file.is_file():
        sys.exit(f"{file}: not found. Give the path of a checkout of tau-bench.")
    with tempfile.TemporaryDirectory() as folder:
        recordings, judged = judge(checkout, domain, file, Path(folder))
    tasks, rewards = defaultdict(list), defaultdict(list)
    agreed = drifted = 0
    for recorded in recordings:
        name = f"task-{recorded['task_id']}"
        trial = judged[name][len(tasks[name])]
        tasks[name].append(trial["passed"])
        rewards[name].append(recorded["reward"] == 1.0)
        same = trial["passed"] == (recorded["reward"] == 1.0)
        agreed += same
        drifted += bool(trial["world"] and trial["world"]["drift"])
        if not same:
            print(f"{name}, trial {len(tasks[name])}: reward {recorded['reward']:g}, {trial['status']}")
            print(f"    {'; '.join(trial['failure_reasons'])[:300]}")
    print(f"{domain}: {agreed} of {len(recordings)} verdicts agree with the recorded rewards")
    print(f"{drifted} conversations drift: the tools answer differently than when they were recorded")
    for name, found in (("verdicts", tasks), ("rewards", rewards)):
        curve = ", ".join(f"pass^{k} {pass_hat(found.values(), k):.3f}" for k in range(1, 5))
        print(f"{name}: {curve}")
    return 0 if agreed == len(recordings) else 1


if __name__ == "__main__":
    sys.exit(main())
