"""pass@k and pass^k: what a user meets who tries k times, estimated without bias from n trials."""

from collections.abc import Callable, Sequence
from math import comb

from .intervals import Interval, clopper_pearson_interval
from .validation import require_counts, require_positive


def pass_at_k(passed: int, total: int, *, k: int) -> float | None:
    """The chance that at least one of k trials passes (Chen et al. 2021); None when fewer than k ran."""
    require_counts(passed, total)
    require_positive("k", k)
    if k > total:
        return None
    ways = comb(total, k)
    return (ways - comb(total - passed, k)) / ways


def pass_hat_k(passed: int, total: int, *, k: int) -> float | None:
    """The chance that all of k trials pass, pass^k (Yao et al. 2024); None when fewer than k ran."""
    require_counts(passed, total)
    require_positive("k", k)
    if k > total:
        return None
    return comb(passed, k) / comb(total, k)


def pass_at_k_interval(passed: int, total: int, *, k: int, confidence: float = 0.95) -> Interval:
    """Bounds of pass@k, by carrying over the exact bounds of the pass rate; (0, 1) when nothing ran."""
    require_positive("k", k)
    low, high = clopper_pearson_interval(passed, total, confidence=confidence)
    return 1.0 - (1.0 - low) ** k, 1.0 - (1.0 - high) ** k


def pass_hat_k_interval(passed: int, total: int, *, k: int, confidence: float = 0.95) -> Interval:
    """Bounds of pass^k, by carrying over the exact bounds of the pass rate; (0, 1) when nothing ran."""
    require_positive("k", k)
    low, high = clopper_pearson_interval(passed, total, confidence=confidence)
    return low**k, high**k


def suite_pass_at_k(scenarios: Sequence[tuple[int, int]], *, k: int) -> float | None:
    """The mean pass@k over scenarios given as (passed, total); None when one of them has fewer than k trials."""
    return _mean_over(scenarios, lambda passed, total: pass_at_k(passed, total, k=k))


def suite_pass_hat_k(scenarios: Sequence[tuple[int, int]], *, k: int) -> float | None:
    """The mean pass^k over scenarios given as (passed, total); None when one of them has fewer than k trials."""
    return _mean_over(scenarios, lambda passed, total: pass_hat_k(passed, total, k=k))


def _mean_over(scenarios: Sequence[tuple[int, int]], measure: Callable[[int, int], float | None]) -> float | None:
    values = [measure(passed, total) for passed, total in scenarios]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known) / len(known)
