"""Latency, cost and score of two runs: real changes are found, and noise is called noise."""

import math
import random

import pytest
from scipy import stats

from seatrial.statistics.intervals import quantile
from seatrial.statistics.significance import (
    PairedValues,
    ScenarioCounts,
    fisher_mid_p,
    fisher_test,
    ratio_test,
    score_test,
)


def latencies(scenarios: int, trials: int, *, ratio: float = 1.0, seed: int = 1) -> list[PairedValues]:
    rng = random.Random(seed)
    made = []
    for _ in range(scenarios):
        middle = rng.gauss(7.0, 1.0)
        made.append(
            PairedValues(
                base=tuple(math.exp(rng.gauss(middle, 0.6)) for _ in range(trials)),
                candidate=tuple(ratio * math.exp(rng.gauss(middle, 0.6)) for _ in range(trials)),
            )
        )
    return made


def test_over_scenarios_it_is_the_paired_t_test_of_the_logarithms() -> None:
    values = latencies(12, 3)
    base = [sum(map(math.log, each.base)) / 3 for each in values]
    candidate = [sum(map(math.log, each.candidate)) / 3 for each in values]
    expected = stats.ttest_rel(candidate, base, alternative="greater")
    found = ratio_test(values)
    assert found.method == "over scenarios"
    assert found.p_higher == pytest.approx(expected.pvalue, abs=1e-10)
    assert found.ratio == pytest.approx(math.exp(sum(candidate) / 12 - sum(base) / 12))


def test_one_scenario_is_welchs_test_of_its_trials() -> None:
    (values,) = latencies(1, 6)
    expected = stats.ttest_ind(
        [math.log(v) for v in values.candidate],
        [math.log(v) for v in values.base],
        equal_var=False,
        alternative="greater",
    )
    found = ratio_test([values])
    assert found.method == "within scenarios"
    assert found.p_higher == pytest.approx(expected.pvalue, abs=1e-9)


def test_noise_rarely_looks_like_a_rise_and_a_rise_is_found() -> None:
    noise = sum((ratio_test(latencies(20, 3, seed=seed)).p_higher or 0.0) <= 0.05 for seed in range(300))
    rise = sum((ratio_test(latencies(20, 3, ratio=1.5, seed=seed)).p_higher or 1.0) <= 0.05 for seed in range(100))
    assert noise <= stats.binom.ppf(0.999, 300, 0.05)
    assert rise >= 90


def test_the_interval_excludes_1_exactly_if_the_rise_is_significant() -> None:
    for seed in range(40):
        found = ratio_test(latencies(8, 2, ratio=1.2, seed=seed))
        assert found.interval is not None
        assert found.p_higher is not None
        assert (found.interval[0] > 1.0) is (found.p_higher < 0.05)


def test_single_trials_of_few_scenarios_cannot_be_tested() -> None:
    found = ratio_test([PairedValues(base=(100.0,), candidate=(150.0,))] * 2)
    assert (found.method, found.p_higher, found.interval) == ("none", None, None)
    assert found.ratio == pytest.approx(1.5)
    assert ratio_test([]).ratio is None


def test_a_value_that_one_run_lacks_does_not_count() -> None:
    with_gaps = [
        *latencies(6, 2),
        PairedValues(base=(), candidate=(5000.0,)),
        PairedValues(base=(0.0,), candidate=(9.0,)),
    ]
    assert ratio_test(with_gaps) == ratio_test(latencies(6, 2))


def test_an_offset_makes_fractions_of_a_millisecond_equal() -> None:
    tiny = [PairedValues(base=(0.01, 0.02), candidate=(0.1, 0.2))] * 6
    assert (ratio_test(tiny).ratio or 0.0) > 5
    assert ratio_test(tiny, offset=1.0).ratio == pytest.approx(1.13, abs=0.02)


def test_equal_values_are_no_change_and_a_constant_rise_is_one() -> None:
    same = [PairedValues(base=(5.0, 5.0), candidate=(5.0, 5.0))]
    assert ratio_test(same * 6).p_higher == ratio_test(same).p_higher == 1.0
    risen = [PairedValues(base=(5.0, 5.0), candidate=(6.0, 6.0))]
    assert ratio_test(risen * 6).p_higher == ratio_test(risen).p_higher == 0.0


def test_scores_are_tested_from_five_changed_scenarios_on() -> None:
    assert score_test([-4.0] * 4).p_lower is None
    fallen = score_test([-4.0] * 5)
    assert (fallen.difference, fallen.p_lower, fallen.scenarios) == (-4.0, 1 / 32, 5)
    assert score_test([0.0] * 8).p_lower == 1.0
    assert score_test([]).difference is None
    assert (score_test([3.0, -3.0, 2.0, -2.0, 1.0, -1.0]).p_lower or 0.0) > 0.4


def test_the_quantile_is_that_of_numpys_median_unbiased_method() -> None:
    numpy = pytest.importorskip("numpy")
    rng = random.Random(2)
    for count in (1, 2, 5, 20, 33):
        values = [rng.expovariate(1.0) for _ in range(count)]
        for share in (0.0, 0.5, 0.95, 1.0):
            assert quantile(values, share) == pytest.approx(numpy.quantile(values, share, method="median_unbiased"))
    assert quantile([], 0.95) is None


def test_p95_of_few_turns_is_not_biased_low() -> None:
    rng = random.Random(3)
    found = [quantile([math.exp(rng.gauss(0.0, 0.6)) for _ in range(40)], 0.95) or 0.0 for _ in range(500)]
    assert sorted(found)[250] == pytest.approx(math.exp(0.6 * 1.645), rel=0.05)


def test_mid_p_counts_the_observed_result_half() -> None:
    counts = ScenarioCounts(base_passed=5, base_total=5, candidate_passed=2, candidate_total=5)
    exact = fisher_test(counts)
    exactly = stats.hypergeom.pmf(2, 10, 7, 5)
    assert fisher_mid_p(counts) == pytest.approx(exact - exactly / 2)
