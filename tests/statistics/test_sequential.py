"""The sequential test: in index order, blind to errors, and with an exact error table."""

import itertools
import random

import pytest
from scipy import stats

from seatrial.errors import UsageError
from seatrial.statistics.sequential import (
    OperatingPoint,
    SequentialTest,
    curtailed_gate,
    decide_sequentially,
    operating_point,
    operating_table,
    peeking_error,
)


def outcomes(marks: str) -> list[bool | None]:
    return [{"P": True, "F": False, "e": None}[mark] for mark in marks]


def by_enumeration(test: SequentialTest, rate: float) -> OperatingPoint:
    """Every sequence of outcomes, one by one."""
    ended = {"pass": 0.0, "fail": 0.0, "inconclusive": 0.0}
    trials = 0.0
    for sequence in itertools.product([True, False], repeat=test.max_trials):
        chance = rate ** sum(sequence) * (1 - rate) ** (len(sequence) - sum(sequence))
        decision = decide_sequentially(sequence, test)
        ended[decision.verdict] += chance
        trials += chance * decision.trials_used
    return OperatingPoint(
        rate=rate,
        passes=ended["pass"],
        fails=ended["fail"],
        inconclusive=ended["inconclusive"],
        expected_trials=trials,
    )


def test_the_defaults_are_90_against_70_at_5_percent_and_60_trials() -> None:
    assert SequentialTest() == SequentialTest(good=0.9, bad=0.7, alpha=0.05, beta=0.05, max_trials=60)


def test_trials_without_an_answer_count_neither_way_and_are_told() -> None:
    test = SequentialTest()
    with_errors = decide_sequentially(outcomes("eFeFPeFe"), test)
    without = decide_sequentially(outcomes("FFPF"), test)
    assert (with_errors.verdict, with_errors.trials_used, with_errors.evidence) == ("fail", 4, without.evidence)
    assert (with_errors.left_out, without.left_out) == (3, 0)


def test_a_pass_must_hold_if_the_trials_without_an_answer_had_failed() -> None:
    test = SequentialTest()
    open_, decided = (decide_sequentially(outcomes("e" + "P" * passes), test) for passes in (16, 17))
    assert (open_.verdict, open_.would_pass, open_.more_clean_to_pass) == ("continue", True, 1)
    assert (decided.verdict, decided.left_out) == ("pass", 1)


def test_what_comes_after_the_verdict_does_not_change_it() -> None:
    test = SequentialTest()
    assert decide_sequentially(outcomes("FFF" + "P" * 50), test) == decide_sequentially(outcomes("FFF"), test)


def test_nothing_ran_asks_for_trials() -> None:
    decision = decide_sequentially([], SequentialTest())
    assert (decision.verdict, decision.trials_used, decision.evidence) == ("continue", 0, 0.0)
    assert (decision.more_clean_to_pass, decision.more_failed_to_fail) == (12, 3)


def test_the_last_allowed_trial_ends_it_inconclusive() -> None:
    test = SequentialTest(max_trials=11)
    assert decide_sequentially([True] * 10, test).verdict == "continue"
    ended = decide_sequentially([True] * 20, test)
    assert (ended.verdict, ended.trials_used, ended.more_clean_to_pass) == ("inconclusive", 11, 1)


def test_the_last_allowed_trial_may_still_decide() -> None:
    assert decide_sequentially([True] * 12, SequentialTest(max_trials=12)).verdict == "pass"


def test_the_missing_trials_decide_and_one_fewer_does_not() -> None:
    draw = random.Random(5)
    for _ in range(200):
        rates = sorted(draw.sample([0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95], 2))
        test = SequentialTest(bad=rates[0], good=rates[1], alpha=0.1, max_trials=10_000)
        so_far = [draw.random() < 0.75 for _ in range(draw.randint(0, 15))]
        decision = decide_sequentially(so_far, test)
        clean, failed = decision.more_clean_to_pass, decision.more_failed_to_fail
        if decision.verdict != "continue":
            assert (clean, failed) == (0, 0)
            continue
        assert decide_sequentially(so_far + [True] * clean, test).verdict == "pass"
        assert decide_sequentially(so_far + [True] * (clean - 1), test).verdict == "continue"
        assert decide_sequentially(so_far + [False] * failed, test).verdict == "fail"
        assert decide_sequentially(so_far + [False] * (failed - 1), test).verdict == "continue"


@pytest.mark.parametrize("rate", [0.0, 0.35, 0.8, 1.0])
def test_the_error_table_is_what_enumerating_every_sequence_gives(rate: float) -> None:
    test = SequentialTest(good=0.8, bad=0.3, alpha=0.1, beta=0.1, max_trials=10)
    expected, point = by_enumeration(test, rate), operating_point(test, rate)
    assert (point.passes, point.fails) == pytest.approx((expected.passes, expected.fails), abs=1e-12)
    assert point.inconclusive == pytest.approx(expected.inconclusive, abs=1e-12)
    assert point.expected_trials == pytest.approx(expected.expected_trials, abs=1e-11)


@pytest.mark.parametrize(("good", "bad"), [(0.9, 0.7), (0.99, 0.9), (0.6, 0.4), (0.2, 0.05)])
def test_the_promised_errors_are_kept(good: float, bad: float) -> None:
    test = SequentialTest(good=good, bad=bad, max_trials=500)
    assert operating_point(test, good).fails <= 0.0535  # Wald: at most alpha / (1 - beta)
    assert operating_point(test, bad).passes <= 0.0535


def test_the_chances_of_a_row_sum_to_one() -> None:
    for point in operating_table(SequentialTest()):
        assert point.passes + point.fails + point.inconclusive == pytest.approx(1.0, abs=1e-12)


def test_a_better_agent_passes_more_often() -> None:
    passes = [point.passes for point in operating_table(SequentialTest())]
    assert passes == sorted(passes, reverse=True)
    assert (passes[0], passes[-1]) == (1.0, 0.0)


@pytest.mark.parametrize(("total", "need"), [(1, 1), (5, 4), (10, 8), (20, 18)])
def test_curtailing_changes_no_verdict_and_never_costs_more(total: int, need: int) -> None:
    for rate in (0.0, 0.4, 0.9, 1.0):
        point = curtailed_gate(rate, total=total, need=need)
        assert point.passes == pytest.approx(stats.binom.sf(need - 1, total, rate), abs=1e-12)
        assert point.fails == pytest.approx(1 - point.passes, abs=1e-12)
        assert point.expected_trials <= total


def test_a_rule_that_never_decides_costs_every_trial() -> None:
    point = peeking_error(0.7, threshold=0.9, look_from=11, look_to=10)
    assert (point.inconclusive, point.expected_trials) == pytest.approx((1.0, 10.0))


def test_looking_more_often_decides_wrongly_more_often() -> None:
    wrong = [peeking_error(0.9, threshold=0.9, look_from=start, look_to=50).fails for start in (50, 25, 5)]
    assert wrong == sorted(wrong)
    assert wrong[0] < 0.05 < wrong[-1]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"good": 0.7, "bad": 0.9}, "bad: 0.9 is not below good: 0.7"),
        ({"good": 1.0}, "good: 1.0 is not strictly between 0 and 1"),
        ({"bad": 0.0}, "bad: 0.0"),
        ({"alpha": 5}, "alpha: 5"),
        ({"beta": 0}, "beta: 0"),
        ({"alpha": 0.6, "beta": 0.5}, "add up to 1 or more"),
        ({"max_trials": 0}, "max_trials: 0 is not at least 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, float], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        SequentialTest(**settings)


def test_a_rate_above_one_is_refused() -> None:
    with pytest.raises(UsageError, match=r"rate: 1\.5"):
        operating_point(SequentialTest(), 1.5)
