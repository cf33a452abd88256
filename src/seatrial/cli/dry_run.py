"""What `run --dry-run` says of `trials: auto`: the exact number of trials and the chance of each verdict."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import log

from seatrial.model.run import ScenarioEntry
from seatrial.statistics.sequential import SequentialTest, operating_point
from seatrial.verdicts.rates import read_sequential_test

from .table import lay_out


def describe_sequential(entries: Iterable[ScenarioEntry]) -> list[str]:
    """Lines about the scenarios that run until they are decided, by the settings they share; none without any."""
    tests = Counter(
        tuple(sorted(entry.sequential.items()))
        for entry in entries
        if entry.sequential is not None and entry.skip is None
    )
    return [line for settings, count in tests.items() for line in _describe(dict(settings), count)]


def _describe(settings: dict[str, float], count: int) -> Iterator[str]:
    test = read_sequential_test(settings)
    several = count > 1
    yield ""
    yield (
        f"trials: auto in {count} scenario{'s' if several else ''} (good {test.good:g}, bad {test.bad:g}, "
        f"alpha {test.alpha:g}, beta {test.beta:g}, at most {test.max_trials} trials); exactly, for one scenario:"
    )
    yield from _table(test)
    if several:
        yield from _whole_suite(test, count)


def _table(test: SequentialTest) -> list[str]:
    rates = sorted({1.0, test.good, (test.good + test.bad) / 2.0, test.bad, test.bad / 2.0}, reverse=True)
    rows = []
    for rate in rates:
        point = operating_point(test, rate)
        shares = (point.passes, point.fails, point.inconclusive)
        rows.append((f"{rate:.3g}", *(_percent(share) for share in shares), f"{point.expected_trials:.1f}"))
    return lay_out(("true rate", "passes", "fails", "inconclusive", "trials on average"), rows)


def _whole_suite(test: SequentialTest, count: int) -> Iterator[str]:
    """Errors add up over scenarios: each is right nineteen times in twenty, all of them together are not."""
    perfect, good, bad = (operating_point(test, rate) for rate in (1.0, test.good, test.bad))
    yield (
        f"for all {count}: {count * perfect.expected_trials:,.0f} trials if every one always passes, "
        f"{count * good.expected_trials:,.0f} at {test.good:g}, {count * bad.expected_trials:,.0f} at {test.bad:g}, "
        f"at most {count * test.max_trials:,}"
    )
    yield (
        f"errors add up: if all {count} are at {test.good:g}, the chance that at least one fails is "
        f"{_percent(_any(good.fails, count))}, that at least one does not pass {_percent(_any(1 - good.passes, count))}"
    )
    alpha = test.alpha / count
    # The evidence that a smaller error asks for grows with its logarithm, and so does the number of trials.
    split = replace(test, alpha=alpha, max_trials=round(test.max_trials * log(alpha) / log(test.alpha)))
    fairer = operating_point(split, test.good)
    yield (
        f"to share it out: sequential: {{alpha: {split.alpha:.2g}, max_trials: {split.max_trials}}} makes that "
        f"{_percent(_any(fairer.fails, count))} and {_percent(_any(1 - fairer.passes, count))}, "
        f"at {count * fairer.expected_trials:,.0f} trials at {test.good:g}"
    )


def _any(chance: float, count: int) -> float:
    return 1.0 - (1.0 - chance) ** count


def _percent(share: float) -> str:
    if 0.0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %".replace(".0 %", " %")
