"""A project whose agent misbehaves in every known way, and what each way of running it must come to."""

import json
from pathlib import Path
from typing import Any

from seatrial.runs.report import StoredRecord
from seatrial.store.store import open_store

SECRET = "tok-5f2e9c71d3"
AGENT = f"""
import os, sys, threading

def answer(input):
    if input == "never": threading.Event().wait()
    if input == "exit": sys.exit(0)
    if input == "raise": raise ValueError("the database is down")
    if input == "secret": return "the token is {SECRET}"
    if input == "fork" and os.fork() == 0: sys.exit(0)
    return "hello"

class Unclosable:
    def run(self, input): return "hello"
    def close(self): raise RuntimeError("cannot close")
"""
EVALUATORS = """
import sys
from seatrial import evaluator

@evaluator
def leaves(ctx): sys.exit(0)

@evaluator
def breaks(ctx): raise RuntimeError("no ruler")

def hook(ctx): sys.exit(0)
"""
SCENARIOS: list[dict[str, Any]] = [
    {"name": "passes", "input": "hello", "expected_output": "hello", "trials": 2},
    {"name": "fails", "input": "hello", "expected_output": "goodbye"},
    {"name": "never returns", "input": "never", "timeout_seconds": 0.2},
    {"name": "exits", "input": "exit"},
    {"name": "raises", "input": "raise"},
    {"name": "forks", "input": "fork", "expected_output": "hello"},
    {"name": "tells a secret", "input": "secret", "expect": {"reply_contains_all": ["the token is"]}},
    {"name": "evaluator exits", "input": "hello", "scorers": ["leaves"]},
    {"name": "evaluator breaks", "input": "hello", "scorers": ["breaks"]},
    {"name": "hook exits", "input": "hello", "setup": "mine:hook"},
]
EXPECTED = {
    "passes": ["passed", "passed"],
    "fails": ["failed"],
    "never returns": ["errored limit"],
    "exits": ["errored agent"],
    "raises": ["errored agent"],
    "forks": ["passed"],
    "tells a secret": ["passed"],
    "evaluator exits": ["errored evaluator"],
    "evaluator breaks": ["errored evaluator"],
    "hook exits": ["errored config"],
}


def write_project(folder: Path, *, agent: str = "agent:answer", scenarios: Any = None, **config: Any) -> None:
    (folder / "agent.py").write_text(AGENT)
    (folder / "mine.py").write_text(EVALUATORS)
    suite = {"name": "hostile", "agent": agent, "evaluators": ["mine"], "config": config}
    content = {"suite": suite, "scenarios": SCENARIOS if scenarios is None else scenarios}
    (folder / "hostile.trial.yaml").write_text(json.dumps(content))


def newest_outcome(folder: Path) -> dict[str, list[str]]:
    """By scenario, how each trial of the newest run ended."""
    with open_store(folder / ".seatrial" / "runs.db") as store:
        run = store.runs()[0]
        found: dict[str, list[str]] = {}
        for summary in store.summaries(run.id):
            kind = f" {summary.error_kind}" if summary.error_kind is not None else ""
            found.setdefault(summary.key.name, []).append(f"{summary.status}{kind}")
        return found


def unique_errors(folder: Path) -> dict[str, int]:
    """By scenario of the newest run, how many unique behaviour failures there are."""
    with open_store(folder / ".seatrial" / "runs.db") as store:
        outcome = StoredRecord(store, store.runs()[0]).outcome
        return {each.entry.key.name: len(each.unique_errors) for each in outcome.scenarios}


def stored_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in (folder / ".seatrial").rglob("*") if file.is_file())
