"""All SQL of the store, in the dialect that SQLite and PostgreSQL share. Placeholders are question marks.

Names that people write are stored as ASCII JSON, since they may hold characters that a database refuses. `scenario` is
a hash of suite, name and agent. Scenarios of a run are also numbered in the order in which they are added, so that rows
of trials are appended: with the hash as their key, each would go to another page. `trials` has the columns that lists
and verdicts need, `bodies` the whole trials, and `contents` large parts of them, each stored once.
"""

PACKED = " WITHOUT ROWID"
"""For SQLite only: store the rows in the tree of the primary key, instead of in a second tree."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE runs (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            started_at TEXT NOT NULL,
            body BYTEA NOT NULL
        )""",
        "CREATE INDEX runs_by_start ON runs (started_at, id)",
        """CREATE TABLE scenarios (
            run_id TEXT NOT NULL REFERENCES runs (id),
            scenario TEXT NOT NULL,
            position BIGINT NOT NULL,
            scenario_key TEXT NOT NULL,
            entry BYTEA NOT NULL,
            PRIMARY KEY (run_id, scenario)
        )""",
        "CREATE INDEX scenarios_in_order ON scenarios (run_id, position, scenario)",
        """CREATE TABLE trials (
            run_id TEXT NOT NULL,
            scenario TEXT NOT NULL,
            trial BIGINT NOT NULL,
            status TEXT NOT NULL,
            error_kind TEXT,
            stop_reason TEXT NOT NULL,
            trajectory_matched SMALLINT,
            started_at TEXT NOT NULL,
            turns BIGINT NOT NULL,
            overall_score DOUBLE PRECISION,
            latency_ms DOUBLE PRECISION,
            median_latency_ms DOUBLE PRECISION,
            tokens BIGINT,
            cost_usd DOUBLE PRECISION,
            duration_ms DOUBLE PRECISION NOT NULL,
            details BYTEA,
            PRIMARY KEY (run_id, scenario, trial),
            FOREIGN KEY (run_id, scenario) REFERENCES scenarios (run_id, scenario)
        )""",
        "CREATE INDEX trials_by_status ON trials (run_id, status)",
        """CREATE TABLE bodies (
            run_id TEXT NOT NULL,
            scenario TEXT NOT NULL,
            trial BIGINT NOT NULL,
            body BYTEA NOT NULL,
            PRIMARY KEY (run_id, scenario, trial)
        )""",
        "CREATE TABLE contents (hash TEXT PRIMARY KEY, body BYTEA NOT NULL)",
        """CREATE TABLE content_uses (
            run_id TEXT NOT NULL,
            hash TEXT NOT NULL,
            PRIMARY KEY (run_id, hash)
        )""",
        "CREATE INDEX content_uses_by_hash ON content_uses (hash)",
        """CREATE TABLE baselines (
            suite TEXT PRIMARY KEY,
            run_id TEXT NOT NULL REFERENCES runs (id)
        )""",
        """CREATE TABLE labels (
            run_id TEXT NOT NULL REFERENCES runs (id),
            scenario TEXT NOT NULL,
            trial BIGINT NOT NULL,
            metric TEXT NOT NULL,
            who TEXT NOT NULL,
            body BYTEA NOT NULL,
            PRIMARY KEY (run_id, scenario, trial, metric, who)
        )""",
    ),
    (
        """CREATE TABLE merged_errors (
            run_id TEXT NOT NULL,
            scenario TEXT NOT NULL,
            body BYTEA NOT NULL,
            PRIMARY KEY (run_id, scenario),
            FOREIGN KEY (run_id, scenario) REFERENCES scenarios (run_id, scenario)
        )""",
    ),
    (
        """CREATE TABLE numbered_scenarios (
            run_id TEXT NOT NULL REFERENCES runs (id),
            number BIGINT NOT NULL,
            scenario TEXT NOT NULL,
            position BIGINT NOT NULL,
            scenario_key TEXT NOT NULL,
            fingerprint TEXT,
            trial_fingerprint TEXT,
            source TEXT,
            terms BYTEA NOT NULL,
            PRIMARY KEY (run_id, number),
            UNIQUE (run_id, scenario)
        )"""
        + PACKED,
        """INSERT INTO numbered_scenarios (run_id, number, scenario, position, scenario_key, terms)
            SELECT run_id, ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY position, scenario) - 1,
                scenario, position, scenario_key, entry FROM scenarios""",
        """CREATE TABLE numbered_trials (
            run_id TEXT NOT NULL,
            number BIGINT NOT NULL,
            trial BIGINT NOT NULL,
            status TEXT NOT NULL,
            error_kind TEXT,
            stop_reason TEXT NOT NULL,
            trajectory_matched SMALLINT,
            started_at TEXT NOT NULL,
            turns BIGINT NOT NULL,
            overall_score DOUBLE PRECISION,
            latency_ms DOUBLE PRECISION,
            median_latency_ms DOUBLE PRECISION,
            tokens BIGINT,
            cost_usd DOUBLE PRECISION,
            duration_ms DOUBLE PRECISION NOT NULL,
            details BYTEA,
            PRIMARY KEY (run_id, number, trial),
            FOREIGN KEY (run_id, number) REFERENCES numbered_scenarios (run_id, number)
        )"""
        + PACKED,
        """INSERT INTO numbered_trials (run_id, number, trial, status, error_kind, stop_reason, trajectory_matched,
            started_at, turns, overall_score, latency_ms, median_latency_ms, tokens, cost_usd, duration_ms, details)
            SELECT t.run_id, s.number, trial, status, error_kind, stop_reason, trajectory_matched, started_at, turns,
            overall_score, latency_ms, median_latency_ms, tokens, cost_usd, duration_ms, details
            FROM trials t JOIN numbered_scenarios s ON s.run_id = t.run_id AND s.scenario = t.scenario
            ORDER BY t.run_id, s.number, t.trial""",
        """CREATE TABLE numbered_bodies (
            run_id TEXT NOT NULL,
            number BIGINT NOT NULL,
            trial BIGINT NOT NULL,
            body BYTEA NOT NULL,
            PRIMARY KEY (run_id, number, trial)
        )""",
        """INSERT INTO numbered_bodies (run_id, number, trial, body) SELECT b.run_id, s.number, b.trial, b.body
            FROM bodies b JOIN numbered_scenarios s ON s.run_id = b.run_id AND s.scenario = b.scenario
            ORDER BY b.run_id, s.number, b.trial""",
        """CREATE TABLE merged_by_model (
            run_id TEXT NOT NULL,
            scenario TEXT NOT NULL,
            body BYTEA NOT NULL,
            PRIMARY KEY (run_id, scenario),
            FOREIGN KEY (run_id, scenario) REFERENCES numbered_scenarios (run_id, scenario)
        )""",
        "INSERT INTO merged_by_model (run_id, scenario, body) SELECT run_id, scenario, body FROM merged_errors",
        "DROP TABLE merged_errors",
        "DROP TABLE bodies",
        "DROP TABLE trials",
        "DROP TABLE scenarios",
        "ALTER TABLE numbered_scenarios RENAME TO scenarios",
        "ALTER TABLE numbered_trials RENAME TO trials",
        "ALTER TABLE numbered_bodies RENAME TO bodies",
        "ALTER TABLE merged_by_model RENAME TO merged_errors",
        "CREATE INDEX scenarios_in_order ON scenarios (run_id, position, number)",
        "CREATE INDEX trials_by_status ON trials (run_id, status)",
    ),
    (),  # `migrate` rewrites the bodies in the format of schema 3.
)
"""Numbered from 1. A released migration is never changed; add another one."""

VERSION = len(MIGRATIONS)

CREATE_VERSION = "CREATE TABLE schema_version (version BIGINT NOT NULL)"
READ_VERSION = "SELECT MAX(version) FROM schema_version"
WRITE_VERSION = "INSERT INTO schema_version (version) VALUES (?)"

ADD_RUN = "INSERT INTO runs (id, name, started_at, body) VALUES (?, ?, ?, ?)"
CHANGE_RUN = "UPDATE runs SET started_at = ?, body = ? WHERE id = ?"
HAS_RUN = "SELECT 1 FROM runs WHERE id = ?"
RUN = "SELECT id, body FROM runs WHERE id = ?"
_NEWEST_FIRST = "ORDER BY started_at DESC, id DESC LIMIT ?"
RUNS = f"SELECT id, body FROM runs {_NEWEST_FIRST}"
RUNS_NAMED = f"SELECT id, body FROM runs WHERE name = ? {_NEWEST_FIRST}"
RUNS_BY_PREFIX = f"SELECT id, body FROM runs WHERE substr(id, 1, ?) = ? {_NEWEST_FIRST}"
RUN_NAMES = f"SELECT id, name FROM runs {_NEWEST_FIRST}"
NO_LIMIT = 2**62
COUNT_TRIALS = "SELECT run_id, status, COUNT(*) FROM trials WHERE run_id IN ({runs}) GROUP BY run_id, status"
"""`{runs}` stands for one placeholder for each run."""
COUNT_TRIALS_OF_SCENARIO = """SELECT t.run_id, t.status, COUNT(*) FROM scenarios s
    JOIN trials t ON t.run_id = s.run_id AND t.number = s.number
    WHERE s.run_id IN ({runs}) AND s.scenario = ? GROUP BY t.run_id, t.status"""
COUNT_SCENARIOS = "SELECT run_id, COUNT(*) FROM scenarios WHERE run_id IN ({runs}) GROUP BY run_id"

_ENTRY = "scenario_key, fingerprint, trial_fingerprint, source, terms"
NEXT_NUMBER = """SELECT (SELECT COALESCE(MAX(number), -1) + 1 FROM scenarios WHERE run_id = runs.id)
    FROM runs WHERE id = ?"""
"""Lock the run first: two transactions would else take the same number."""
ADD_SCENARIO = f"""INSERT INTO scenarios (run_id, number, scenario, position, {_ENTRY})
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, scenario) DO NOTHING"""
SCENARIO = f"SELECT position, number, {_ENTRY} FROM scenarios WHERE run_id = ? AND scenario = ?"
SCENARIO_PAGE = f"""SELECT position, number, {_ENTRY} FROM scenarios
    WHERE run_id = ? AND (position, number) > (?, ?) ORDER BY position, number LIMIT ?"""
NUMBER = "SELECT number FROM scenarios WHERE run_id = ? AND scenario = ?"
NUMBERS = "SELECT number, scenario_key FROM scenarios WHERE run_id = ? AND number BETWEEN ? AND ?"

_TRIAL_COLUMNS = """status, error_kind, stop_reason, trajectory_matched, started_at, turns, overall_score,
    latency_ms, median_latency_ms, tokens, cost_usd, duration_ms, details"""
_OF_TRIAL = f"WHERE run_id = ? AND number = ({NUMBER}) AND trial = ?"
_PAGE = "(number, trial) > (?, ?) ORDER BY number, trial LIMIT ?"
_PAGE_OF_SCENARIO = f"number = ({NUMBER}) AND number >= ? AND trial > ? ORDER BY trial LIMIT ?"
"""The same parameters. SQLite would not search the index for `number = … AND (number, trial) > …`."""
ADD_TRIAL = f"""INSERT INTO trials (run_id, number, trial, {_TRIAL_COLUMNS})
    VALUES (?, ({NUMBER}), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
ADD_BODY = f"INSERT INTO bodies (run_id, number, trial, body) VALUES (?, ({NUMBER}), ?, ?)"
ADD_CONTENT = "INSERT INTO contents (hash, body) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING"
ADD_CONTENT_USE = "INSERT INTO content_uses (run_id, hash) VALUES (?, ?) ON CONFLICT (run_id, hash) DO NOTHING"
DROP_TRIAL = f"DELETE FROM trials {_OF_TRIAL}"
DROP_BODY = f"DELETE FROM bodies {_OF_TRIAL}"
CONTENT = "SELECT body FROM contents WHERE hash = ?"
CONTENTS_OF_RUN = "SELECT hash FROM content_uses WHERE run_id = ?"
BODY = f"SELECT body FROM bodies {_OF_TRIAL}"
BODY_PAGE = f"SELECT number, trial, body FROM bodies WHERE run_id = ? AND {_PAGE}"
BODY_PAGE_OF_SCENARIO = f"SELECT number, trial, body FROM bodies WHERE run_id = ? AND {_PAGE_OF_SCENARIO}"
LAST_TRIAL = "SELECT started_at, duration_ms FROM trials WHERE run_id = ? ORDER BY started_at DESC LIMIT 1"
FINISHED = """SELECT s.scenario_key, t.trial FROM trials t
    JOIN scenarios s ON s.run_id = t.run_id AND s.number = t.number WHERE t.run_id = ?"""

_SUMMARY = f"SELECT number, trial, {_TRIAL_COLUMNS} FROM trials WHERE run_id = ?"
SUMMARY_PAGE = f"{_SUMMARY} AND {_PAGE}"
SUMMARY_PAGE_OF_SCENARIO = f"{_SUMMARY} AND {_PAGE_OF_SCENARIO}"
SUMMARIES = f"{_SUMMARY} AND number IN ({{numbers}}) ORDER BY number, trial"
"""`{numbers}` stands for one placeholder for each number."""

SET_BASELINE = """INSERT INTO baselines (suite, run_id) VALUES (?, ?)
    ON CONFLICT (suite) DO UPDATE SET run_id = excluded.run_id"""
BASELINE = "SELECT r.id, r.body FROM baselines b JOIN runs r ON r.id = b.run_id WHERE b.suite = ?"
BASELINES = "SELECT b.suite, r.id, r.body FROM baselines b JOIN runs r ON r.id = b.run_id ORDER BY b.suite"
CLEAR_BASELINE = "DELETE FROM baselines WHERE suite = ?"
BASELINES_OF_RUN = "SELECT suite FROM baselines WHERE run_id = ?"

PUT_LABEL = """INSERT INTO labels (run_id, scenario, trial, metric, who, body) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (run_id, scenario, trial, metric, who) DO UPDATE SET body = excluded.body"""
LABELS = "SELECT body FROM labels WHERE run_id = ? ORDER BY scenario, trial, metric, who"

PUT_MERGED = """INSERT INTO merged_errors (run_id, scenario, body) VALUES (?, ?, ?)
    ON CONFLICT (run_id, scenario) DO UPDATE SET body = excluded.body"""
MERGED = "SELECT body FROM merged_errors WHERE run_id = ? ORDER BY scenario"

DROP_RUN = (
    "DELETE FROM merged_errors WHERE run_id = ?",
    "DELETE FROM labels WHERE run_id = ?",
    "DELETE FROM baselines WHERE run_id = ?",
    "DELETE FROM content_uses WHERE run_id = ?",
    "DELETE FROM bodies WHERE run_id = ?",
    "DELETE FROM trials WHERE run_id = ?",
    "DELETE FROM scenarios WHERE run_id = ?",
    "DELETE FROM runs WHERE id = ?",
)
DROP_UNUSED_CONTENTS = (
    "DELETE FROM contents WHERE NOT EXISTS (SELECT 1 FROM content_uses u WHERE u.hash = contents.hash)"
)
