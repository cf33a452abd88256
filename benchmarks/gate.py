"""The gates of a comparison, simulated through the product's functions: false alarms, power and calls.

    python benchmarks/gate.py

Seeded; takes a few minutes. Every line with a target says whether it is met; the exit code is 1 if one is not.
"""

import math
import random
import sys
import time
from collections.abc import Callable, Sequence

from seatrial.comparison.planning import ALPHA
from seatrial.comparison.significance import find_words
from seatrial.statistics.agreement import CalibratedRate, ConfusionTable, JudgedTrials, calibrate_rate
from seatrial.statistics.history_gate import (
    DEFAULT_GATE,
    History,
    between_run_variance,
    decide_scenario,
    decide_suite,
    detect_drift,
    find_boundary,
    first_trials,
)
from seatrial.statistics.intervals import Interval, wilson_interval
from seatrial.statistics.significance import PairedValues, ScenarioCounts, ratio_test, stratified_test

SEED = 20_251_118
missed: list[str] = []


def say(text: str, met: bool | None = None) -> None:
    mark = "" if met is None else "   ok" if met else "   MISSED"
    print(f"{text}{mark}", flush=True)
    if met is False:
        missed.append(text)


def draw(rng: random.Random, rate: float, trials: int) -> int:
    return sum(rng.random() < rate for _ in range(trials))


def upper_bound(count: int, total: int) -> float:
    return wilson_interval(count, total)[1]


def run_gate(rng: random.Random, before: Sequence[float], now: Sequence[float], length: int) -> tuple[bool, bool, int]:
    """One candidate against its history: (any alarm, the first scenario is called worse, calls of the candidate)."""
    boundary = find_boundary(length, len(before))
    first = first_trials(len(before))
    counts, calls, worse = [], 0, []
    for old, new in zip(before, now, strict=True):
        history = History(passed=draw(rng, old, length), total=length)
        answers = [rng.random() < new for _ in range(DEFAULT_GATE.max_trials)]
        if history.problem is not None:
            continue
        result = decide_scenario(answers, history, boundary)
        calls += max(result.trials, first)
        worse.append(result.decision == "worse")
        counts.append(
            ScenarioCounts(
                base_passed=history.passed,
                base_total=length,
                candidate_passed=sum(answers[:first]),
                candidate_total=first,
            )
        )
    return any(worse) or decide_suite(counts).alarm, worse[0], calls


def mixed_rates(rng: random.Random, scenarios: int) -> list[float]:
    return [max(rng.betavariate(9, 1), 0.15) for _ in range(scenarios)]


def check_history_gate() -> None:
    print("Gate against a history of 100 trials: false alarms if nothing changed (at most 5 %)")
    for scenarios, repetitions in ((5, 4000), (20, 4000), (100, 1500)):
        for name, make in (("0.95", lambda rng, n: [0.95] * n), ("beta(9,1)", mixed_rates)):
            rng = random.Random(f"{SEED} null {scenarios} {name}")
            alarms = 0
            for _ in range(repetitions):
                rates = make(rng, scenarios)
                alarms += run_gate(rng, rates, rates, 100)[0]
            share, bound = alarms / repetitions, upper_bound(alarms, repetitions)
            say(
                f"  {scenarios:3} scenarios at {name:9}  {share:.3f} (at most {bound:.3f})",
                share <= 0.05 and bound <= 0.06,
            )


def check_culprit() -> None:
    print("One scenario falls from 0.95 to 0.5: how often it is named, and the candidate's calls")
    for scenarios, repetitions, most_calls, trials in ((20, 2000, 110, (5, 10, 15, 20)), (100, 600, 500, (10, 15, 20))):
        rng = random.Random(f"{SEED} culprit {scenarios}")
        before, now = [0.95] * scenarios, [0.5] + [0.95] * (scenarios - 1)
        results = [run_gate(rng, before, now, 100) for _ in range(repetitions)]
        named = sum(worse for _, worse, _ in results) / repetitions
        calls = sum(count for _, _, count in results) / repetitions
        met = named >= 0.8 and calls <= most_calls
        say(f"  {scenarios:3} scenarios, history    named {named:.2f} with {calls:5.0f} calls", met)
        for each in trials:
            found = sum(equal_runs(rng, before, now, each)[0] == "worse" for _ in range(repetitions // 2))
            calls_each = f"{each * scenarios:5} calls (and as many of the baseline)"
            say(f"  {scenarios:3} scenarios, two runs   named {2 * found / repetitions:.2f} with {calls_each}")


def equal_counts(
    rng: random.Random, before: Sequence[float], now: Sequence[float], trials: int
) -> list[ScenarioCounts]:
    return [
        ScenarioCounts(
            base_passed=draw(rng, old, trials),
            base_total=trials,
            candidate_passed=draw(rng, new, trials),
            candidate_total=trials,
        )
        for old, new in zip(before, now, strict=True)
    ]


def equal_runs(rng: random.Random, before: Sequence[float], now: Sequence[float], trials: int) -> list[str]:
    return list(find_words(equal_counts(rng, before, now, trials)))


def check_compare() -> None:
    print("compare --gate auto, two equal runs, nothing changed: regressions (at most 8 %), and the suite test alone")
    for scenarios, repetitions in ((5, 3000), (20, 2000), (100, 500)):
        for trials in (3, 5, 10):
            rng = random.Random(f"{SEED} compare {scenarios} {trials}")
            either = suite = 0
            for _ in range(repetitions):
                rates = mixed_rates(rng, scenarios)
                counts = equal_counts(rng, rates, rates, trials)
                low = stratified_test(counts).mid_p_regression <= ALPHA
                suite += low
                either += low or "worse" in find_words(counts)
            share = either / repetitions
            error = math.sqrt(0.08 * 0.92 / repetitions)
            say(
                f"  {scenarios:3} scenarios, {trials:2} trials  {share:.3f}, suite {suite / repetitions:.3f}",
                share <= 0.08 + 2 * error,
            )


def label_table(humans: Sequence[Sequence[bool]]) -> ConfusionTable:
    passed, failed = humans
    return ConfusionTable(
        seen_passes=sum(passed),
        missed_failures=len(passed) - sum(passed),
        missed_passes=sum(failed),
        seen_failures=len(failed) - sum(failed),
    )


def calibrated(rng: random.Random, judge: tuple[float, float], labels: int, by_verdict: bool) -> CalibratedRate:
    """The rate of 500 trials, of which humans pass 0.9, from some labels."""
    humans = [rng.random() < 0.9 for _ in range(500)]
    verdicts = [rng.random() < (judge[0] if human else 1.0 - judge[1]) for human in humans]
    pairs = list(zip(humans, verdicts, strict=True))
    groups = [[human for human, verdict in pairs if verdict is way] for way in (True, False)]
    if by_verdict:
        chosen = [rng.sample(group, min(labels // 2, len(group))) for group in groups]
    else:
        some = rng.sample(pairs, labels)
        chosen = [[human for human, verdict in some if verdict is way] for way in (True, False)]
    return calibrate_rate(JudgedTrials(passed=len(groups[0]), failed=len(groups[1]), labels=label_table(chosen)))


def holds(interval: Interval | None, truth: float) -> bool:
    """Whether the interval contains the truth; one that is not given claims nothing."""
    return interval is None or interval[0] <= truth <= interval[1]


def check_calibration() -> None:
    print(
        "Calibrated pass rate, 500 trials at 0.9: coverage of the 95 % interval (at least 0.93); of TPR and TNR (0.90)"
    )
    for judge in ((0.95, 0.8), (0.9, 0.5)):
        for labels in (50, 100):
            for by_verdict in (False, True):
                rng = random.Random(f"{SEED} labels {judge} {labels} {by_verdict}")
                found = [calibrated(rng, judge, labels, by_verdict) for _ in range(4000)]
                share = sum(holds(one.interval or one.bounds, 0.9) for one in found) / 4000
                passes = sum(holds(one.true_pass_interval, judge[0]) for one in found) / 4000
                failures = sum(holds(one.true_fail_interval, judge[1]) for one in found) / 4000
                how = "chosen by verdict" if by_verdict else "random"
                shares = f"{share:.3f}; {passes:.3f}, {failures:.3f}"
                met = share >= 0.93 and min(passes, failures) >= 0.9
                say(f"  TPR {judge[0]}, TNR {judge[1]}, {labels:3} labels, {how:17}  {shares}", met)


def check_drift() -> None:
    print("Drift over 20 commits, 20 scenarios at 0.95 with 5 trials each, baseline of 100 trials each")
    for slope, name, met in (
        (0.0, "no drift", lambda share: share <= 0.05),
        (0.005, "-0.5 points per commit", lambda share: share >= 0.95),
    ):
        rng = random.Random(f"{SEED} drift {slope}")
        alarms = 0
        for _ in range(500):
            baseline = [(draw(rng, 0.95, 100), 100) for _ in range(20)]
            runs = [[(draw(rng, 0.95 - slope * (step + 1), 5), 5) for _ in range(20)] for step in range(20)]
            alarms += detect_drift(baseline, runs).alarm
        say(f"  {name:22}  alarms {alarms / 500:.3f}", met(alarms / 500))


def check_bad_days() -> None:
    print("A shift of all trials of a run (logit, sd 0.4), 20 runs of history: alarms of the suite test (at most 3 %)")
    for scenarios, repetitions in ((20, 1200), (100, 400)):
        rng = random.Random(f"{SEED} days {scenarios}")
        alarms = [_on_a_bad_day(rng, scenarios) for _ in range(repetitions)]
        measured, ignored = (sum(pair[place] for pair in alarms) / repetitions for place in (0, 1))
        say(f"  {scenarios:3} scenarios  {measured:.3f}; if it were not measured: {ignored:.3f}", measured <= 0.03)


def _on_a_bad_day(rng: random.Random, scenarios: int) -> tuple[bool, bool]:
    """Whether the suite test alarms with the measured variance between runs, and without it."""

    def draw_run(trials: int) -> list[int]:
        rate = 1.0 / (1.0 + math.exp(-(math.log(19.0) + rng.gauss(0.0, 0.4))))
        return [draw(rng, rate, trials) for _ in range(scenarios)]

    history, first = [draw_run(5) for _ in range(20)], first_trials(scenarios)
    variance = between_run_variance([[History(passed=count, total=5) for count in run] for run in history])
    counts = [
        ScenarioCounts(base_passed=sum(before), base_total=100, candidate_passed=now, candidate_total=first)
        for before, now in zip(zip(*history, strict=True), draw_run(first), strict=True)
    ]
    return decide_suite(counts, variance=variance).alarm, decide_suite(counts).alarm


def check_latency() -> None:
    print("Latency of two equal runs, log-normal: rises called more than noise (at most 6 %)")
    for scenarios, trials, sigma in ((1, 5, 0.6), (5, 1, 0.6), (20, 1, 1.0), (20, 5, 0.6)):
        rng = random.Random(f"{SEED} latency {scenarios} {trials} {sigma}")
        alarms = sum(_rises(rng, scenarios, trials, sigma) for _ in range(800))
        met = alarms / 800 <= 0.06 + 2 * math.sqrt(0.05 * 0.95 / 800)
        say(f"  {scenarios:3} scenarios, {trials} trials, sigma {sigma}  {alarms / 800:.3f}", met)


def _rises(rng: random.Random, scenarios: int, trials: int, sigma: float) -> bool:
    values = []
    for _ in range(scenarios):
        middle = rng.gauss(7.0, 1.0)
        base, now = (tuple(math.exp(rng.gauss(middle, sigma)) for _ in range(trials)) for _ in range(2))
        values.append(PairedValues(base=base, candidate=now))
    found = ratio_test(values, offset=20.0).p_higher
    return found is not None and found <= 0.05


def main() -> int:
    started = time.perf_counter()
    checks: list[Callable[[], None]] = [
        check_history_gate,
        check_culprit,
        check_compare,
        check_calibration,
        check_drift,
        check_bad_days,
        check_latency,
    ]
    for check in checks:
        check()
    print(f"{time.perf_counter() - started:.0f} s; {len(missed)} targets missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
