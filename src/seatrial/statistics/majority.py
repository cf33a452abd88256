"""Several votes on one question: what they decide together, and how much asking again is worth."""

import math
from collections.abc import Sequence

from .distributions import binomial_at_least, log_beta
from .validation import require_positive, require_rate


def majority_vote(votes: Sequence[bool | None]) -> bool | None:
    """What more than half of all votes say; a tie, or too many votes without an answer (None), is None: no verdict."""
    need = len(votes) // 2 + 1
    for answer in (True, False):
        if sum(vote is answer for vote in votes) >= need:
            return answer
    return None


def majority_rate(rate: float, votes: int, *, correlation: float = 0.0) -> float:
    """How often a majority is right when each vote is right with this rate.

    Repeated calls of one model are correlated, so asking again helps less than it seems; `correlation` is the
    intraclass one, 0 for independent votes.
    """
    require_rate("rate", rate)
    require_rate("correlation", correlation)
    require_positive("votes", votes)
    need = votes // 2 + 1
    if rate in (0.0, 1.0) or correlation == 1.0:
        return rate
    if correlation == 0.0:
        return binomial_at_least(need, votes, rate)
    weight = (1.0 - correlation) / correlation
    a, b = rate * weight, (1.0 - rate) * weight
    return math.fsum(
        math.comb(votes, right) * math.exp(log_beta(right + a, votes - right + b) - log_beta(a, b))
        for right in range(need, votes + 1)
    )
