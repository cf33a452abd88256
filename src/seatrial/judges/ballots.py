"""Several answers of the judge about one trial, and what they say together.

A value that more than half of all votes give is decided. Scores that differ more widely take the middle one, if every
vote came in. A vote that is missing counts for nothing: what the others leave open stays open, and is an error.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from seatrial.model.results import BehaviourFailure, Severity

from .answer_schema import Answer, turn_key
from .failure_categories import Category
from .metrics import Metric

Value: TypeAlias = int | bool | None


class Item(NamedTuple):
    """One thing that is voted on."""

    kind: str
    """score, outcome or failure."""
    name: str
    turn: int | None = None

    def __str__(self) -> str:
        return f"{self.name} in turn {self.turn + 1}" if self.turn is not None else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """One answer, item by item: the value and the reason given for it."""

    items: Mapping[Item, tuple[int | bool, str]]
    failures: tuple[BehaviourFailure, ...] = ()
    summary: str = ""
    outcomes_given: bool = True

    def value(self, item: Item) -> Value:
        # A failure that is not named was not seen; an outcome that is not there was not answered.
        return self.items[item][0] if item in self.items else (False if item.kind == "failure" else None)


class Undecided(Exception):
    """The votes that came in do not settle these."""

    def __init__(self, items: Sequence[Item]) -> None:
        super().__init__(", ".join(map(str, items)))


def read_ballot(answer: Answer, *, metrics: Sequence[Metric], turns: int, categories: Mapping[str, Category]) -> Ballot:
    """The answer, which fits its form, item by item."""
    items: dict[Item, tuple[int | bool, str]] = {}
    for metric in metrics:
        given = answer["metrics"][metric.name]
        if metric.scope == "trial":
            items[Item("score", metric.name)] = _graded(given)
        else:
            for turn in range(turns):
                items[Item("score", metric.name, turn)] = _graded(given[turn_key(turn)])
    outcomes = answer.get("outcomes")
    for id, said in (outcomes or {}).items():
        items[Item("outcome", id)] = (said["passed"], said["justification"])
    failures = tuple(_failure(given, categories) for given in answer.get("failures", ()))
    for failure in failures:
        items[_item(failure)] = (True, failure.explanation)
    return Ballot(items=items, failures=failures, summary=answer["summary"], outcomes_given=bool(outcomes))


def is_settled(ballots: Sequence[Ballot], total: int) -> bool:
    """Whether every item has a majority of all votes already."""
    # Counted first: ballots that name no failure hold no item, yet the next one may name some.
    return len(ballots) > total // 2 and all(
        _majority(values, total) is not None for _, values in (*_votes(ballots), *_severities(ballots))
    )


def combine(ballots: Sequence[Ballot], total: int) -> Ballot:
    """What the ballots say together. Raises Undecided."""
    if total == 1 and len(ballots) == 1:
        return ballots[0]
    decided: dict[Item, tuple[int | bool, str]] = {}
    open_items: list[Item] = []
    for item, values in _votes(ballots):
        winner = _majority(values, total)
        if winner is None and item.kind == "score" and len(ballots) == total:
            winner = (sorted(values)[total // 2],)
        if winner is None:
            open_items.append(item)
        elif winner[0] is not None:
            decided[item] = (winner[0], _reason(ballots, item, winner[0]))
    open_items += [item for item, values in _severities(ballots) if _majority(values, total) is None]
    if open_items or len(ballots) <= total // 2:
        raise Undecided(open_items)
    seen = {item for item, (value, _) in decided.items() if item.kind == "failure" and value}
    return Ballot(
        items=decided,
        failures=_failures_seen(ballots, seen, total),
        summary=ballots[0].summary,
        outcomes_given=any(item.kind == "outcome" for item in decided),
    )


def _failures_seen(ballots: Sequence[Ballot], seen: set[Item], total: int) -> tuple[BehaviourFailure, ...]:
    """The failures that were voted for. Where most votes see some failure as severe as this, though each another, the
    one that most of them name stands for all: that something went wrong is decided."""
    named = {_item(failure): failure for ballot in reversed(ballots) for failure in reversed(ballot.failures)}
    kept = {item: failure for item, failure in named.items() if item in seen}
    for severity in reversed(Severity):
        seeing = [_as_severe(ballot, severity) for ballot in ballots]
        told = any(failure.severity.rank >= severity.rank for failure in kept.values())
        if sum(map(bool, seeing)) > total // 2 and not told:
            (most, _), *_ = Counter(item for items in seeing for item in dict.fromkeys(items)).most_common(1)
            kept[most] = named[most]
    return tuple(sorted(kept.values(), key=lambda failure: (failure.turn or 0, failure.category)))


def _severities(ballots: Sequence[Ballot]) -> Iterator[tuple[Item, list[Any]]]:
    """Who sees some failure as severe, whichever: votes that each name another one can make a majority together."""
    for severity in Severity:
        seen = [bool(_as_severe(ballot, severity)) for ballot in ballots]
        if any(seen):
            yield Item("severity", f"whether a failure is {severity} or worse"), seen


def _as_severe(ballot: Ballot, severity: Severity) -> list[Item]:
    return [_item(failure) for failure in ballot.failures if failure.severity.rank >= severity.rank]


def _item(failure: BehaviourFailure) -> Item:
    return Item("failure", failure.category, failure.turn)


def disagreements(ballots: Sequence[Ballot]) -> list[str]:
    """Where the votes differ, in words."""
    return [
        f"{item}: {', '.join(str(value) for value in values)}"
        for item, values in _votes(ballots)
        if len(set(values)) > 1
    ]


def _votes(ballots: Sequence[Ballot]) -> Iterator[tuple[Item, list[Any]]]:
    items = dict.fromkeys(item for ballot in ballots for item in ballot.items)
    for item in items:
        yield item, [ballot.value(item) for ballot in ballots]


def _majority(values: Sequence[Value], total: int) -> tuple[Value] | None:
    """The value that more than half of all votes give, as a tuple because the value itself can be None."""
    value, count = Counter(values).most_common(1)[0]
    return (value,) if count > total // 2 else None


def _reason(ballots: Sequence[Ballot], item: Item, value: int | bool) -> str:
    return next(
        (ballot.items[item][1] for ballot in ballots if item in ballot.items and ballot.value(item) == value), ""
    )


def _graded(given: Mapping[str, Any]) -> tuple[int | bool, str]:
    return given["passed"] if "passed" in given else given["score"], given["reason"]


def _failure(given: Mapping[str, Any], categories: Mapping[str, Category]) -> BehaviourFailure:
    return BehaviourFailure(
        category=given["category"],
        severity=categories[given["category"]].severity,
        label=given["label"],
        explanation=given["explanation"],
        turn=given["turn"] - 1,
    )
