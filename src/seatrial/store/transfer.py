"""Runs as lines of JSON, to move them between stores and to merge the shards of one run.

The first line is a header with the version; then the run, its scenarios, its trials and its labels, one a line; the
last line says how many there were, so that a file that was cut short is noticed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from json import JSONDecodeError, loads
from typing import Any, TypeVar

from seatrial.errors import StoreError, UsageError
from seatrial.vocabulary.run import MergedErrors, Run, RunState, ScenarioEntry, Status, Trial
from seatrial.vocabulary.value import Value

from . import schema
from .codec import decode_document, decode_strictly, encode
from .connection import Conflict, Connection, Connections
from .labels import Label, put_label, read_labels
from .marks import write
from .merged import put_merged, read_merged
from .numbers import Numbers
from .runs import insert_run, list_runs, read_run, rewrite_run
from .scenarios import insert_scenarios, read_entries
from .shards import find_whole, is_shard, merge_shard
from .trials import fetch_through, insert_trials, make_rows, place_of, read_trials, unpack

FORMAT = "seatrial-runs"
VERSION = 1
_GROUP = 100
T = TypeVar("T")


class Imported(Value):
    """What came of one run in an import."""

    run_id: str
    added: int
    """Trials that are new."""
    skipped: int
    """Trials that were stored already, and are the same."""


def export_lines(connections: Connections, run: Run) -> Iterator[bytes]:
    """The run as lines, each with its line end."""
    yield _line("format", write(FORMAT).encode(), b',"version":%d' % VERSION)
    yield _line("run", encode(Run, run))
    scenarios = trials = labels = 0
    for entry in read_entries(connections, run.id):
        scenarios += 1
        yield _line("scenario", encode(ScenarioEntry, entry))
    for entry in read_entries(connections, run.id):
        for trial in read_trials(connections, run.id, entry.key):
            trials += 1
            yield _line("trial", encode(Trial, trial))
    with connections.one() as connection:
        given = read_labels(connection, run.id, key=None, metric=None)
        merges = read_merged(connection, run.id)
    for label in given:
        labels += 1
        yield _line("label", encode(Label, label))
    for merged in merges:
        yield _line("merged", encode(MergedErrors, merged))
    counts = {"scenarios": scenarios, "trials": trials, "labels": labels, "merged": len(merges)}
    yield _line("end", write(counts).encode())


def import_lines(connection: Connection, lines: Iterable[bytes | str]) -> list[Imported]:
    """Store what the lines say, inside the transaction under way. Several files may follow each other."""
    connection.share_contents()
    reading = _Import(connection)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            reading.take(_parse(line))
        except UsageError as wrong:
            raise UsageError(f"line {number}: {wrong}") from wrong
    return reading.finish()


class _Import:
    """An import under way: what the current run has had so far."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._run_id: str | None = None
        self._numbers = Numbers("")
        self._begun = False
        self._counts = {"scenarios": 0, "trials": 0, "labels": 0, "merged": 0}
        self._skipped = 0
        self._scenarios: list[ScenarioEntry] = []
        self._trials: list[Trial] = []
        self._done: list[Imported] = []
        self._takers: dict[str, Callable[[Any], None]] = {
            "run": self._take_run,
            "scenario": self._take_scenario,
            "trial": self._take_trial,
            "label": self._take_label,
            "merged": self._take_merged,
            "end": self._take_end,
        }

    def take(self, document: dict[str, Any]) -> None:
        if "format" in document:
            self._take_header(document)
            return
        ((kind, body),) = document.items() if len(document) == 1 else (("", None),)
        taker = self._takers.get(kind)
        if taker is None:
            raise UsageError(f"not a line of a Seatrial export: it has the keys {sorted(document)!r}")
        if not self._begun or (self._run_id is None) != (kind == "run"):
            raise UsageError(f"a {kind!r} line is out of place; the file must begin with a header and then the run")
        try:
            taker(body)
        except (TypeError, ValueError, AttributeError, LookupError) as broken:
            why = f"{type(broken).__name__}: {broken}"
            raise UsageError(f"a {kind!r} line cannot be read: {why}. Export the run again.") from broken

    def finish(self) -> list[Imported]:
        if self._begun:
            raise UsageError("the file is cut short: the line that ends the run is missing. Export it again.")
        if not self._done:
            raise UsageError("the file is empty: no run to import")
        return self._done

    def _take_header(self, document: dict[str, Any]) -> None:
        if self._begun:
            raise UsageError("another file begins before the line that ends the run: one was cut short")
        if document.get("format") != FORMAT:
            raise UsageError(f"not a Seatrial export: its format is {document.get('format')!r}, not {FORMAT!r}")
        if document.get("version") != VERSION:
            raise UsageError(
                f"the export has version {document.get('version')!r}; this Seatrial reads {VERSION}. "
                "Upgrade: pip install --upgrade seatrial"
            )
        self._begun = True

    def _take_run(self, body: Any) -> None:
        run = _decode(Run, body)
        self._connection.lock_run(run.id)
        stored = read_run(self._connection, run.id)
        whole = find_whole(list_runs(self._connection, limit=None, name=run.name), run) if is_shard(run) else None
        if whole is not None:
            self._connection.lock_run(whole.id)
            if stored is not None and whole.id != run.id:
                raise UsageError(
                    f"run {run.id}: was played into this store, so it would be part of run {whole.id} and a run of "
                    "its own beside it. Import all parts into another store: --store FILE"
                )
            rewrite_run(self._connection, merge_shard(whole, run))
        elif stored is not None:
            rewrite_run(self._connection, merge_runs(stored, run))
        else:
            # A shard that came alone is a part that lacks the others, else the absence of a file would be a pass.
            insert_run(self._connection, merge_shard(run, run) if is_shard(run) else run)
        self._run_id = whole.id if whole else run.id
        self._numbers = Numbers(self._run_id)

    def _take_scenario(self, body: Any) -> None:
        self._counts["scenarios"] += 1
        self._scenarios.append(_decode(ScenarioEntry, body))
        if len(self._scenarios) >= _GROUP:
            self._write_scenarios()

    def _take_trial(self, body: Any) -> None:
        self._counts["trials"] += 1
        trial = _decode(Trial, body)
        if type(trial.index) is not int or not isinstance(trial.status, Status) or not trial.started_at:
            raise UsageError("a 'trial' line needs an index, a status and when it began. Export the run again.")
        row = self._connection.row(schema.BODY, place_of(str(self._run_id), trial.key, trial.index))
        if row is None:
            self._trials.append(trial)
            if len(self._trials) >= _GROUP:
                self._write_trials()
            return
        stored = unpack(row[0], fetch_through(self._connection))
        if encode(Trial, stored) != encode(Trial, trial):
            raise UsageError(
                f"run {self._run_id}: {trial.id} of {trial.key.label!r} is stored already, and differs. "
                "Shards of one run must not play the same trials."
            )
        self._skipped += 1

    def _take_label(self, body: Any) -> None:
        self._counts["labels"] += 1
        self._write_trials()
        put_label(self._connection, replace(_decode(Label, body), run_id=str(self._run_id)))

    def _take_merged(self, body: Any) -> None:
        self._counts["merged"] += 1
        self._write_scenarios()
        put_merged(self._connection, str(self._run_id), [_decode(MergedErrors, body)])

    def _take_end(self, body: Any) -> None:
        self._write_trials()
        if body != self._counts:
            raise UsageError(f"lines are missing: the export had {body!r}, here are {self._counts!r}")
        added = self._counts["trials"] - self._skipped
        self._done.append(Imported(run_id=str(self._run_id), added=added, skipped=self._skipped))
        self._run_id, self._begun, self._skipped = None, False, 0
        self._counts = dict.fromkeys(self._counts, 0)

    def _write_scenarios(self) -> None:
        if self._scenarios:
            insert_scenarios(self._connection, self._numbers, self._scenarios)
        self._scenarios = []

    def _write_trials(self) -> None:
        self._write_scenarios()
        places = {(trial.key, trial.index) for trial in self._trials}
        if len(places) < len(self._trials):
            raise UsageError("a trial is given twice")
        try:
            insert_trials(self._connection, self._numbers, [make_rows(trial) for trial in self._trials])
        except Conflict as conflict:
            raise UsageError("a trial's scenario is not among those of the run") from conflict
        self._trials = []


def merge_runs(stored: Run, other: Run) -> Run:
    """One run of two shards. Raises UsageError where they cannot be of one run."""
    for name in ("name", "seed", "gates", "git_commit", "parent", "replayed"):
        if getattr(stored, name) != getattr(other, name):
            raise UsageError(
                f"run {stored.id}: cannot be merged: its {name} is {getattr(stored, name)!r} in the store and "
                f"{getattr(other, name)!r} in the file"
            )
    return replace(
        stored,
        state=_merge_states(stored.state, other.state),
        started_at=min(stored.started_at, other.started_at),
        finished_at=_later(stored.finished_at, other.finished_at),
    )


def _merge_states(one: RunState, other: RunState) -> RunState:
    """Finished only when both are."""
    for state in (RunState.RUNNING, RunState.INTERRUPTED):
        if state in (one, other):
            return state
    return RunState.FINISHED


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one, other) if one and other else None


def _decode(kind: type[T], document: Any) -> T:
    try:
        return decode_document(kind, document) if kind is Trial else decode_strictly(kind, document)
    except StoreError as broken:
        raise UsageError(str(broken)) from broken


def _line(kind: str, body: bytes, more: bytes = b"") -> bytes:
    return b'{"%s":%s%s}\n' % (kind.encode(), body, more)


def _parse(line: bytes | str) -> dict[str, Any]:
    try:
        document = loads(line)
    except (JSONDecodeError, UnicodeDecodeError) as broken:
        raise UsageError(f"not JSON: {broken}") from broken
    if not isinstance(document, dict):
        raise UsageError("not a line of a Seatrial export: it is not a JSON object")
    return document
