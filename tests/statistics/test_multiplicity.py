"""Adjusted p-values against statsmodels, and the screening that lets few repeats say anything at all."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from statsmodels.stats.multitest import multipletests

from seatrial.errors import UsageError
from seatrial.statistics.significance import (
    ScenarioCounts,
    benjamini_hochberg,
    fisher_test,
    flag_scenarios,
    holm,
    smallest_p_value,
    tarone_benjamini_hochberg,
)

quick = settings(max_examples=80, deadline=None, derandomize=True, database=None)
p_values = some.lists(
    some.one_of(some.floats(0, 1), some.sampled_from([0.0, 0.01, 0.05, 1.0])), min_size=1, max_size=40
)


def scenario(base_passed: int, candidate_passed: int, *, repeats: int = 5) -> ScenarioCounts:
    return ScenarioCounts(
        base_passed=base_passed,
        base_total=repeats,
        candidate_passed=candidate_passed,
        candidate_total=repeats,
    )


@given(values=p_values)
@quick
def test_benjamini_hochbergs_p_values_are_those_of_statsmodels(values: list[float]) -> None:
    assert benjamini_hochberg(values) == pytest.approx(multipletests(values, method="fdr_bh")[1], abs=1e-12)


@given(values=p_values)
@settings(quick, max_examples=12)  # the oracle takes 35 ms a call
def test_holms_p_values_are_those_of_statsmodels(values: list[float]) -> None:
    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1], abs=1e-12)


@given(values=p_values)
@quick
def test_adjusting_never_lowers_a_p_value_and_keeps_their_order(values: list[float]) -> None:
    for adjust in (benjamini_hochberg, holm):
        adjusted = adjust(values)
        assert all(after >= before for before, after in zip(values, adjusted, strict=True))
        order = sorted(range(len(values)), key=lambda index: values[index])
        assert [adjusted[index] for index in order] == sorted(adjusted)


def test_no_p_values_adjust_to_none() -> None:
    assert benjamini_hochberg([]) == holm([]) == tarone_benjamini_hochberg([], []) == flag_scenarios([]) == ()


@given(values=p_values)
@quick
def test_without_smallest_values_the_screening_is_plain_benjamini_hochberg(values: list[float]) -> None:
    plain = tuple(multipletests(values, alpha=0.05, method="fdr_bh")[0])
    assert tarone_benjamini_hochberg(values, [0.0] * len(values)) == plain


def gilbert_step_by_step(values: list[float], smallest: list[float], q: float) -> tuple[bool, ...]:
    """The procedure as Gilbert (2005) words it, without sorting or searching."""
    kept: list[int] = []
    for k in range(1, len(values) + 1):
        kept = [i for i in range(len(values)) if smallest[i] <= q / k]
        if len(kept) <= k:
            break
    limits = [q * rank / len(kept) for rank in range(1, len(kept) + 1) if kept]
    ordered = sorted(values[i] for i in kept)
    reached = [value for value, limit in zip(ordered, limits, strict=True) if value <= limit]
    return tuple(i in kept and bool(reached) and values[i] <= reached[-1] for i in range(len(values)))


def test_the_screening_follows_gilbert_step_by_step() -> None:
    draw = random.Random(1)
    flags = 0
    for _ in range(300):
        smallest = [
            draw.choice([1e-4, 0.003, 0.02, 0.3, 1.0]) * draw.uniform(0.5, 1) for _ in range(draw.randint(1, 30))
        ]
        values = [min(1.0, least * draw.choice([1, 1, 3, 40])) for least in smallest]
        found = tarone_benjamini_hochberg(values, smallest)
        assert found == gilbert_step_by_step(values, smallest, 0.05)
        flags += any(found)
    assert 50 < flags < 300


def test_one_broken_scenario_of_twenty_is_found_with_five_repeats() -> None:
    suite = [scenario(5, 0), *[scenario(5, 5)] * 17, scenario(4, 5), scenario(5, 4)]
    assert flag_scenarios(suite) == (True, *[False] * 19)


def test_one_repaired_scenario_is_found_as_an_improvement() -> None:
    suite = [scenario(0, 5), *[scenario(5, 5)] * 19]
    assert flag_scenarios(suite, direction="improvement") == (True, *[False] * 19)
    assert not any(flag_scenarios(suite))


def test_a_p_value_that_meets_its_limit_exactly_is_flagged() -> None:
    assert flag_scenarios([scenario(3, 0, repeats=3)], q=0.05) == (True,)


def test_two_smallest_values_that_meet_the_limit_exactly_are_both_counted() -> None:
    assert flag_scenarios([scenario(3, 0, repeats=3)] * 2, q=0.05) == (False, False)


def test_p_values_without_their_smallest_values_are_refused() -> None:
    with pytest.raises(ValueError, match="2 p-values but 1 smallest"):
        tarone_benjamini_hochberg([0.1, 0.2], [0.1])
    with pytest.raises(UsageError, match="q: 5"):
        tarone_benjamini_hochberg([0.1], [0.1], q=5)


def test_a_scenario_with_stronger_evidence_than_a_flagged_one_is_flagged_too() -> None:
    """With two failures in all, 60/60 against 4/6 is as far from noise as it can be, and screened for that."""

    def against_sixty(base: int, candidate: int) -> ScenarioCounts:
        return ScenarioCounts(base_passed=base, base_total=60, candidate_passed=candidate, candidate_total=6)

    suite = [against_sixty(60, 4), against_sixty(59, 4), *[against_sixty(60, 3)] * 5, *[against_sixty(59, 5)] * 5]
    screened = tarone_benjamini_hochberg(list(map(fisher_test, suite)), list(map(smallest_p_value, suite)))
    assert screened[:2] == (False, True)
    assert flag_scenarios(suite) == (*[True] * 7, *[False] * 5)
