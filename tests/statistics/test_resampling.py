"""Sign flips, the bootstrap over scenarios and the clustered mean."""

import math
import random
import statistics as stdlib

import pytest
import statsmodels.api as sm
from scipy import stats

from seatrial.errors import UsageError
from seatrial.statistics.significance import cluster_bootstrap_interval, clustered_mean, sign_flip_test


def differences(count: int, *, seed: int, mean: float = 0.0) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(mean, 1.0) for _ in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_few_scenarios_give_the_exact_p_values_of_scipy(seed: int) -> None:
    values = differences(9, seed=seed, mean=-0.4)

    def oracle(alternative: str) -> float:
        return stats.permutation_test(
            (values,), lambda x: sum(x) / len(x), permutation_type="samples", alternative=alternative, n_resamples=1e6
        ).pvalue

    result = sign_flip_test(values)
    assert result.exact
    assert result.p_two_sided == pytest.approx(oracle("two-sided"), abs=1e-12)
    assert result.p_regression == pytest.approx(oracle("less"), abs=1e-12)


def test_many_scenarios_give_nearly_the_exact_p_value() -> None:
    # Equal sizes make the null law binomial, so that the exact answer is known.
    values = [-0.2] * 36 + [0.2] * 24
    result = sign_flip_test(values, seed=1)
    assert not result.exact
    assert result.p_regression == pytest.approx(stats.binom.cdf(24, 60, 0.5), abs=0.006)
    assert result.p_two_sided == pytest.approx(2 * stats.binom.cdf(24, 60, 0.5), abs=0.01)


@pytest.mark.parametrize("count", [19, 20, 24, 25])
def test_every_sign_is_drawn_equally_often_whatever_the_number_of_scenarios(count: int) -> None:
    # One scenario outweighs the others together: a sum is low exactly when its own sign is.
    values = [*[1e-6] * (count - 1), -1.0]
    assert sign_flip_test(values, seed=2).p_regression == pytest.approx(0.5, abs=0.012)


def test_random_signs_never_give_zero() -> None:
    assert sign_flip_test([-1.0] * 60, draws=99).p_regression == 1 / 100


def test_the_seed_alone_decides_the_random_numbers() -> None:
    values = differences(40, seed=3, mean=-0.2)
    assert sign_flip_test(values, seed=5) == sign_flip_test(values, seed=5)
    assert sign_flip_test(values, seed=5) != sign_flip_test(values, seed=6)
    assert cluster_bootstrap_interval(values, seed=5) == cluster_bootstrap_interval(values, seed=5)
    assert cluster_bootstrap_interval(values, seed=5) != cluster_bootstrap_interval(values, seed=6)


def test_the_size_of_the_unit_does_not_matter() -> None:
    values = [-0.4, -0.2, -0.4, 0.1, -0.2, -0.2, 0.3]
    in_microdollars = sign_flip_test([value * 1e-13 for value in values])
    assert in_microdollars.p_two_sided == sign_flip_test(values).p_two_sided


def test_scenarios_that_did_not_move_only_dilute_the_mean() -> None:
    moved, diluted = sign_flip_test([-1.0, -0.5]), sign_flip_test([-1.0, -0.5, 0.0, 0.0])
    assert (diluted.p_regression, diluted.p_two_sided) == (moved.p_regression, moved.p_two_sided)
    assert (moved.mean, diluted.mean) == (-0.75, -0.375)


def test_no_movement_is_no_evidence() -> None:
    still, nothing = sign_flip_test([0.0, 0.0]), sign_flip_test([])
    assert (still.mean, still.p_regression, still.p_two_sided) == (0.0, 1.0, 1.0)
    assert (nothing.mean, nothing.p_regression, nothing.p_two_sided) == (None, 1.0, 1.0)


def test_values_that_are_no_numbers_are_refused() -> None:
    for function in (sign_flip_test, cluster_bootstrap_interval):
        with pytest.raises(ValueError, match="not finite"):
            function([0.1, math.nan])
        with pytest.raises(UsageError, match="draws: 0"):
            function([0.1], draws=0)


def test_the_bootstrap_is_near_the_normal_interval_for_many_scenarios() -> None:
    values = differences(400, seed=8, mean=0.3)
    low, high = cluster_bootstrap_interval(values, seed=1, draws=2000)
    half = 1.96 * stdlib.stdev(values) / math.sqrt(len(values))
    assert (low, high) == pytest.approx((stdlib.fmean(values) - half, stdlib.fmean(values) + half), abs=0.15 * half)


def test_the_bootstrap_reaches_every_scenario() -> None:
    low, high = cluster_bootstrap_interval([0.0, 1.0, 5.0], confidence=0.998, draws=3000)
    assert (low, high) == (0.0, 5.0)


def test_more_confidence_widens_the_bootstrap() -> None:
    values = differences(15, seed=9)
    low, high = cluster_bootstrap_interval(values, confidence=0.8)
    lower, higher = cluster_bootstrap_interval(values, confidence=0.99)
    assert lower < low < high < higher


def test_equal_scenarios_have_a_bootstrap_of_no_width_and_no_scenarios_none() -> None:
    assert cluster_bootstrap_interval([0.25] * 4) == (0.25, 0.25)
    assert cluster_bootstrap_interval([]) is None


def test_the_clustered_error_is_that_of_statsmodels() -> None:
    draw = random.Random(10)
    for _ in range(5):
        groups = [[float(draw.random() < rate) for _ in range(draw.randint(1, 8))] for rate in (0.1, 0.5, 0.7, 0.9, 1)]
        values = [value for group in groups for value in group]
        labels = [number for number, group in enumerate(groups) for _ in group]
        fit = sm.OLS(values, [1.0] * len(values)).fit(
            cov_type="cluster", cov_kwds={"groups": labels, "df_correction": False, "use_correction": False}
        )
        clusters = len(groups)
        result = clustered_mean(groups)
        assert result.mean == pytest.approx(fit.params[0])
        assert result.standard_error == pytest.approx(fit.bse[0] * math.sqrt(clusters / (clusters - 1)), rel=1e-9)
        assert result.naive_standard_error == pytest.approx(stdlib.stdev(values) / math.sqrt(len(values)), rel=1e-9)


def test_one_scenario_says_nothing_about_others() -> None:
    result = clustered_mean([[1.0, 0.0, 1.0]])
    assert (result.standard_error, result.design_effect, result.interval, result.degrees) == (None, None, None, 0)
    assert result.mean == pytest.approx(2 / 3)


def test_scenarios_without_trials_are_left_out() -> None:
    assert clustered_mean([[], [1.0, 0.0], [], [1.0]]) == clustered_mean([[1.0, 0.0], [1.0]])
    assert clustered_mean([[], []]) is None


def test_trials_that_are_all_equal_have_no_design_effect() -> None:
    result = clustered_mean([[1.0, 1.0], [1.0]])
    assert (result.standard_error, result.naive_standard_error, result.design_effect) == (0.0, 0.0, None)
