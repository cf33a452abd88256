"""Forty comparisons of an agent that answers at random, through `seatrial run` and `seatrial compare`.

    python benchmarks/comparisons.py [--times 40] [--seed 1]

Each line: how often `compare` ended with the exit codes 0, 1 and 3, the target, and how often the rule gives exit
code 1 in 20,000 simulated tables of counts. The last lines say how many of the changed agents any test can find.

Forty comparisons are few: a rule with 5.5 % false alarms stays at 2 of 40 or below in 62 of 100 such series.
"""

import argparse
import contextlib
import io
import itertools
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import seatrial
from seatrial import Scenario, Suite, SuiteConfig
from seatrial.cli import main as seatrial_command
from seatrial.comparison.planning import ALPHA
from seatrial.comparison.significance import find_words
from seatrial.statistics.significance import ScenarioCounts, stratified_test

SCENARIOS = 4
TABLES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Two versions of an agent, by the share of trials that they pass, and what `compare` should say."""

    name: str
    before: float
    now: float
    trials: int
    target: str
    is_met: Callable[[Counter[int], int], bool]


def at_most(share: float) -> Callable[[Counter[int], int], bool]:
    return lambda codes, times: codes[1] <= share * times


CASES = (
    Case(name="unchanged", before=0.8, now=0.8, trials=10, target="exit 1 in at most 2", is_met=at_most(0.05)),
    Case(
        name="80 % to 50 %",
        before=0.8,
        now=0.5,
        trials=10,
        target="exit 1 in at least 36",
        is_met=lambda codes, times: codes[1] >= 0.9 * times,
    ),
    Case(name="unchanged", before=0.8, now=0.8, trials=1, target="exit 1 in at most 2", is_met=at_most(0.05)),
    Case(name="unchanged", before=0.8, now=0.8, trials=3, target="exit 1 in at most 2", is_met=at_most(0.05)),
    *(
        Case(
            name="all broken",
            before=1.0,
            now=0.0,
            trials=trials,
            target="exit 0 never",
            is_met=lambda codes, _: not codes[0],
        )
        for trials in (1, 3, 10)
    ),
)


def make_agent(rate: float) -> Any:
    def agent(input: str, ctx: Any) -> str:
        return "yes" if random.Random(f"{ctx.seed} {input}").random() < rate else "no"

    return agent


def play(store: Path, rate: float, trials: int, seed: int) -> str:
    scenarios = [Scenario(name=f"s{n}", input=f"s{n}", expected_output="yes") for n in range(SCENARIOS)]
    suite = Suite(name="suite", scenarios=scenarios, config=SuiteConfig(trials=trials, seed=seed))
    return seatrial.run(suite, agent=make_agent(rate), store=str(store)).run.id


def compare(store: Path, base: str, candidate: str) -> int:
    """The exit code of the command. The agent answers at once, so its latency is the machine's: it has no limit."""
    flags = ("--no-pool", "--max-latency-increase-pct", "1e9", "--store", str(store))
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            seatrial_command(["compare", base, candidate, *flags])
        except SystemExit as ended:
            return int(ended.code or 0)
    raise AssertionError("the command did not end")


def run_case(case: Case, times: int, seed: int) -> Counter[int]:
    draw = random.Random(f"{seed} {case.name} {case.trials}")
    codes: Counter[int] = Counter()
    with TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"
        for _ in range(times):
            base = play(store, case.before, case.trials, draw.randrange(2**31))
            candidate = play(store, case.now, case.trials, draw.randrange(2**31))
            codes[compare(store, base, candidate)] += 1
    return codes


def simulate_rule(case: Case, seed: int) -> float:
    """How often the rule says REGRESSION, from counts alone."""
    rng = random.Random(f"{seed} tables {case.name} {case.trials}")

    def draw(rate: float) -> int:
        return sum(rng.random() < rate for _ in range(case.trials))

    tables = Counter(
        tuple(sorted((draw(case.before), draw(case.now)) for _ in range(SCENARIOS))) for _ in range(TABLES)
    )
    return sum(times for table, times in tables.items() if is_regression(table, case.trials)) / TABLES


def is_regression(table: Sequence[tuple[int, int]], trials: int) -> bool:
    counts = [
        ScenarioCounts(base_passed=base, base_total=trials, candidate_passed=now, candidate_total=trials)
        for base, now in table
    ]
    return stratified_test(counts).mid_p_regression <= ALPHA or "worse" in find_words(counts)


def best_power(size: float, before: float, now: float, trials: int) -> float:
    """The power of the best unbiased test of the suite with exactly this share of false alarms at every pass rate.

    Given the passes of each scenario in both runs together, it rejects the lowest sums of the candidate's passes, and
    draws lots at the limit (uniformly most powerful unbiased, as the odds fall by the same factor in every scenario).
    """
    share = [[math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)] for p in (before, now)]
    unchanged, changed = {}, {}
    for total in range(2 * trials + 1):
        kept = [k if 0 <= total - k <= trials else None for k in range(trials + 1)]
        ways = math.comb(2 * trials, total)
        unchanged[total] = [
            0.0 if k is None else math.comb(trials, k) * math.comb(trials, total - k) / ways for k in kept
        ]
        changed[total] = [0.0 if k is None else share[0][total - k] * share[1][k] for k in kept]
    return sum(times * _rejected(totals, unchanged, changed, size) for totals, times in _margins(trials))


def _margins(trials: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """The passes of each scenario in both runs together, with the number of orders."""
    for totals in itertools.combinations_with_replacement(range(2 * trials + 1), SCENARIOS):
        repeats = math.prod(math.factorial(totals.count(total)) for total in set(totals))
        yield totals, math.factorial(SCENARIOS) // repeats


def _rejected(
    totals: Sequence[int], unchanged: dict[int, list[float]], changed: dict[int, list[float]], size: float
) -> float:
    expected, actual = [1.0], [1.0]
    for total in totals:
        expected, actual = _add(expected, unchanged[total]), _add(actual, changed[total])
    left, found = size, 0.0
    for chance, share in zip(expected, actual, strict=True):
        if chance > left:
            return found + share * left / chance
        left, found = left - chance, found + share
    return found


def _add(sums: list[float], more: list[float]) -> list[float]:
    """The distribution of the sum of two independent counts."""
    made = [0.0] * (len(sums) + len(more) - 1)
    for i, left in enumerate(sums):
        if left:
            for j, right in enumerate(more):
                made[i + j] += left * right
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=40, help="comparisons of each case")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started = time.perf_counter()
    missed = 0
    print(f"{SCENARIOS} scenarios      trials  exit 0  exit 1  exit 3   target                   exit 1 by the rule")
    for case in CASES:
        codes = run_case(case, options.times, options.seed)
        met = case.is_met(codes, options.times)
        missed += not met
        shown = "  ".join(f"{codes[code]:6}" for code in (0, 1, 3))
        rate = f"{100 * simulate_rule(case, options.seed):.1f} %"
        said = f"{case.target} {'met' if met else 'MISSED'}"
        print(f"{case.name:15} {case.trials:7}  {shown}   {said:32} {rate:>8}", flush=True)
    for size in (0.05, 0.056):
        power = best_power(size, 0.8, 0.5, 10)
        print(f"the best unbiased test with {100 * size:g} % false alarms finds 80 % to 50 % in {100 * power:.1f} %")
    print(f"{time.perf_counter() - started:.0f} s; {missed} targets missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
