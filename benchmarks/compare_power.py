"""How often `compare --confirm` cries wolf, and how often it sees a wolf.

Every experiment runs a baseline and a candidate of twenty scenarios with the real runner and store, twenty trials at a
time, failures taking longer than passes; then the comparison, and fresh trials of its suspects. Pass rates are drawn
for each experiment (mean 0.8, as suites have hard and easy scenarios) or the same for all.

    python benchmarks/compare_power.py [--null 200] [--power 60] [--seed 1]
"""

import argparse
import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import seatrial
from seatrial import Scenario, Suite, SuiteConfig
from seatrial.comparison.rerun_suspects import confirm
from seatrial.model.comparison import RegressionLimits
from seatrial.model.run import ScenarioKey, TrialSummary
from seatrial.runs.compare_runs import StoredRuns
from seatrial.statistics.power import fisher_power
from seatrial.store.store import Store, open_store

SCENARIOS = 20
SLOW_FAILURE = 0.004
LIMITS = RegressionLimits()
Rates = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one experiment came to."""

    by_limits: bool
    first_look: bool
    confirmed: bool
    culprit: bool
    trials: int
    """Of the candidate, fresh ones included."""


def make_agent(rates: Rates) -> Any:
    async def agent(input: str, ctx: Any) -> str:
        if random.Random(ctx.seed).random() < rates[input]:
            return "yes"
        await asyncio.sleep(SLOW_FAILURE)
        return "no"

    return agent


def play(store: Path, rates: Rates, names: Sequence[str], trials: int, seed: int) -> str:
    scenarios = [Scenario(name=name, input=name, expected_output="yes") for name in names]
    suite = Suite(name="suite", scenarios=scenarios, config=SuiteConfig(trials=trials, concurrency=20, seed=seed))
    return seatrial.run(suite, agent=make_agent(rates), store=str(store)).run.id


def experiment(
    store: Path, opened: Store, draw: random.Random, base: Rates, now: Rates, sizes: tuple[int, int]
) -> Found:
    names = list(base)
    seeds = [draw.randrange(2**31) for _ in range(3)]
    first = play(store, base, names, sizes[0], seeds[0])
    second = play(store, now, names, sizes[1], seeds[1])
    comparison = StoredRuns(opened, first, second).compare(limits=LIMITS, pool=False)
    fresh = 0

    def rerun(keys: Sequence[ScenarioKey], trials: int) -> tuple[str, list[TrialSummary]]:
        nonlocal fresh
        run_id = play(store, now, [key.name for key in keys], trials, seeds[2])
        summaries = list(opened.summaries(run_id))
        fresh = len(summaries)
        return run_id, summaries

    decided = confirm(comparison, rerun)
    return Found(
        by_limits=any(one.reason.value == "pass_rate" for one in comparison.regressions),
        first_look=comparison.evidence.regression,
        confirmed=decided.evidence.regression,
        culprit=any(key.name == "s0" for key in decided.evidence.worse),
        trials=SCENARIOS * sizes[1] + fresh,
    )


def draw_rates(draw: random.Random, rate: float | None) -> dict[str, float]:
    return {f"s{n}": draw.betavariate(4, 1) if rate is None else rate for n in range(SCENARIOS)}


def change(rates: dict[str, float], what: str) -> tuple[Rates, Rates]:
    """The rates of the baseline and of the candidate."""
    if what == "no change":
        return rates, rates
    if what == "one of 20 broken":
        return {**rates, "s0": 0.95}, {**rates, "s0": 0.1}
    return rates, {name: max(0.0, rate - 0.1) for name, rate in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--null", type=int, default=200, help="experiments without a change")
    parser.add_argument("--power", type=int, default=60, help="experiments with each change")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.perf_counter()
    print("rates  base+cand  change              any drop   first look   confirmed   culprit   trials")
    for rate in (None, 0.9):
        for sizes in ((5, 5), (20, 3)):
            for what in ("no change", "one of 20 broken", "10 points everywhere"):
                rounds = options.null if what == "no change" else options.power
                found = repeat(rounds, options.seed, rate, sizes, what)
                shares = [sum(getattr(one, name) for one in found) / rounds for name in _COLUMNS]
                trials = sum(one.trials for one in found) / rounds
                label = "drawn" if rate is None else f"{rate:5.2f}"
                shown = "   ".join(f"{100 * share:7.1f} %" for share in shares)
                print(f"{label}  {sizes[0]:4d}+{sizes[1]:<4d}  {what:20} {shown}   {trials:6.0f}", flush=True)
    each = next(n for n in range(2, 100) if fisher_power(0.95, 0.1, trials=n, alpha=0.05 / SCENARIOS) >= 0.95)
    print(
        f"one look at a fixed number sees one broken scenario of {SCENARIOS} in 95 % with {each} trials of each on both"
    )
    print(f"sides: {SCENARIOS * each} of the candidate (corrected for {SCENARIOS} scenarios)")
    print(f"{time.perf_counter() - started:.0f} s")


_COLUMNS = ("by_limits", "first_look", "confirmed", "culprit")


def repeat(rounds: int, seed: int, rate: float | None, sizes: tuple[int, int], what: str) -> list[Found]:
    draw = random.Random(f"{seed} {rate} {sizes} {what}")
    found = []
    with TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"
        with open_store(store) as opened:
            for _ in range(rounds):
                base, now = change(draw_rates(draw, rate), what)
                found.append(experiment(store, opened, draw, base, now, sizes))
    return found


if __name__ == "__main__":
    main()
