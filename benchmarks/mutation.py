"""How long 10,000 mutants of long conversations take, and how much memory: `python benchmarks/mutation.py`.

Transcripts have 6 turns and 10 calls; no world, no judge, one core. The target is 30 seconds with flat memory.
"""

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import seatrial
from seatrial import AgentResult, Expect, Invariant, Scenario, Suite, ToolCall, Turn

USERS = ("Hello.", "It is order W1.", "My name is Ann.", "Yes, exchange it.", "The blue one.", "Thank you.")
CALLS = (0, 2, 2, 3, 2, 1)
"""Calls of each turn: ten."""
NAMES = ("get_user", "get_order", "get_product", "exchange_items", "send_mail")


def agent(messages: list[dict[str, Any]]) -> AgentResult:
    turn = sum(message["role"] == "user" for message in messages) - 1
    first = sum(CALLS[:turn])
    calls = [
        ToolCall(
            NAMES[number % len(NAMES)], {"order_id": "W1", "step": number}, {"ok": True, "email": f"a{number}@b.c"}
        )
        for number in range(first, first + CALLS[turn])
    ]
    return AgentResult(f"This is reply {turn + 1}: your order W1 is on its way.", tool_calls=calls)


def suite(scenarios: int) -> Suite:
    made = [
        Scenario(
            name=f"scenario {number}",
            turns=[Turn(user=user) for user in USERS],
            expect=Expect(reply_contains_all=["W1"], tool_calls_include=["exchange_items"]),
        )
        for number in range(scenarios)
    ]
    rules = [Invariant(never="exchange_items", before="get_order"), Invariant(at_most=1, of="send_mail", per=["step"])]
    return Suite(name="long", scenarios=made, invariants=rules)


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=10_000)
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        store = str(Path(folder) / "runs.db")
        long = suite(max(asked.mutants // 70, 1))
        report = seatrial.run(long, agent=agent, store=store)
        assert report.passed, report.failure_reasons
        before = peak_megabytes()
        started = time.perf_counter()
        result = seatrial.mutate(report, long, store=store, limit=asked.mutants)
        took = time.perf_counter() - started
    total = result.total
    print(f"{total.counted + total.not_judged:,} mutants in {took:.1f} s, {total.caught:,} caught")
    print(f"memory: {before:.0f} MB before, {peak_megabytes():.0f} MB at most")
    print(f"suggestions: {len(result.suggestions)}")


if __name__ == "__main__":
    main()
