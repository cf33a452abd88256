"""What `trials: auto` decides at known pass rates, beside the exact table.

Every scenario is one experiment: an agent that passes with a known chance, run by the real runner and store, twenty
trials at a time, failures taking longer than passes. Were trials counted as they finish, quick passes would come first
and the verdicts would be too kind.

    python benchmarks/sequential.py [--scenarios 300] [--seed 1]
"""

import argparse
import asyncio
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import seatrial
from seatrial import Scenario, Suite, SuiteConfig
from seatrial.model.run import Status
from seatrial.statistics.power import fixed_design
from seatrial.statistics.sequential import SequentialTest, decide_sequentially, operating_point
from seatrial.store.store import open_store
from seatrial.verdicts.rates import answer_of

RATES = (1.0, 0.9, 0.8, 0.7, 0.5)
SLOW_FAILURE = 0.02


async def agent(input: str, ctx: Any) -> str:
    """Passes with the chance that it is told."""
    if random.Random(ctx.seed).random() < float(input):
        return "yes"
    await asyncio.sleep(SLOW_FAILURE)
    return "no"


def measure(rate: float, count: int, seed: int, store: Path) -> dict[str, float]:
    """Shares of verdicts, and mean numbers of trials: counted by the test, and played."""
    scenarios = [Scenario(name=f"s{n}", input=str(rate), expected_output="yes", trials="auto") for n in range(count)]
    suite = Suite(name=f"rate {rate}", scenarios=scenarios, config=SuiteConfig(concurrency=20, seed=seed))
    report = seatrial.run(suite, agent=agent, store=str(store))
    outcomes = report.outcome.scenarios
    shares = {
        status.value: sum(one.verdict.status is status for one in outcomes) / count
        for status in (Status.PASSED, Status.FAILED, Status.INCONCLUSIVE)
    }
    assert abs(sum(shares.values()) - 1.0) < 1e-9, "every scenario was decided"
    answers: dict[str, list[bool | None]] = {}
    with open_store(store) as opened:
        for summary in opened.summaries(report.run.id):
            answers.setdefault(summary.key.name, []).append(answer_of(summary))
    used = sum(decide_sequentially(one, SequentialTest()).trials_used for one in answers.values())
    return {**shares, "used": used / count, "played": sum(map(len, answers.values())) / count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=300, help="experiments at each rate")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fixed = fixed_design(0.9, 0.7, alpha=0.05, power=0.95)
    assert fixed is not None
    started = time.perf_counter()
    print(f"{options.scenarios} scenarios at each rate, concurrency 20, failures {1000 * SLOW_FAILURE:.0f} ms slower")
    print("true rate   passes (exact)    fails (exact)     inconcl. (exact)   trials (exact)  played  fixed n")
    with TemporaryDirectory() as folder:
        for rate in RATES:
            seen = measure(rate, options.scenarios, options.seed, Path(folder) / "runs.db")
            exact = operating_point(SequentialTest(), rate)
            pairs = (
                (seen["passed"], exact.passes),
                (seen["failed"], exact.fails),
                (seen["inconclusive"], exact.inconclusive),
            )
            shares = "   ".join(f"{100 * got:5.1f} % ({100 * want:5.1f} %)" for got, want in pairs)
            counts = f"{seen['used']:5.1f} ({exact.expected_trials:4.1f})   {seen['played']:5.1f}   {fixed.trials:5d}"
            print(f"{rate:9.2f}   {shares}   {counts}")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
