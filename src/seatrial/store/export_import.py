"""Runs as lines of JSON, to move them between stores and to merge the shards of one run.

The first line is a header with the version. Then come the run, its scenarios, its trials, its labels, the definitions
of its scenarios and the seeds of its worlds, one per line. The last line counts them, so that a truncated file is
detected.

A file may have been edited. Every field must have its type, every trial its scenario, and the status of each trial is
decided again from its results. An import is one transaction: a file is stored completely or not at all.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from json import loads
from typing import Any, TypeVar

from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.faults import FAULTS
from seatrial.model.run import (
    RUN_ID_RULE,
    MergedErrors,
    Run,
    RunState,
    ScenarioEntry,
    ScenarioKey,
    Trial,
    Variant,
    is_run_id,
)
from seatrial.model.struct import Struct
from seatrial.model.world_view import SEED_BASE
from seatrial.verdicts.rates import read_sequential_test
from seatrial.verdicts.trial import decide_again

from . import schema
from .codec import decode, encode, from_document, read, restore
from .database import Conflict, Connection, ConnectionPool
from .runs import (
    Label,
    check_run,
    find_whole,
    insert_run,
    is_shard,
    list_runs,
    merge_shard,
    put_label,
    put_merged,
    read_labels,
    read_merged,
    read_run,
    rewrite_run,
)
from .scenarios import insert_scenarios, read_entries
from .trials import fetch_through, insert_trials, make_rows, place_of, read_trials

FORMAT = "seatrial-runs"
VERSION = 1
_GROUP = 100
_COUNTED = {"scenario": "scenarios", "trial": "trials", "label": "labels", "merged": "merged", "content": "contents"}
"""Kinds of lines, and their keys in the last line."""
_CONTENT = re.compile(r"definition [!-~]+|[0-9a-f]{32}")
"""Names of definitions and seeds. Other contents are parts of trials, and a file contains them there."""
T = TypeVar("T")


class Imported(Struct, frozen=True, kw_only=True):
    """The result of importing one run."""

    run_id: str
    added: int
    """Trials that are new."""
    skipped: int
    """Trials that were stored already, and are equal."""
    corrected: int = 0
    """Trials whose status in the file did not follow from their results."""


def export_lines(pool: ConnectionPool, run: Run) -> Iterator[bytes]:
    """The run as lines, each with its line end."""
    yield b'{"format":%s,"version":%d}\n' % (encode(FORMAT), VERSION)
    yield _line("run", run)
    counts = Counter[str]()
    for kind, value in _exported(pool, run.id):
        counts[kind] += 1
        yield _line(kind, value)
    yield _line("end", {name: counts[kind] for kind, name in _COUNTED.items()})


def _exported(pool: ConnectionPool, run_id: str) -> Iterator[tuple[str, Any]]:
    """What a run consists of, each with the kind of its line."""
    for entry in read_entries(pool, run_id):
        yield "scenario", entry
    seeds = set[str]()
    for entry in read_entries(pool, run_id):
        for trial in read_trials(pool, run_id, entry.key):
            seeds |= _seeds_of(trial)
            yield "trial", trial
    with pool.one() as connection:
        labels, merges = read_labels(connection, run_id), read_merged(connection, run_id)
        names = {name for (name,) in connection.rows(schema.CONTENTS_OF_RUN, (run_id,)) if _CONTENT.fullmatch(name)}
    yield from (("label", label) for label in labels)
    yield from (("merged", merged) for merged in merges)
    for name in sorted(names | seeds):
        with pool.one() as connection:
            yield "content", {"name": name, "document": read(fetch_through(connection)(name))}


def _seeds_of(trial: Trial) -> set[str]:
    return set() if trial.transcript.world is None else {trial.transcript.world.seed}


def _line(kind: str, value: Any) -> bytes:
    return b'{"%s":%s}\n' % (kind.encode(), encode(value))


def import_lines(connection: Connection, lines: Iterable[bytes | str]) -> list[Imported]:
    """Store the runs of the lines inside the current transaction. Several files may follow each other."""
    connection.database.lock_contents(connection, shared=True)
    done: list[Imported] = []
    current: _RunImport | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            document = _parse(line)
            if "format" in document:
                _check_header(document, is_first=current is None)
                current = _RunImport(connection)
                continue
            kind, body = _split(document)
            if current is None or current.has_run == (kind == "run"):
                raise UsageError(f"a {kind!r} line is out of place; the file must begin with a header and then the run")
            if (finished := current.take(kind, body)) is not None:
                done.append(finished)
                current = None
        except UsageError as error:
            problem = str(error) if current is None else current.name_run(str(error))
            raise UsageError(f"line {number}: {problem}") from error
    if current is not None:
        raise UsageError("the file is cut short: the line that ends the run is missing. Export it again.")
    if not done:
        raise UsageError("the file is empty: no run to import")
    return done


def _parse(line: bytes | str) -> dict[str, Any]:
    try:
        document = loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UsageError("not a line of a Seatrial export: it is not a JSON object")
    return document


def _split(document: dict[str, Any]) -> tuple[str, Any]:
    """The kind of a line, and what it holds."""
    ((kind, body),) = document.items() if len(document) == 1 else (("", None),)
    if kind not in ("run", "end", *_COUNTED):
        raise UsageError(f"not a line of a Seatrial export: it has the keys {sorted(document)!r}")
    return kind, body


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _check_header(document: dict[str, Any], *, is_first: bool) -> None:
    if not is_first:
        raise UsageError("another file begins before the line that ends the run: one was cut short")
    if document.get("format") != FORMAT:
        raise UsageError(f"not a Seatrial export: its format is {document.get('format')!r}, not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise UsageError(
            f"the export has version {document.get('version')!r}; this Seatrial reads {VERSION}. "
            "Upgrade: pip install --upgrade seatrial"
        )


class _RunImport:
    """The import of one run: it takes the lines between the header and the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name: str | None = None
        """The id in the file."""
        self._run_id = ""
        """The id in the store: a shard becomes part of another run."""
        self._counts = Counter[str]()
        self._skipped = self._corrected = 0
        self._thresholds: dict[ScenarioKey, float] = {}
        self._variants: dict[ScenarioKey, Variant | None] = {}
        """By scenario of the file: the overall score that its trials need."""
        self._scenarios: list[ScenarioEntry] = []
        self._trials: list[Trial] = []
        self._seeds: dict[str, str] = {}
        """Seeds of worlds that the run needs, with what needs them."""

    @property
    def has_run(self) -> bool:
        """Whether the line with the run was read."""
        return self._name is not None

    def take(self, kind: str, body: Any) -> Imported | None:
        """Store what a line holds. Returns the result after the last line of the run."""
        self._counts[kind] += 1
        try:
            if kind == "end":
                return self._finish(body)
            getattr(self, f"_take_{kind}")(body)
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            why = f"{type(error).__name__}: {error}"
            raise UsageError(f"a {kind!r} line cannot be read: {why}. Export the run again.") from error
        return None

    def name_run(self, problem: str) -> str:
        """The problem, with the run's id in front where it is known."""
        return problem if self._name is None or problem.startswith("run ") else f"run {self._name}: {problem}"

    def _take_run(self, body: Any) -> None:
        run = _decode(Run, body)
        if not is_run_id(run.id):
            raise UsageError(f"run id {run.id!r}: {RUN_ID_RULE}")
        self._name = self._run_id = run.id
        check_run(run)
        connection = self._connection
        connection.database.lock_run(connection, run.id)
        stored = read_run(connection, run.id)
        whole = find_whole(list_runs(connection, name=run.name, problems=[]), run) if is_shard(run) else None
        if whole is not None:
            connection.database.lock_run(connection, whole.id)
            if stored is not None and whole.id != run.id:
                raise UsageError(
                    f"run {run.id}: was played into this store, so it would be part of run {whole.id} and a run of "
                    "its own beside it. Import all parts into another store: --store FILE"
                )
            self._run_id = whole.id
            rewrite_run(connection, merge_shard(whole, run))
        elif stored is not None:
            rewrite_run(connection, merge_runs(stored, run))
        else:
            # A single shard is stored as a run that lacks the others: a missing file must not look like a pass.
            insert_run(connection, merge_shard(run, run) if is_shard(run) else run)

    def _take_scenario(self, body: Any) -> None:
        entry = _decode(ScenarioEntry, body)
        if entry.trials < 0:
            raise UsageError(f"scenario {entry.key.label!r}: trials must be 0 or more, got {entry.trials}")
        if entry.sequential is not None:
            read_sequential_test(entry.sequential)
        _check_variant(entry)
        self._thresholds[entry.key] = entry.gates.pass_threshold
        self._variants[entry.key] = entry.variant
        self._scenarios.append(entry)
        if len(self._scenarios) >= _GROUP:
            self._write_scenarios()

    def _take_trial(self, body: Any) -> None:
        given = _decode(Trial, _complete(body))
        if given.index < 0:
            raise UsageError(f"a trial of {given.key.label!r}: its index must be 0 or more, got {given.index}")
        if given.key not in self._thresholds:
            raise UsageError(f"{given.id} of {given.key.label!r}: its scenario is not among those of the run")
        self._seeds |= dict.fromkeys(_seeds_of(given), f"{given.id} of {given.key.label!r}")
        trial = self._decide(given)
        self._corrected += trial.status is not given.status
        row = self._connection.row(schema.BODY, place_of(self._run_id, trial.key, trial.index))
        if row is None:
            self._trials.append(trial)
            if len(self._trials) >= _GROUP:
                self._write_trials()
            return
        stored = self._decide(decode(Trial, row[0], fetch=fetch_through(self._connection)))
        if encode(stored) != encode(trial):
            raise UsageError(
                f"run {self._run_id}: {trial.id} of {trial.key.label!r} is stored already, and differs. "
                "Shards of one run must not play the same trials."
            )
        self._skipped += 1

    def _decide(self, trial: Trial) -> Trial:
        threshold, variant = self._thresholds[trial.key], self._variants[trial.key]
        return decide_again(trial, pass_threshold=threshold, variant=variant)

    def _take_label(self, body: Any) -> None:
        self._write_trials()
        put_label(self._connection, replace(_decode(Label, body), run_id=self._run_id))

    def _take_merged(self, body: Any) -> None:
        merged = _decode(MergedErrors, body)
        if merged.key not in self._thresholds:
            raise UsageError(f"errors of {merged.key.label!r}: its scenario is not among those of the run")
        self._write_scenarios()
        put_merged(self._connection, self._run_id, [merged])

    def _take_content(self, body: Any) -> None:
        content = restore(body)
        name, document = content["name"], content["document"]
        if not _CONTENT.fullmatch(name) or not isinstance(document, dict):
            raise UsageError(f"the content {name!r} is neither the definition of a scenario nor the seed of a world")
        if SEED_BASE in document:
            self._seeds[str(document[SEED_BASE])] = f"the seed {name}"
        self._connection.insert(schema.ADD_CONTENT, [(name, encode(document))])
        self._connection.insert(schema.ADD_CONTENT_USE, [(self._run_id, name)])

    def _check_seeds(self) -> None:
        for name, needed_by in self._seeds.items():
            if not _CONTENT.fullmatch(name) or not self._connection.row(schema.CONTENT, (name,)):
                raise UsageError(
                    f"{needed_by}: the seed {name!r} of its world is not in the file. "
                    "Export the run again, from the store in which it was played."
                )

    def _finish(self, body: Any) -> Imported:
        self._write_trials()
        counts = {name: self._counts[kind] for kind, name in _COUNTED.items()}
        if {"contents": 0, **body} != counts:  # older exports have no contents
            raise UsageError(f"lines are missing: the export had {body!r}, here are {counts!r}")
        self._check_seeds()
        added = counts["trials"] - self._skipped
        return Imported(run_id=self._run_id, added=added, skipped=self._skipped, corrected=self._corrected)

    def _write_scenarios(self) -> None:
        if self._scenarios:
            insert_scenarios(self._connection, self._run_id, self._scenarios)
        self._scenarios = []

    def _write_trials(self) -> None:
        self._write_scenarios()
        places = {(trial.key, trial.index) for trial in self._trials}
        if len(places) < len(self._trials):
            raise UsageError("a trial is given twice")
        try:
            insert_trials(self._connection, self._run_id, [make_rows(trial) for trial in self._trials])
        except Conflict as conflict:
            raise UsageError("a trial's scenario is not among those of the run") from conflict
        self._trials = []


def merge_runs(stored: Run, other: Run) -> Run:
    """The stored run, merged with a file of the same run. Raises UsageError when they differ."""
    for name in ("name", "seed", "gates", "git_commit", "parent", "replayed"):
        if getattr(stored, name) != getattr(other, name):
            raise UsageError(
                f"run {stored.id}: cannot be merged: its {name} is {getattr(stored, name)!r} in the store and "
                f"{getattr(other, name)!r} in the file"
            )
    ends = (stored.finished_at, other.finished_at)
    states = (RunState.RUNNING, RunState.INTERRUPTED, RunState.FINISHED)
    return replace(
        stored,
        state=next(state for state in states if state in (stored.state, other.state)),
        started_at=min(stored.started_at, other.started_at),
        finished_at=None if None in ends else max(filter(None, ends)),
    )


def _check_variant(entry: ScenarioEntry) -> None:
    """Raise UsageError for a variant of a sweep over faults without its tool or fault."""
    variant = entry.variant
    if variant is None or variant.kind != "fault":
        return
    tool, fault = variant.settings.get("tool"), variant.settings.get("fault")
    if not isinstance(tool, str) or fault not in FAULTS:
        raise UsageError(f"scenario {entry.key.label!r}: its variant lacks the tool or the fault")


def _decode(kind: type[T], document: Any) -> T:
    try:
        return from_document(kind, document)
    except StoreError as error:
        raise UsageError(str(error)) from error


def _complete(body: Any) -> Any:
    """The document of a trial, with required fields that older exports left out where they were null."""
    document = restore(body)
    turns = document["transcript"]["turns"]
    results = [dict(result) for result in document.get("results", ())]
    for result in results:
        if result.get("reasoning", "") is None:  # from a custom evaluator
            del result["reasoning"]
    complete = [{"reply": None, "tool_calls": None, **turn} for turn in turns]
    return {**document, "results": results, "transcript": {**document["transcript"], "turns": complete}}
