"""The store: runs with their scenarios, trials, baselines and labels."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.json_patch import merge_patch
from seatrial.model.run import HumanRate, MergedErrors, Run, RunState, ScenarioEntry, ScenarioKey, Trial, TrialSummary
from seatrial.model.world_view import SEED_BASE, SEED_MERGE

from . import runs, schema
from .codec import encode, read, write
from .database import ConnectionPool, Database, PostgresDatabase, SqliteDatabase
from .export_import import Imported, export_lines, import_lines
from .migrate import migrate
from .runs import Label, RunRow
from .scenarios import Played, add_scenarios, read_entries, read_finished, read_played
from .trials import SearchResult, fetch_through, read_summaries, read_trial, read_trials, search_trials
from .writer import TrialWriter


class Store:
    """Runs with their scenarios, trials, baselines and labels. Any thread may use it; several processes may share one.

    Iterators read page by page: they keep no connection open, and little in memory.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connections = ConnectionPool(database)
        with self._connections.one() as connection:
            migrate(database, connection)

    @property
    def name(self) -> str:
        """Where the store is, as shown to people."""
        return self._database.name

    def close(self) -> None:
        self._connections.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start_run(self, run: Run) -> None:
        """Store a new run. Raises UsageError when its id is taken."""
        with self._connections.transaction() as connection:
            runs.insert_run(connection, run)

    def claim_run(self, run_id: str) -> Callable[[], None]:
        """Reserve the run for this process until the returned function is called or the process ends.

        Raises UsageError while another process plays the run.
        """
        release = self._database.claim_run(run_id)
        if release is None:
            raise UsageError(
                f"run {run_id}: another process is playing it. Wait for its end, or stop it; what is finished is kept."
            )
        return release

    def resume_run(self, run_id: str) -> None:
        """Mark a stored run as running again."""
        runs.change_state(self._connections, run_id, RunState.RUNNING, None)

    def note_problem(self, run_id: str, problem: str) -> None:
        """Store why a run has not passed, whatever its trials say."""
        runs.note_problem(self._connections, run_id, problem)

    def keep_human_rate(self, run_id: str, rate: HumanRate) -> None:
        """Store the pass rate that humans would give, by the labels of the run."""
        runs.keep_human_rate(self._connections, run_id, rate)

    def finish_run(self, run_id: str, state: RunState, finished_at: datetime) -> None:
        runs.change_state(self._connections, run_id, state, finished_at)
        # So that a copy of the file is complete without the log beside it.
        with suppress(StoreError, UsageError), self._connections.one() as connection:
            self._database.checkpoint(connection)

    def add_scenarios(self, run_id: str, entries: Iterable[ScenarioEntry]) -> None:
        """Store scenarios of the run. Those that are stored already are skipped; one that differs is an error."""
        add_scenarios(self._connections, run_id, entries)

    def add_contents(self, run_id: str, contents: Mapping[str, Any]) -> None:
        """Store seeds of worlds and definitions of scenarios by their names, each once for all runs."""
        rows = [(name, encode(document)) for name, document in sorted(contents.items())]
        with self._connections.transaction() as connection:
            connection.database.lock_contents(connection, shared=True)  # before any row, as `delete_runs` does
            connection.insert(schema.ADD_CONTENT, rows)
            connection.insert(schema.ADD_CONTENT_USE, [(run_id, name) for name, _ in rows])

    def content(self, name: str) -> Any:
        """The document with this name; None if it is not stored, as in runs of earlier versions."""
        with self._connections.one() as connection:
            row = connection.row(schema.CONTENT, (name,))
        return None if row is None else read(bytes(row[0]))

    def seed(self, name: str) -> Any:
        """The seed with this hash. Raises StoreError when it is not stored."""
        with self._connections.one() as connection:
            found = read(fetch_through(connection)(name))
        if SEED_BASE in found:
            return merge_patch(self.seed(found[SEED_BASE]), found[SEED_MERGE])
        return found

    def writer(
        self,
        run_id: str,
        *,
        on_committed: Callable[[list[Trial]], None],
        on_failed: Callable[[BaseException], None] | None = None,
    ) -> TrialWriter:
        """A writer for the run's trials. A process should have one per run, and close it."""
        return TrialWriter(self._database, run_id, on_committed, on_failed)

    def run(self, ref: str, *, suite: str | None = None) -> Run:
        """The run with that id, name (the newest), or beginning of an id; or `latest`, or `baseline` (of the suite).

        Raises UsageError when there is none, or when several ids begin so.
        """
        with self._connections.one() as connection:
            return runs.find_run(connection, ref, where=self.name, suite=suite)

    def runs(
        self, limit: int | None = None, *, name: str | None = None, problems: list[tuple[str, str]] | None = None
    ) -> list[Run]:
        """Newest first. Runs that cannot be read are left out; `problems` gets their ids and what is wrong."""
        left_out: list[tuple[str, str]] = [] if problems is None else problems
        with self._connections.one() as connection:
            return runs.list_runs(connection, limit=limit, name=name, problems=left_out)

    def run_rows(self, limit: int | None = None, *, name: str | None = None) -> list[RunRow]:
        """Runs with the numbers of their trials, newest first."""
        with self._connections.one() as connection:
            found = runs.list_runs(connection, limit=limit, name=name, problems=[])
            return runs.count_trials(connection, found)

    def rows_of(self, found: Sequence[Run]) -> list[RunRow]:
        """The runs with the numbers of their trials."""
        with self._connections.one() as connection:
            return runs.count_trials(connection, found)

    def run_row(self, run_id: str) -> RunRow | None:
        """The run with that id and the numbers of its trials; None when there is none."""
        with self._connections.one() as connection:
            run = runs.read_run(connection, run_id)
            return None if run is None else runs.count_trials(connection, [run])[0]

    def history(self, key: ScenarioKey, limit: int) -> list[RunRow]:
        """The newest runs that have the scenario, each with the numbers of the scenario's trials; newest first."""
        with self._connections.one() as connection:
            newest = runs.list_runs(connection, limit=limit, name=None, problems=[])
            return [row for row in runs.count_trials(connection, newest, key=key) if row.trials]

    def entries(self, run_id: str) -> Iterator[ScenarioEntry]:
        """The scenarios of the run, in the order of reports."""
        return read_entries(self._connections, run_id)

    def played(self, run_id: str) -> Iterator[Played]:
        """The scenarios with their trials, in the order of reports."""
        return read_played(self._connections, run_id)

    def summaries(self, run_id: str, key: ScenarioKey | None = None) -> Iterator[TrialSummary]:
        """The summaries of the trials, by scenario and index."""
        return read_summaries(self._connections, run_id, key)

    def trials(self, run_id: str, key: ScenarioKey) -> Iterator[Trial]:
        """The scenario's trials, by index."""
        return read_trials(self._connections, run_id, key)

    def trial(self, run_id: str, key: ScenarioKey, index: int) -> Trial:
        """One trial. Raises UsageError when it is not stored."""
        return read_trial(self._connections, run_id, key, index)

    def last_written(self, run_id: str) -> datetime | None:
        """When the trial that began last ended; None when there is none."""
        with self._connections.one() as connection:
            row = connection.row(schema.LAST_TRIAL, (run_id,))
        return None if row is None else datetime.fromisoformat(row[0]) + timedelta(milliseconds=row[1])

    def search(self, run_id: str, text: str, *, key: ScenarioKey | None = None) -> SearchResult:
        """The trials with the text in a user message, a reply or a tool call; in the first 32 MB of a large run."""
        return search_trials(self._connections, run_id, text, key=key)

    def finished(self, run_id: str) -> set[tuple[ScenarioKey, int]]:
        """Scenario and index of each stored trial, errored ones included."""
        return read_finished(self._connections, run_id)

    def set_baseline(self, run_id: str, *, suite: str | None = None) -> None:
        """Make this run the baseline, of one suite or of all, and accept it for the history."""
        with self._connections.transaction() as connection:
            connection.database.lock_run(connection, run_id)
            run = runs.read_run(connection, run_id)
            if run is None:
                raise UsageError(f"{self.name}: no run has the id {run_id!r}. See: seatrial list runs")
            if run.sweep:
                raise UsageError(
                    f"run {run.id}: is a sweep of changed scenarios, so it cannot be a baseline. Choose another run."
                )
            if not run.accepted:
                runs.rewrite_run(connection, replace(run, accepted=True))
            connection.execute(schema.SET_BASELINE, (write(suite), run_id))

    def baseline(self, suite: str | None = None) -> Run | None:
        """The suite's own baseline, else the general one; None when neither is set."""
        with self._connections.one() as connection:
            return runs.read_baseline(connection, suite)

    def baselines(self) -> list[tuple[str | None, Run]]:
        """Every baseline with its suite; None for the general one."""
        with self._connections.one() as connection:
            return runs.list_baselines(connection)

    def clear_baseline(self, suite: str | None = None) -> bool:
        """Whether there was a baseline. The run itself stays."""
        with self._connections.transaction() as connection:
            return bool(connection.execute(schema.CLEAR_BASELINE, (write(suite),)).rowcount)

    def delete_runs(self, ids: Iterable[str], *, force: bool = False) -> int:
        """The number of deleted runs. A baseline is deleted only with `force`."""
        with self._connections.transaction() as connection:
            return runs.delete_runs(connection, ids, where=self.name, force=force)

    def label(self, label: Label) -> None:
        """Store a person's opinion of a trial. It replaces their earlier one of the same metric."""
        with self._connections.transaction() as connection:
            runs.put_label(connection, label)

    def labels(self, run_id: str, *, key: ScenarioKey | None = None, metric: str | None = None) -> list[Label]:
        with self._connections.one() as connection:
            return runs.read_labels(connection, run_id, key=key, metric=metric)

    def put_merged(self, run_id: str, merges: Iterable[MergedErrors]) -> None:
        """Store the errors that a model merged. They replace the scenario's earlier ones."""
        with self._connections.transaction() as connection:
            runs.put_merged(connection, run_id, merges)

    def merged(self, run_id: str) -> list[MergedErrors]:
        """The errors that a model merged, for the scenarios that have any."""
        with self._connections.one() as connection:
            return runs.read_merged(connection, run_id)

    def export_run(self, run_id: str) -> Iterator[bytes]:
        """The run as lines of JSON, for `import_runs` of another store."""
        return export_lines(self._connections, self.run(run_id))

    def import_runs(self, lines: Iterable[bytes | str]) -> list[Imported]:
        """Store the runs of exported lines, all or nothing. Shards of one run are merged.

        Raises UsageError when the lines are not an export, are cut short, or contradict the store. Other writers wait
        until the import ends, so do not pass lines that arrive slowly.
        """
        with self._connections.transaction() as connection:
            return import_lines(connection, lines)


def open_store(url: str | Path) -> Store:
    """The store at a path, `sqlite:///path` or `postgresql://…`. A new file is made when there is none.

    Raises UsageError when it cannot be opened, MissingExtra without the driver for PostgreSQL.
    """
    text = str(url)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Store(_file(text, text))
    if scheme in ("postgresql", "postgres"):
        return Store(PostgresDatabase(text))
    if scheme == "sqlite" and rest.startswith("/"):
        return Store(_file(rest[1:], text))
    raise UsageError(f"store {text!r}: unknown kind. Use a path, sqlite:///path or postgresql://user@host/database.")


def _file(path: str, given: str) -> SqliteDatabase:
    if path in ("", ":memory:"):
        raise UsageError(f"store {given!r}: must name a file, since several connections share it.")
    return SqliteDatabase(Path(path).expanduser())
