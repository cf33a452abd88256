"""A majority decides; a tie or a silence does not."""

import pytest
from scipy import stats

from seatrial.errors import UsageError
from seatrial.statistics.gates import majority_rate


@pytest.mark.parametrize("correlation", [0.01, 0.3, 0.9])
def test_correlated_votes_are_the_beta_binomial_of_scipy(correlation: float) -> None:
    weight = (1 - correlation) / correlation
    expected = stats.betabinom.sf(3, 7, 0.8 * weight, 0.2 * weight)
    assert majority_rate(0.8, 7, correlation=correlation) == pytest.approx(expected, abs=1e-9)


def test_correlation_takes_away_what_asking_again_gains() -> None:
    rates = [majority_rate(0.8, 5, correlation=correlation) for correlation in (0.0, 0.1, 0.5, 0.9, 1.0)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == 0.8


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_certain_vote_stays_certain(rate: float) -> None:
    assert majority_rate(rate, 3) == majority_rate(rate, 3, correlation=0.4) == rate


def test_impossible_votes_are_refused() -> None:
    with pytest.raises(UsageError, match="votes: 0"):
        majority_rate(0.8, 0)
    with pytest.raises(UsageError, match="rate: 80"):
        majority_rate(80, 3)
    with pytest.raises(UsageError, match="correlation: -1"):
        majority_rate(0.8, 3, correlation=-1)
