"""User code that waits: agents of 0.1 s, and evaluators and hooks of 0.3 s.

1,000 trials of an agent that sleeps 0.1 s, sync and async, at concurrency 100: nothing could be quicker than 1 s.
Ten trials with a sync evaluator, and with a sync hook, that take 0.3 s, at concurrency 10: from the call of
`seatrial.run` to its report. Nothing could be quicker than 0.3 s.

    python benchmarks/sleeping.py [--rounds 3]
"""

import argparse
import asyncio
import os
import statistics
import time
from typing import Any

import seatrial
from seatrial import AgentResult, Scenario, evaluator
from seatrial.engine.executors import LocalExecutor
from seatrial.engine.schedule import TrialSchedule
from seatrial.engine.trial import TrialSettings
from seatrial.model.run import Status
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan

TRIALS = 1_000


def answer(input: str) -> AgentResult:
    time.sleep(0.1)
    return AgentResult("ok", [])


async def answer_async(input: str) -> AgentResult:
    await asyncio.sleep(0.1)
    return AgentResult("ok", [])


async def play(plan: RunPlan) -> int:
    passed = 0
    executor = LocalExecutor(TrialSettings(run_id="bench"))
    async for _, trial in executor.run(TrialSchedule(plan.scenarios()), concurrency=100):
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


@evaluator
def slow_check(ctx: Any) -> bool:
    time.sleep(0.3)
    return True


def slow_hook(ctx: Any) -> None:
    time.sleep(0.3)


def measure_beside(*, rounds: int, **keys: Any) -> float:
    """The median seconds of a run of ten trials at concurrency 10."""
    scenario = Scenario(name="s", input="x", trials=10, **keys)
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        assert seatrial.run(scenario, agent=lambda input: "ok", store=None, concurrency=10).passed
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for agent in (answer, answer_async):
        print(f"{agent.__name__:14} {measure(agent, rounds=rounds):5.2f} s     (at most 1.2)")
    print(f"{'evaluator':14} {measure_beside(rounds=rounds, scorers=[slow_check]):5.2f} s     (at most 0.6)")
    print(f"{'hook':14} {measure_beside(rounds=rounds, setup=slow_hook):5.2f} s     (at most 0.6)")


if __name__ == "__main__":
    main()
