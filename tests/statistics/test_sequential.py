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
    stopping_rule,
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


def test_the_default_rule_has_the_errors_and_the_trials_of_the_documentation() -> None:
    test = SequentialTest()
    good, bad = operating_point(test, 0.9), operating_point(test, 0.7)
    assert (good.inconclusive, bad.inconclusive) == (0.0, 0.0)
    assert good.fails <= 0.05
    assert bad.passes <= 0.05
    trials = [operating_point(test, rate).expected_trials for rate in (1.0, 0.98, 0.95, 0.9, 0.8, 0.7, 0.5)]
    assert trials == pytest.approx([10.0, 12.2, 16.4, 25.9, 31.8, 19.2, 7.7], abs=0.05)


def test_the_optimal_rule_needs_fewer_trials_than_walds_test_where_it_matters() -> None:
    for rate in (1.0, 0.98, 0.95):
        optimal, wald = (operating_point(SequentialTest(optimal=way), rate) for way in (True, False))
        assert optimal.expected_trials < wald.expected_trials


def test_trials_without_an_answer_count_neither_way_and_are_told() -> None:
    test = SequentialTest()
    with_errors = decide_sequentially(outcomes("eFeFeFe"), test)
    without = decide_sequentially(outcomes("FFF"), test)
    assert (with_errors.verdict, with_errors.trials_used) == (without.verdict, without.trials_used) == ("fail", 3)
    assert (with_errors.left_out, without.left_out) == (3, 0)


def test_a_pass_must_hold_if_the_trials_without_an_answer_had_failed() -> None:
    test = SequentialTest()
    passes = next(n for n in range(60) if decide_sequentially(outcomes("F" + "P" * n), test).verdict == "pass")
    open_, decided = (decide_sequentially(outcomes("e" + "P" * n), test) for n in (passes - 1, passes))
    assert (open_.verdict, open_.would_pass, open_.fewest_more) == ("continue", True, 1)
    assert (decided.verdict, decided.left_out) == ("pass", 1)


def test_more_errors_than_trials_keep_it_from_passing() -> None:
    decision = decide_sequentially(outcomes("e" * 80 + "P" * 60), SequentialTest())
    assert (decision.verdict, decision.would_pass, decision.left_out) == ("inconclusive", True, 80)


def test_what_comes_after_the_verdict_does_not_change_it() -> None:
    test = SequentialTest()
    assert decide_sequentially(outcomes("FFF" + "P" * 50), test) == decide_sequentially(outcomes("FFF"), test)


def test_nothing_ran_asks_for_trials() -> None:
    decision = decide_sequentially([], SequentialTest())
    assert (decision.verdict, decision.trials_used, decision.fewest_more) == ("continue", 0, 3)


def test_it_always_decides_by_the_last_trial() -> None:
    test = SequentialTest()
    rule = stopping_rule(test)
    assert rule.pass_at[-1] == rule.fail_at[-1] + 1
    draw = random.Random(4)
    for _ in range(200):
        marks = [draw.random() < 0.8 for _ in range(60)]
        assert decide_sequentially(marks, test).verdict in ("pass", "fail")


def test_too_few_trials_for_the_errors_end_inconclusive_and_not_wrong() -> None:
    test = SequentialTest(max_trials=11)
    assert stopping_rule(test) == stopping_rule(SequentialTest(max_trials=11, optimal=False))
    assert decide_sequentially([True] * 10, test).verdict == "continue"
    ended = decide_sequentially([True] * 20, test)
    assert (ended.verdict, ended.trials_used) == ("inconclusive", 11)


def test_the_last_allowed_trial_may_still_decide() -> None:
    assert decide_sequentially([True] * 12, SequentialTest(max_trials=12)).verdict == "pass"


def test_a_very_long_test_uses_walds_rule() -> None:
    long = {"good": 0.95, "bad": 0.94, "max_trials": 20_000}
    assert stopping_rule(SequentialTest(**long)) == stopping_rule(SequentialTest(**long, optimal=False))


@pytest.mark.parametrize(
    "settings",
    [
        {"good": 0.95, "bad": 0.8, "max_trials": 80},
        {"good": 0.99, "bad": 0.9, "max_trials": 150},
        {"good": 0.6, "bad": 0.4, "max_trials": 150},
        {"good": 0.2, "bad": 0.05, "max_trials": 100},
        {"alpha": 0.01, "beta": 0.1, "max_trials": 90},
        {"max_trials": 42},
    ],
)
def test_other_settings_are_solved_with_both_errors_kept(settings: dict[str, float]) -> None:
    test = SequentialTest(**settings)  # type: ignore[arg-type]
    good, bad = operating_point(test, test.good), operating_point(test, test.bad)
    assert good.fails <= test.alpha
    assert bad.passes <= test.beta
    assert (good.inconclusive, bad.inconclusive) == (0.0, 0.0)
    rule = stopping_rule(test)
    assert list(rule.pass_at) == sorted(rule.pass_at)
    assert list(rule.fail_at) == sorted(rule.fail_at)


def test_the_fewest_trials_that_could_decide_are_exact() -> None:
    draw = random.Random(5)
    for _ in range(200):
        test = draw.choice([SequentialTest(), SequentialTest(optimal=False), SequentialTest(good=0.8, bad=0.5)])
        so_far = [draw.choice([True, True, True, False, None]) for _ in range(draw.randint(0, 15))]
        decision = decide_sequentially(so_far, test)
        if decision.verdict != "continue":
            assert decision.fewest_more == 0
            continue
        more = decision.fewest_more
        ends = {decide_sequentially(so_far + [way] * more, test).verdict for way in (True, False)}
        assert ends & {"pass", "fail"}
        earlier = {decide_sequentially(so_far + [way] * (more - 1), test).verdict for way in (True, False)}
        assert earlier == {"continue"}


@pytest.mark.parametrize("optimal", [True, False])
@pytest.mark.parametrize("rate", [0.0, 0.35, 0.8, 1.0])
def test_the_error_table_is_what_enumerating_every_sequence_gives(rate: float, optimal: bool) -> None:
    test = SequentialTest(good=0.8, bad=0.3, alpha=0.1, beta=0.1, max_trials=10, optimal=optimal)
    expected, point = by_enumeration(test, rate), operating_point(test, rate)
    assert (point.passes, point.fails) == pytest.approx((expected.passes, expected.fails), abs=1e-12)
    assert point.inconclusive == pytest.approx(expected.inconclusive, abs=1e-12)
    assert point.expected_trials == pytest.approx(expected.expected_trials, abs=1e-11)


@pytest.mark.parametrize(("good", "bad"), [(0.9, 0.7), (0.99, 0.9), (0.6, 0.4), (0.2, 0.05)])
def test_walds_test_nearly_keeps_the_errors(good: float, bad: float) -> None:
    test = SequentialTest(good=good, bad=bad, max_trials=500, optimal=False)
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
