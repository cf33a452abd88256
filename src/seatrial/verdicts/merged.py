"""Whether a stored merge of behaviour failures still speaks of the failures that the trials have."""

from collections import defaultdict
from collections.abc import Iterable

from seatrial.model.results import Severity, UniqueError
from seatrial.model.run import MergedErrors, TrialSummary

_Place = tuple[int, int | None]


def fits(merged: MergedErrors, trials: Iterable[TrialSummary]) -> bool:
    """Whether it holds each failure of these trials exactly once, and makes none of them harmless."""
    found: dict[_Place, list[Severity]] = defaultdict(list)
    for trial in trials:
        for severity, _, _, turn in trial.failures:
            found[trial.index, turn].append(Severity(severity))
    told = _severities(merged.errors)
    if {place: len(ranks) for place, ranks in found.items()} != {place: len(ranks) for place, ranks in told.items()}:
        return False
    return all(
        given.rank <= kept.rank
        for place in found
        for given, kept in zip(_by_rank(found[place]), _by_rank(told[place]), strict=True)
    )


def _severities(errors: Iterable[UniqueError]) -> dict[_Place, list[Severity]]:
    told: dict[_Place, list[Severity]] = defaultdict(list)
    for error in errors:
        for place in error.examples:
            told[place].append(error.severity)
    return told


def _by_rank(severities: list[Severity]) -> list[Severity]:
    return sorted(severities, key=lambda severity: severity.rank)
