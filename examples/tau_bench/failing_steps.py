"""Compare the step that `seatrial explain` names with the step that people marked as the cause of the failure.

    python failing_steps.py CHECKOUT_OF_TAU_BENCH CHECKOUT_OF_AGENTRX

AgentRx (https://github.com/microsoft/AgentRx, MIT) has failed conversations of τ-bench's retail domain with labels.
A step is a message of the conversation, from 1. No trial of these tasks passed, so the gold calls show what differs.
Nothing is downloaded, and no model is called.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from agree import HERE, conversation

from seatrial.comparison.causes import find_cause
from seatrial.model.run import Status
from seatrial.runs.report import StoredRecord
from seatrial.store.store import open_store


def failed_trials(tau_bench, recordings, folder):
    """The judged conversations by task."""
    lines = [json.dumps(conversation(each)) for each in json.loads(recordings.read_text("utf-8"))]
    (folder / "recordings.jsonl").write_text("\n".join(lines), "utf-8")
    environ = {**os.environ, "TAU_BENCH": str(tau_bench), "TAU_DOMAIN": "retail", "TAU_RECORDINGS": str(recordings)}
    command = ["import-trace", "recordings.jsonl", "--suite", str(HERE / "tau_bench_trials.py"), "--store", "runs.db"]
    subprocess.run(
        [sys.executable, "-m", "seatrial", *command], cwd=folder, env=environ, stdout=subprocess.DEVNULL, check=False
    )
    with open_store(str(folder / "runs.db")) as store:
        record = StoredRecord(store, store.run("latest"))
        trials = [trial for one in record.outcome.scenarios for trial in record.trials(one.entry.key)]
    return {trial.key.name: trial for trial in trials if trial.status is not Status.PASSED}


def label_of(task):
    """The step that people marked as the root cause."""
    cause = task["root_cause"]["failure_id"]
    return next(each for each in task["failures"] if each["failure_id"] == cause)


def messages_with_calls(messages):
    """The numbers of the messages with a tool call, in order."""
    return [number for number, message in enumerate(messages, 1) if message.get("tool_calls")]


def reply_of(messages, turn):
    """The number of the last message of the assistant in a turn."""
    starts = [number for number, message in enumerate(messages, 1) if message["role"] == "user"]
    end = starts[turn + 1] if turn + 1 < len(starts) else len(messages) + 1
    said = [number for number in range(1, end) if messages[number - 1]["role"] == "assistant"]
    return said[-1]


def named_step(trial, messages):
    """The message of the first divergence."""
    found = find_cause(trial, ()).divergence
    calls = messages_with_calls(messages)
    if found.step is not None and found.step < len(calls):
        return calls[found.step], found
    return reply_of(messages, found.turn or 0), found


def first_error(messages):
    """The first call that was answered with an error; else the first call."""
    failed = [
        number - 1
        for number, message in enumerate(messages, 1)
        if message["role"] == "tool" and str(message["content"]).startswith("Error")
    ]
    return (failed or messages_with_calls(messages) or [len(messages)])[0]


def last_call(messages):
    return (messages_with_calls(messages) or [len(messages)])[-1]


def main():
    tau_bench, agentrx = (Path(path).resolve() for path in sys.argv[1:3])
    recordings = agentrx / "data/tau_retail/tau_dataset_failed.json"
    labels = json.loads((agentrx / "data/ground_truth/tau_ground_truth.json").read_text("utf-8"))
    messages = {each["task_id"]: each["traj"] for each in json.loads(recordings.read_text("utf-8"))}
    with tempfile.TemporaryDirectory() as folder:
        trials = failed_trials(tau_bench, recordings, Path(folder))
    rows = []
    for task in labels:
        said, label = messages[task["trajectory_id"]], label_of(task)
        trial = trials.get(f"task-{task['trajectory_id']}")
        if trial is None:
            print(f"task {task['trajectory_id']}: passes")
            continue
        step, found = named_step(trial, said)
        role = said[label["step_number"] - 1]["role"]
        print(f"task {task['trajectory_id']}: labelled {label['step_number']} ({role}), named {step}: {found.text}")
        rows.append((role, label["step_number"], step, first_error(said), last_call(said)))
    for title, chosen in (("all", rows), ("labelled at the agent", [row for row in rows if row[0] == "assistant"])):
        print(f"{title}: {len(chosen)} conversations")
        for name, column in (("explain", 2), ("first error", 3), ("last call", 4)):
            exact, near = (sum(abs(row[column] - row[1]) <= far for row in chosen) for far in (0, 1))
            print(f"  {name}: {exact} exactly, {near} within one step")


if __name__ == "__main__":
    main()
