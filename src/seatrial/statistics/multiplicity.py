"""Many scenarios, many p-values: which of them may be believed.

With 5 repeats on each side no scenario can show a p-value below 0.004, so plain Benjamini-Hochberg over 20 scenarios
can flag nothing at all. Tarone's screening leaves out the scenarios that could never be significant.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from .significance import ScenarioCounts, fisher_test, smallest_p_value
from .validation import ROUNDING, reaches, require_open_rate


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: flag those at or below q, and on average a share of at most q is flagged wrongly."""
    count = len(p_values)
    adjusted, smallest = [1.0] * count, 1.0
    for rank, index in reversed(list(enumerate(_by_size(p_values), start=1))):
        # The ratio first: it is never below 1, so that rounding cannot lower a p-value.
        smallest = min(smallest, p_values[index] * (count / rank))
        adjusted[index] = smallest
    return tuple(adjusted)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: flag those at or below alpha, and any false flag at all has at most that chance."""
    count = len(p_values)
    adjusted, largest = [1.0] * count, 0.0
    for rank, index in enumerate(_by_size(p_values)):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def tarone_benjamini_hochberg(
    p_values: Sequence[float], smallest: Sequence[float], *, q: float = 0.05
) -> tuple[bool, ...]:
    """Which scenarios are flagged (Gilbert 2005), given each one's p-value and the smallest it could have had."""
    require_open_rate("q", q)
    if len(p_values) != len(smallest):
        raise ValueError(f"{len(p_values)} p-values but {len(smallest)} smallest ones. Give one for each.")
    limit = _screening_limit(smallest, q)
    kept = [index for index in _by_size(p_values) if reaches(smallest[index], limit)]
    last = 0
    for rank, index in enumerate(kept, start=1):
        if reaches(p_values[index], q * rank / len(kept)):
            last = rank
    flagged = set(kept[:last])
    return tuple(index in flagged for index in range(len(p_values)))


def flag_scenarios(
    scenarios: Sequence[ScenarioCounts],
    *,
    direction: Literal["regression", "improvement"] = "regression",
    q: float = 0.05,
) -> tuple[bool, ...]:
    """Which scenarios got worse (or better) beyond noise, when all of them were looked at."""
    counts = [one.turned() for one in scenarios] if direction == "improvement" else list(scenarios)
    return tarone_benjamini_hochberg(
        [fisher_test(one) for one in counts], [smallest_p_value(one) for one in counts], q=q
    )


def _screening_limit(smallest: Sequence[float], q: float) -> float:
    """q / k for the first k that at most k scenarios could reach."""
    floors = sorted(smallest)
    for k in range(1, len(floors) + 1):
        if bisect_right(floors, q / k * (1.0 + ROUNDING)) <= k:
            return q / k
    return q


def _by_size(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=lambda index: p_values[index])
