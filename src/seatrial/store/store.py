"""The store as the rest of the house sees it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING

from seatrial.errors import StoreError, UsageError
from seatrial.model.run import MergedErrors, Run, RunState, ScenarioEntry, ScenarioKey, Trial, TrialSummary

from . import runs, schema
from .codec import write
from .database import Connections, Database, SqliteDatabase
from .migrate import migrate
from .runs import RunRow
from .scenarios import add_scenarios, read_entries, read_finished
from .trials import Keys, put_merged, read_merged, read_summaries, read_trial, read_trials
from .writer import TrialWriter

if TYPE_CHECKING:
    from .export_import import Imported
    from .runs import Label
    from .scenarios import Played
    from .trials import Said


class Store:
    """Runs with their scenarios, trials, baselines and labels. Any thread may use it; several processes may share one.

    Iterators read page by page, so they hold nothing open and little in memory.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connections = Connections(database)
        self._keys = Keys()
        self._tidying: Thread | None = None
        with self._connections.one() as connection:
            migrate(database, connection)

    @property
    def name(self) -> str:
        """Where the store is, for people."""
        return self._database.name

    def close(self) -> None:
        self._finish_tidying()
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
        """Say that this process plays the run, until the given function is called or the process ends, however it ends.

        Raises UsageError while another process plays it.
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
        """Keep why a run has not passed whatever its trials say."""
        runs.note_problem(self._connections, run_id, problem)

    def finish_run(self, run_id: str, state: RunState, finished_at: datetime) -> None:
        runs.change_state(self._connections, run_id, state, finished_at)
        self._finish_tidying()
        # Whoever waits for the verdict need not wait for this; but the process does before it ends.
        self._tidying = Thread(target=self._tidy, name="seatrial-store-tidy", daemon=False)
        self._tidying.start()

    def _tidy(self) -> None:
        # What stays where it was written first is as safe there, and is moved by whoever writes next.
        with suppress(StoreError, UsageError), self._connections.one() as connection:
            connection.tidy()

    def _finish_tidying(self) -> None:
        tidying, self._tidying = self._tidying, None
        if tidying is not None:
            tidying.join()

    def add_scenarios(self, run_id: str, entries: Iterable[ScenarioEntry]) -> None:
        """Store what the run plans. Entries that are stored already are skipped; one that differs is an error."""
        add_scenarios(self._connections, run_id, entries)

    def writer(
        self,
        run_id: str,
        *,
        on_committed: Callable[[list[Trial]], None],
        on_failed: Callable[[BaseException], None] | None = None,
    ) -> TrialWriter:
        """The one that saves the run's trials. A process should have one per run, and close it."""
        return TrialWriter(self._database, run_id, on_committed, on_failed)

    def run(self, ref: str, *, suite: str | None = None) -> Run:
        """The run with that id, name (the newest), or beginning of an id; or `latest`, or `baseline` (of the suite).

        Raises UsageError when there is none, or when it is not clear which one is meant.
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
        """Those runs with the numbers of their trials."""
        with self._connections.one() as connection:
            return runs.count_trials(connection, found)

    def run_row(self, run_id: str) -> RunRow | None:
        """The run of that id with the numbers of its trials; None when there is none."""
        with self._connections.one() as connection:
            run = runs.read_run(connection, run_id)
            return None if run is None else runs.count_trials(connection, [run])[0]

    def history(self, key: ScenarioKey, limit: int) -> list[RunRow]:
        """Those of the newest runs that have the scenario, each with the numbers of its trials alone; newest first."""
        with self._connections.one() as connection:
            newest = runs.list_runs(connection, limit=limit, name=None, problems=[])
            return [row for row in runs.count_trials(connection, newest, key=key) if row.trials]

    def entries(self, run_id: str) -> Iterator[ScenarioEntry]:
        """What the run planned, in the order of its selection."""
        return read_entries(self._connections, run_id, known=self._keys)

    def played(self, run_id: str) -> "Iterator[Played]":
        """The run's scenarios with their trials, in the order of its selection."""
        from .scenarios import read_played

        return read_played(self._connections, run_id)

    def summaries(self, run_id: str, key: ScenarioKey | None = None) -> Iterator[TrialSummary]:
        """The run's trials without their bodies, by scenario and index."""
        return read_summaries(self._connections, run_id, key, known=self._keys)

    def trials(self, run_id: str, key: ScenarioKey) -> Iterator[Trial]:
        """The scenario's trials, in index order."""
        return read_trials(self._connections, run_id, key)

    def trial(self, run_id: str, key: ScenarioKey, index: int) -> Trial:
        """One trial. Raises UsageError when it is not stored."""
        return read_trial(self._connections, run_id, key, index)

    def last_written(self, run_id: str) -> datetime | None:
        """When the trial that began last was over; None when there is none."""
        with self._connections.one() as connection:
            row = connection.row(schema.LAST_TRIAL, (run_id,))
        return None if row is None else datetime.fromisoformat(row[0]) + timedelta(milliseconds=row[1])

    def find_said(self, run_id: str, text: str, *, key: ScenarioKey | None = None) -> "Said":
        """The trials whose user, replies or calls have the text, as far as a search looks."""
        from .trials import find_said

        return find_said(self._connections, run_id, text, key=key)

    def finished(self, run_id: str) -> set[tuple[ScenarioKey, int]]:
        """Scenario and index of each trial that is stored, errored ones included."""
        return read_finished(self._connections, run_id)

    def set_baseline(self, run_id: str, *, suite: str | None = None) -> None:
        """Make others be compared with this run: everywhere, or where the suite has that name."""
        with self._connections.transaction() as connection:
            if runs.read_run(connection, run_id) is None:
                raise UsageError(f"{self.name}: no run has the id {run_id!r}. See: seatrial list runs")
            connection.execute(schema.SET_BASELINE, (write(suite), run_id))

    def baseline(self, suite: str | None = None) -> Run | None:
        """The suite's own baseline, else the general one; None when neither is set."""
        with self._connections.one() as connection:
            return runs.read_baseline(connection, suite)

    def baselines(self) -> list[tuple[str | None, Run]]:
        """Every baseline with the suite it is for; None for the general one."""
        with self._connections.one() as connection:
            return runs.list_baselines(connection)

    def clear_baseline(self, suite: str | None = None) -> bool:
        """Whether there was one; the run itself stays."""
        with self._connections.transaction() as connection:
            return bool(connection.execute(schema.CLEAR_BASELINE, (write(suite),)).rowcount)

    def delete_runs(self, ids: Iterable[str], *, force: bool = False) -> int:
        """Delete runs and what only they refer to. A baseline goes only by force. Gives their number."""
        with self._connections.transaction() as connection:
            return runs.delete_runs(connection, ids, where=self.name, force=force)

    def label(self, label: "Label") -> None:
        """Store a person's opinion of a trial; it takes the place of their earlier one of the same metric."""
        from .runs import put_label

        with self._connections.transaction() as connection:
            put_label(connection, label)

    def labels(self, run_id: str, *, key: ScenarioKey | None = None, metric: str | None = None) -> "list[Label]":
        from .runs import read_labels

        with self._connections.one() as connection:
            return read_labels(connection, run_id, key=key, metric=metric)

    def put_merged(self, run_id: str, merges: Iterable[MergedErrors]) -> None:
        """Store unique errors as a model merged them; a scenario's take the place of its earlier ones."""
        with self._connections.transaction() as connection:
            put_merged(connection, run_id, merges)

    def merged(self, run_id: str) -> list[MergedErrors]:
        """What a model merged, for the scenarios that needed it."""
        with self._connections.one() as connection:
            return read_merged(connection, run_id)

    def export_run(self, run_id: str) -> Iterator[bytes]:
        """The run as lines of JSON, for `import_runs` of another store."""
        from .export_import import export_lines

        return export_lines(self._connections, self.run(run_id))

    def import_runs(self, lines: Iterable[bytes | str]) -> "list[Imported]":
        """Store the runs of exported lines, all or nothing. Shards of one run are merged.

        Raises UsageError where the lines are not an export, are cut short, or say otherwise than the store.
        Other writers wait meanwhile, so hand over lines that are at hand.
        """
        from .export_import import import_lines

        with self._connections.transaction() as connection:
            return import_lines(connection, lines)


def open_store(url: str | Path) -> Store:
    """The store at a path, `sqlite:///path` or `postgresql://…`; made when it is not there yet.

    Raises UsageError when the place cannot be used, MissingExtra without the driver for PostgreSQL.
    """
    text = str(url)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Store(_file(text, text))
    if scheme in ("postgresql", "postgres"):
        from .database import PostgresDatabase  # its driver is an extra

        return Store(PostgresDatabase(text))
    if scheme == "sqlite" and rest.startswith("/"):
        return Store(_file(rest[1:], text))
    raise UsageError(f"store {text!r}: unknown kind. Use a path, sqlite:///path or postgresql://user@host/database.")


def _file(path: str, given: str) -> SqliteDatabase:
    if path in ("", ":memory:"):
        raise UsageError(f"store {given!r}: must name a file, since several connections share it.")
    return SqliteDatabase(Path(path).expanduser())
