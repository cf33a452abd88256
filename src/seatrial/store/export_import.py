"""Runs as lines of JSON, to move them between stores and to merge the shards of one run.

The first line is a header with the version; then the run, its scenarios, its trials and its labels, one a line; the
last line says how many there were, so that a file that was cut short is noticed.

A file may come from anywhere, and may have been changed. Every field must have its type, every trial its scenario, and
what a trial came to is decided again from its results. All of it happens in one transaction, so a file is stored whole
or not at all.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from json import loads
from typing import Any, TypeVar

from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.run import RUN_ID_RULE, MergedErrors, Run, RunState, ScenarioEntry, ScenarioKey, Trial, is_run_id
from seatrial.model.struct import Struct
from seatrial.verdicts.rates import read_sequential_test
from seatrial.verdicts.trial import decide_again

from . import schema
from .codec import encode, from_document, restore, write
from .database import Conflict, Connection, Connections
from .runs import (
    Label,
    check_run,
    find_whole,
    insert_run,
    is_shard,
    list_runs,
    merge_shard,
    put_label,
    read_labels,
    read_run,
    rewrite_run,
)
from .scenarios import insert_scenarios, read_entries
from .trials import (
    Numbers,
    fetch_through,
    insert_trials,
    make_rows,
    place_of,
    put_merged,
    read_merged,
    read_trials,
    unpack,
)

FORMAT = "seatrial-runs"
VERSION = 1
_GROUP = 100
T = TypeVar("T")


class Imported(Struct, frozen=True, kw_only=True):
    """What came of one run in an import."""

    run_id: str
    added: int
    """Trials that are new."""
    skipped: int
    """Trials that were stored already, and are the same."""
    corrected: int = 0
    """Trials whose status in the file was not what their results give."""


def export_lines(connections: Connections, run: Run) -> Iterator[bytes]:
    """The run as lines, each with its line end."""
    yield _line("format", write(FORMAT).encode(), b',"version":%d' % VERSION)
    yield _line("run", encode(run))
    scenarios = trials = labels = 0
    for entry in read_entries(connections, run.id):
        scenarios += 1
        yield _line("scenario", encode(entry))
    for entry in read_entries(connections, run.id):
        for trial in read_trials(connections, run.id, entry.key):
            trials += 1
            yield _line("trial", encode(trial))
    with connections.one() as connection:
        given = read_labels(connection, run.id, key=None, metric=None)
        merges = read_merged(connection, run.id)
    for label in given:
        labels += 1
        yield _line("label", encode(label))
    for merged in merges:
        yield _line("merged", encode(merged))
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
            raise UsageError(f"line {number}: {reading.about(str(wrong))}") from wrong
    return reading.finish()


class _Import:
    """An import under way: what the current run has had so far."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._run_id: str | None = None
        self._named: str | None = None
        """The id that the run has in the file; a shard is stored as part of another."""
        self._numbers = Numbers("")
        self._begun = False
        self._counts = {"scenarios": 0, "trials": 0, "labels": 0, "merged": 0}
        self._skipped = self._corrected = 0
        self._thresholds: dict[ScenarioKey, float] = {}
        """By scenario of the file: the overall score that its trials need."""
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

    def about(self, problem: str) -> str:
        """The problem with the run that it is of, where that is known."""
        return problem if self._named is None or problem.startswith("run ") else f"run {self._named}: {problem}"

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
        if not is_run_id(run.id):
            raise UsageError(f"run id {run.id!r}: {RUN_ID_RULE}")
        self._named = run.id
        check_run(run)
        self._connection.lock_run(run.id)
        stored = read_run(self._connection, run.id)
        others = list_runs(self._connection, limit=None, name=run.name, problems=[]) if is_shard(run) else []
        whole = find_whole(others, run)
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
        entry = _decode(ScenarioEntry, body)
        if entry.trials < 0:
            raise UsageError(f"scenario {entry.key.label!r}: trials must be 0 or more, got {entry.trials}")
        if entry.sequential is not None:
            read_sequential_test(entry.sequential)
        self._thresholds[entry.key] = entry.gates.pass_threshold
        self._scenarios.append(entry)
        if len(self._scenarios) >= _GROUP:
            self._write_scenarios()

    def _take_trial(self, body: Any) -> None:
        self._counts["trials"] += 1
        told = _decode(Trial, _complete(body))
        if told.index < 0:
            raise UsageError(f"a trial of {told.key.label!r}: its index must be 0 or more, got {told.index}")
        if told.key not in self._thresholds:
            raise UsageError(f"{told.id} of {told.key.label!r}: its scenario is not among those of the run")
        trial = self._decide(told)
        self._corrected += trial.status is not told.status
        row = self._connection.row(schema.BODY, place_of(str(self._run_id), trial.key, trial.index))
        if row is None:
            self._trials.append(trial)
            if len(self._trials) >= _GROUP:
                self._write_trials()
            return
        stored = self._decide(unpack(row[0], fetch_through(self._connection)))
        if encode(stored) != encode(trial):
            raise UsageError(
                f"run {self._run_id}: {trial.id} of {trial.key.label!r} is stored already, and differs. "
                "Shards of one run must not play the same trials."
            )
        self._skipped += 1

    def _decide(self, trial: Trial) -> Trial:
        return decide_again(trial, pass_threshold=self._thresholds[trial.key])

    def _take_label(self, body: Any) -> None:
        self._counts["labels"] += 1
        self._write_trials()
        put_label(self._connection, replace(_decode(Label, body), run_id=str(self._run_id)))

    def _take_merged(self, body: Any) -> None:
        self._counts["merged"] += 1
        merged = _decode(MergedErrors, body)
        if merged.key not in self._thresholds:
            raise UsageError(f"errors of {merged.key.label!r}: its scenario is not among those of the run")
        self._write_scenarios()
        put_merged(self._connection, str(self._run_id), [merged])

    def _take_end(self, body: Any) -> None:
        self._write_trials()
        if body != self._counts:
            raise UsageError(f"lines are missing: the export had {body!r}, here are {self._counts!r}")
        added = self._counts["trials"] - self._skipped
        done = Imported(run_id=str(self._run_id), added=added, skipped=self._skipped, corrected=self._corrected)
        self._done.append(done)
        self._run_id = self._named = None
        self._begun, self._skipped, self._corrected = False, 0, 0
        self._thresholds = {}
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
        return from_document(kind, document)
    except StoreError as broken:
        raise UsageError(str(broken)) from broken


def _complete(body: Any) -> Any:
    """The document of a trial with what exports leave out where it is null, though the type asks for it."""
    document = restore(body)
    turns = document["transcript"]["turns"]
    results = [dict(result) for result in document.get("results", ())]
    for result in results:
        if result.get("reasoning", "") is None:  # an evaluator of the user's own may give none
            del result["reasoning"]
    complete = [{"reply": None, "tool_calls": None, **turn} for turn in turns]
    return {**document, "results": results, "transcript": {**document["transcript"], "turns": complete}}


def _line(kind: str, body: bytes, more: bytes = b"") -> bytes:
    return b'{"%s":%s%s}\n' % (kind.encode(), body, more)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _parse(line: bytes | str) -> dict[str, Any]:
    try:
        document = loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as broken:
        raise UsageError(f"not JSON: {broken}") from broken
    if not isinstance(document, dict):
        raise UsageError("not a line of a Seatrial export: it is not a JSON object")
    return document
