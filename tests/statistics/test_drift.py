"""Slow decay over runs is found, and an unchanged agent raises no alarm."""

import itertools
import math
import random

import pytest
from scipy import stats

from seatrial.statistics.history_gate import ALARM, DROPS, _log_ratio, detect_drift
from seatrial.statistics.intervals import Count


def play(rng: random.Random, rates: list[float], trials: int) -> list[Count]:
    return [(sum(rng.random() < rate for _ in range(trials)), trials) for rate in rates]


def alarms(slope: float, *, repetitions: int = 60) -> float:
    rng = random.Random(1)
    rates = [0.95] * 20
    found = 0
    for _ in range(repetitions):
        baseline = play(rng, rates, 50)
        runs = [play(rng, [rate - slope * (number + 1) for rate in rates], 5) for number in range(20)]
        found += detect_drift(baseline, runs).alarm
    return found / repetitions


def test_half_a_point_in_each_commit_is_found() -> None:
    assert alarms(0.005) >= 0.9


def test_an_unchanged_agent_raises_no_alarm() -> None:
    assert alarms(0.0) <= 0.05


def test_the_ratio_is_a_fair_bet_at_the_bound_and_a_losing_one_above() -> None:
    for total, bound, rate in ((20, 0.9, 0.9), (20, 0.9, 0.95), (7, 0.05, 0.05)):
        mean = sum(
            stats.binom.pmf(passed, total, rate) * math.exp(_log_ratio(passed, total, bound))
            for passed in range(total + 1)
        )
        assert mean == pytest.approx(1.0, abs=1e-9) if rate == bound else mean < 1.0


def test_scenarios_of_different_rates_are_bounded_by_their_mean() -> None:
    """The pooled ratio of trials at 1.0 and 0.8 is at most that at 0.9 on average."""
    mean = 0.0
    for outcome in itertools.product((0, 1), repeat=4):
        chance = math.prod(0.8 if passed else 0.2 for passed in outcome)
        mean += chance * math.exp(_log_ratio(4 + sum(outcome), 8, 0.9))
    assert mean <= 1.0


def test_the_alarm_names_the_run_and_the_probable_start() -> None:
    baseline = [(950, 1000)]
    good, bad = [(19, 20)], [(12, 20)]
    found = detect_drift(baseline, [good, good, good, bad, bad, bad, bad])
    assert found.alarm
    assert found.alarm_at is not None
    assert found.alarm_at >= 3
    assert found.since == 3
    assert found.values[found.alarm_at] >= ALARM
    assert (found.expected, found.observed) == (0.95, 0.6)


def test_an_alarm_stays_after_a_recovery() -> None:
    bad, good = [(8, 20)], [(20, 20)]
    found = detect_drift([(950, 1000)], [*[bad] * 5, *[good] * 20])
    assert found.alarm
    assert found.values[-1] < ALARM


def test_runs_without_known_scenarios_say_nothing() -> None:
    assert detect_drift([(0, 0)], [[(0, 20)]] * 3).alarm is False
    empty = detect_drift([], [])
    assert (empty.alarm, empty.values, empty.expected) == (False, (), None)


def test_a_long_decay_stays_finite() -> None:
    found = detect_drift([(1000, 1000)], [[(0, 1000)]] * 50)
    assert found.alarm_at == 0
    assert max(found.values) <= 1e12


def test_a_run_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="argument 2 is"):
        detect_drift([(1, 1)], [[(1, 1), (1, 1)]])


def test_the_drops_are_those_that_the_documentation_names() -> None:
    assert DROPS == (0.03, 0.06, 0.12)
