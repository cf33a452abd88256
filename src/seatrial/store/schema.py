"""All the SQL there is, in the part of the language that SQLite and PostgreSQL share. Placeholders are question marks.

Texts that people write (names) are kept as ASCII JSON, so that neither database can stumble over them. `scenario` is a
hash of suite, name and agent. Columns of `trials` are what lists and verdicts need; `bodies` has the trials themselves;
`contents` has what is large, once, however many trials refer to it.
"""

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
)
"""Numbered from 1; a migration that was ever released is never edited, only followed by another."""

VERSION = len(MIGRATIONS)

CREATE_VERSION = "CREATE TABLE schema_version (version BIGINT NOT NULL)"
READ_VERSION = "SELECT MAX(version) FROM schema_version"
WRITE_VERSION = "INSERT INTO schema_version (version) VALUES (?)"

ADD_RUN = "INSERT INTO runs (id, name, started_at, body) VALUES (?, ?, ?, ?)"
CHANGE_RUN = "UPDATE runs SET started_at = ?, body = ? WHERE id = ?"
LOCK_RUN = "UPDATE runs SET body = body WHERE id = ?"
"""Makes processes that add to one run take turns; SQLite's writers do so anyway."""
RUN = "SELECT body FROM runs WHERE id = ?"
RUNS = "SELECT body FROM runs ORDER BY started_at DESC, id DESC"
RUNS_LIMITED = f"{RUNS} LIMIT ?"
RUNS_NAMED = "SELECT body FROM runs WHERE name = ? ORDER BY started_at DESC, id DESC"
RUNS_NAMED_LIMITED = f"{RUNS_NAMED} LIMIT ?"
RUNS_BY_PREFIX = "SELECT body FROM runs WHERE substr(id, 1, ?) = ? ORDER BY started_at DESC, id DESC LIMIT 10"
RUN_NAMES = "SELECT id, name FROM runs ORDER BY started_at DESC, id DESC LIMIT 1000"
COUNT_TRIALS = "SELECT run_id, status, COUNT(*) FROM trials WHERE run_id IN ({runs}) GROUP BY run_id, status"
"""`{runs}` stands for as many placeholders as there are runs."""
COUNT_TRIALS_OF_SCENARIO = """SELECT run_id, status, COUNT(*) FROM trials WHERE run_id IN ({runs}) AND scenario = ?
    GROUP BY run_id, status"""
COUNT_SCENARIOS = "SELECT run_id, COUNT(*) FROM scenarios WHERE run_id IN ({runs}) GROUP BY run_id"

ADD_SCENARIO = """INSERT INTO scenarios (run_id, scenario, position, scenario_key, entry) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (run_id, scenario) DO NOTHING"""
SCENARIO = "SELECT entry FROM scenarios WHERE run_id = ? AND scenario = ?"
SCENARIO_PAGE = """SELECT position, scenario, entry FROM scenarios
    WHERE run_id = ? AND (position, scenario) > (?, ?) ORDER BY position, scenario LIMIT ?"""

TRIAL_COLUMNS = (
    "run_id",
    "scenario",
    "trial",
    "status",
    "error_kind",
    "stop_reason",
    "trajectory_matched",
    "started_at",
    "turns",
    "overall_score",
    "latency_ms",
    "median_latency_ms",
    "tokens",
    "cost_usd",
    "duration_ms",
    "details",
)
ADD_TRIAL = f"INSERT INTO trials ({', '.join(TRIAL_COLUMNS)}) VALUES ({', '.join('?' * len(TRIAL_COLUMNS))})"
ADD_BODY = "INSERT INTO bodies (run_id, scenario, trial, body) VALUES (?, ?, ?, ?)"
ADD_CONTENT = "INSERT INTO contents (hash, body) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING"
ADD_CONTENT_USE = "INSERT INTO content_uses (run_id, hash) VALUES (?, ?) ON CONFLICT (run_id, hash) DO NOTHING"
DROP_TRIAL = "DELETE FROM trials WHERE run_id = ? AND scenario = ? AND trial = ?"
DROP_BODY = "DELETE FROM bodies WHERE run_id = ? AND scenario = ? AND trial = ?"
CONTENT = "SELECT body FROM contents WHERE hash = ?"
BODY = "SELECT body FROM bodies WHERE run_id = ? AND scenario = ? AND trial = ?"
BODY_PAGE = """SELECT trial, body FROM bodies
    WHERE run_id = ? AND scenario = ? AND trial > ? ORDER BY trial LIMIT ?"""
FINISHED = """SELECT s.scenario_key, t.trial FROM trials t
    JOIN scenarios s ON s.run_id = t.run_id AND s.scenario = t.scenario WHERE t.run_id = ?"""

_SUMMARIES = f"""SELECT s.position, s.scenario_key, {", ".join(f"t.{name}" for name in TRIAL_COLUMNS[1:])}
    FROM scenarios s JOIN trials t ON t.run_id = s.run_id AND t.scenario = s.scenario"""
SUMMARY_PAGE = f"""{_SUMMARIES} WHERE s.run_id = ? AND s.position >= ?
    AND (s.position, s.scenario, t.trial) > (?, ?, ?) ORDER BY s.position, s.scenario, t.trial LIMIT ?"""
SUMMARY_PAGE_OF_SCENARIO = f"""{_SUMMARIES} WHERE s.run_id = ? AND s.scenario = ? AND t.trial > ?
    ORDER BY t.trial LIMIT ?"""

SET_BASELINE = """INSERT INTO baselines (suite, run_id) VALUES (?, ?)
    ON CONFLICT (suite) DO UPDATE SET run_id = excluded.run_id"""
BASELINE = "SELECT r.body FROM baselines b JOIN runs r ON r.id = b.run_id WHERE b.suite = ?"
BASELINES = "SELECT b.suite, r.body FROM baselines b JOIN runs r ON r.id = b.run_id ORDER BY b.suite"
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
