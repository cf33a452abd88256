"""Scenarios together with their trials, as verdicts need them: so many at a time, however large the run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from seatrial.vocabulary.record import record
from seatrial.vocabulary.run import Figures, ScenarioEntry, TrialSummary

from . import schema
from .connection import Connections, Row
from .entries import read_entry_rows
from .marks import read, write
from .trials import read_summary_rows

Played = tuple[ScenarioEntry, list[TrialSummary]]

_SCENARIOS = 2_000
_TRIALS = 5_000
_AT_ONCE = 500
"""Scenarios that are asked for by their numbers in one question."""
_KINDS = 1_000


@record
class Digest:
    """Some scenarios of a run: those that passed like others are only counted."""

    passed: list[tuple[ScenarioEntry, int]] = field(default_factory=list)
    """One scenario that stands for so many."""
    trials: list[Figures] = field(default_factory=list)
    """Of all of those."""
    others: list[tuple[int, int]] = field(default_factory=list)
    """Position and number of the rest."""


def read_played(connections: Connections, run_id: str) -> Iterator[Played]:
    """Every scenario with its trials, in the order of reports."""
    position, number = -1, -1
    while True:
        with connections.one() as connection:
            page = connection.rows(schema.SCENARIO_PAGE, (run_id, position, number, _SCENARIOS))
        yield from _with_trials(connections, run_id, page)
        if len(page) < _SCENARIOS:
            return
        number, position, *_ = page[-1]


def read_some_played(connections: Connections, run_id: str, numbers: Sequence[int]) -> Iterator[Played]:
    """The scenarios of those numbers with their trials, in the order of the numbers given."""
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        with connections.one() as connection:
            found = {row[0]: row for row in connection.rows(_asking(schema.SCENARIOS, some), (run_id, *some))}
        yield from _with_trials(connections, run_id, [found[number] for number in some if number in found])


def _with_trials(connections: Connections, run_id: str, rows: Sequence[Row]) -> Iterator[Played]:
    waiting: dict[int, ScenarioEntry] = {}
    room = _TRIALS
    for row, entry in zip(rows, read_entry_rows([row[1:] for row in rows]), strict=True):
        waiting[row[0]] = entry
        room -= entry.trials
        if room <= 0 or len(waiting) == _AT_ONCE:
            yield from _read_trials(connections, run_id, waiting)
            waiting, room = {}, _TRIALS
    if waiting:
        yield from _read_trials(connections, run_id, waiting)


def _read_trials(connections: Connections, run_id: str, entries: dict[int, ScenarioEntry]) -> Iterator[Played]:
    numbers = list(entries)
    with connections.one() as connection:
        rows = connection.rows(_asking(schema.SUMMARIES, numbers), (run_id, *numbers))
    trials: dict[int, list[TrialSummary]] = {number: [] for number in numbers}
    summaries = read_summary_rows(rows, {number: entry.key for number, entry in entries.items()})
    for row, summary in zip(rows, summaries, strict=True):
        trials[row[0]].append(summary)
    for number, entry in entries.items():
        yield entry, trials[number]


def _asking(statement: str, numbers: Sequence[int]) -> str:
    return statement.format(numbers=", ".join("?" * len(numbers)))


def read_digests(
    connections: Connections, run_id: str, together: Callable[[ScenarioEntry, int], bool]
) -> Iterator[Digest]:
    """The whole run, scenarios in the order in which they were added.

    A scenario is only counted when all its trials passed and left nothing to tell but figures, and `together` says of
    one like it, with as many trials, that it may be. No object is made for such a trial or scenario.
    """
    kinds = _Kinds(together)
    digest = Digest()
    trials = _figures(connections, run_id)
    trial = next(trials, None)
    for number, position, written, terms, is_old in _terms(connections, run_id):
        plain = not is_old  # an earlier version kept a scenario's name among its terms
        figures: list[Figures] = []
        while trial is not None and trial[0] == number:
            plain = plain and bool(trial[2])
            figures.append(tuple(trial[3:]))
            trial = next(trials, None)
        if plain and figures and kinds.count(position, written, terms, len(figures)):
            digest.trials.extend(figures)
        else:
            digest.others.append((position, number))
        if len(digest.trials) >= _TRIALS or len(digest.others) >= _AT_ONCE or kinds.full:
            digest.passed.extend(kinds.take())
            yield digest
            digest = Digest()
    digest.passed.extend(kinds.take())
    yield digest


class _Kinds:
    """Scenarios that differ in nothing but their names, counted."""

    def __init__(self, together: Callable[[ScenarioEntry, int], bool]) -> None:
        self._together = together
        self._suite = "\0"
        """How the keys of the last suite begin, as they are written."""
        self._known: dict[tuple[str, bytes, int], ScenarioEntry | None] = {}
        self._counts: dict[tuple[str, bytes, int], int] = {}

    @property
    def full(self) -> bool:
        return len(self._known) >= _KINDS

    def count(self, position: int, written: str, terms: bytes, trials: int) -> bool:
        """Whether the scenario is counted; else nothing happened."""
        if not written.startswith(self._suite):
            self._suite = write([read(written)[0]])[:-1] + ","
        kind = (self._suite, bytes(terms), trials)
        known = self._known.get(kind)
        if known is None and kind not in self._known:
            [entry] = read_entry_rows([(position, written, "", "", None, terms)])
            known = self._known[kind] = entry if self._together(entry, trials) else None
        if known is None:
            return False
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return True

    def take(self) -> Iterator[tuple[ScenarioEntry, int]]:
        """One of each kind and how many there were, since this was last asked."""
        for kind, count in self._counts.items():
            entry = self._known[kind]
            assert entry is not None
            yield entry, count
        self._counts.clear()
        if self.full:
            self._known.clear()


def _terms(connections: Connections, run_id: str) -> Iterator[Row]:
    number = -1
    while True:
        with connections.one() as connection:
            page = connection.rows(schema.TERMS_PAGE, (run_id, number, _SCENARIOS))
        yield from page
        if len(page) < _SCENARIOS:
            return
        number = page[-1][0]


def _figures(connections: Connections, run_id: str) -> Iterator[Row]:
    number, trial = -1, -1
    while True:
        with connections.one() as connection:
            page = connection.rows(schema.FIGURES_PAGE, (run_id, number, number, trial, _TRIALS))
        yield from page
        if len(page) < _TRIALS:
            return
        number, trial, *_ = page[-1]
