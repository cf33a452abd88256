"""1,000 trials of an agent that sleeps 0.1 s, sync and async, at concurrency 100: from first trial to last result.

Nothing could be quicker than one second.

    python benchmarks/sleeping.py [--rounds 3]
"""

import argparse
import asyncio
import os
import statistics
import time
from typing import Any

from seatrial import AgentResult, Scenario
from seatrial.runner import RunOptions, TrialSettings, run_trials
from seatrial.session import RunPlan, RunRequest
from seatrial.vocabulary.run import Status

TRIALS = 1_000


def answer(input: str) -> AgentResult:
    time.sleep(0.1)
    return AgentResult("ok", [])


async def answer_async(input: str) -> AgentResult:
    await asyncio.sleep(0.1)
    return AgentResult("ok", [])


async def play(plan: RunPlan) -> int:
    passed = 0
    async for trial in run_trials(
        plan.scenarios(), RunOptions(concurrency=100, settings=TrialSettings(run_id="bench"))
    ):
        passed += trial.status is Status.PASSED
    await plan.agents.close()
    return passed


def measure(agent: Any, *, rounds: int) -> float:
    """The median seconds that all trials take."""
    scenarios = tuple(Scenario(name=f"s{n}", input="x", expected_output="ok") for n in range(TRIALS))
    taken = []
    for _ in range(rounds):
        plan = RunPlan(RunRequest(sources=scenarios, agent=agent, environ=dict(os.environ)))
        started = time.perf_counter()
        assert asyncio.run(play(plan)) == TRIALS
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for agent in (answer, answer_async):
        print(f"{agent.__name__:14} {measure(agent, rounds=rounds):5.2f} s     (at most 1.2)")


if __name__ == "__main__":
    main()
