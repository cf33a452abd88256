"""What the store costs: CPU seconds for 10,000 trials of one turn, two tool calls and one result.

`--durability` compares commits that wait for the disk with commits that do not.
"""

import gc
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript, Usage
from seatrial.model.results import Check, EvalResult
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.store.codec import decode, encode
from seatrial.store.database import SqliteDatabase
from seatrial.store.store import Store, open_store

TRIALS = 10_000
STARTED = datetime(2025, 5, 1, 12, tzinfo=UTC)


def a_trial(number: int) -> Trial:
    lookup = ToolCall(
        "lookup_order",
        {"order_id": "ORD-789", "attempt": number},
        {"status": "shipped", "items": [1, 2, 3]},
        id="call_1",
        started_ms=1.5,
        duration_ms=2.25,
    )
    notify = ToolCall("notify", {"to": "me@example.com", "text": "shipped"}, {"ok": True}, id="call_2")
    turn = PlayedTurn(
        index=0,
        user="What is the status of order #ORD-789?",
        reply="Your order ORD-789 has been shipped and will arrive tomorrow.",
        tool_calls=(lookup, notify),
        latency_ms=123.456,
        usage=Usage(input_tokens=100, output_tokens=20),
        cost_usd=0.001,
    )
    result = EvalResult(
        passed=True,
        reasoning="Output produced: PASS. Expected tools called: PASS (lookup_order).",
        evaluator="passfail",
        checks=(Check(name="output", passed=True), Check(name="tools", passed=True)),
    )
    return Trial(
        key=ScenarioKey("support-agent", f"scenario {number // 3}"),
        index=number % 3,
        status=Status.PASSED,
        transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED, duration_ms=130.0),
        results=(result,),
        seed=number,
        started_at=STARTED,
        duration_ms=131.0,
    )


def measure(what: str, work: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    print(f"{what:32} {time.process_time() - cpu:6.3f} s CPU {time.perf_counter() - wall:6.3f} s")


def measure_store(url: str) -> None:
    trials = [a_trial(number) for number in range(TRIALS)]
    gc.freeze()  # a run lets go of its trials, so collecting garbage does not visit them again and again
    keys = list(dict.fromkeys(trial.key for trial in trials))
    bodies = [encode(trial) for trial in trials]
    measure("encode", lambda: [encode(trial) for trial in trials])
    measure("decode", lambda: [decode(Trial, body) for body in bodies])
    with open_store(url) as store:
        store.start_run(Run(id="bench", name="bench", started_at=STARTED))
        entries = [ScenarioEntry(key=key, position=place, fingerprint="f", trials=3) for place, key in enumerate(keys)]
        measure(f"add {len(entries)} scenarios", lambda: store.add_scenarios("bench", entries))

        def write() -> None:
            with store.writer("bench", on_committed=lambda trials: None) as writer:
                for trial in trials:
                    writer.submit(trial)

        measure("write through the writer", write)
        store.finish_run("bench", RunState.FINISHED, STARTED)
        measure("summaries", lambda: list(store.summaries("bench")))
        measure("entries", lambda: list(store.entries("bench")))
        measure("finished", lambda: store.finished("bench"))
        measure("run_rows", lambda: store.run_rows())
        measure("trials", lambda: [list(store.trials("bench", key)) for key in keys])


def compare_durability(folder: Path) -> None:
    """What it costs that each commit waits for the disk: five rounds of both, in turns, and the ratio of medians."""
    trials = [a_trial(number) for number in range(TRIALS)]
    ways: dict[str, Callable[[Store], None]] = {
        "10,000 instant trials, in groups": lambda store: _write(store, trials),
        "100 trials, each committed by itself": lambda store: _write_one_by_one(store, trials[:100]),
    }
    for what, way in ways.items():
        took: dict[str, list[float]] = {"NORMAL": [], "FULL": []}
        for turn in range(5):
            for synchronous, seconds in took.items():
                SqliteDatabase.synchronous = synchronous
                with open_store(folder / f"{len(what)}-{turn}-{synchronous}.db") as store:
                    store.start_run(Run(id="bench", name="bench", started_at=STARTED))
                    began = time.perf_counter()
                    way(store)
                    seconds.append(time.perf_counter() - began)
        normal, full = (median(seconds) for seconds in took.values())
        print(f"{what:34} NORMAL {normal:6.3f} s   FULL {full:6.3f} s   ratio {full / normal:.2f}")


def _entries(trials: list[Trial]) -> list[ScenarioEntry]:
    keys = dict.fromkeys(trial.key for trial in trials)
    return [ScenarioEntry(key=key, position=place, fingerprint="f", trials=3) for place, key in enumerate(keys)]


def _write(store: Store, trials: list[Trial]) -> None:
    store.add_scenarios("bench", _entries(trials))
    with store.writer("bench", on_committed=lambda trials: None) as writer:
        for trial in trials:
            writer.submit(trial)


def _write_one_by_one(store: Store, trials: list[Trial]) -> None:
    """As pytest does."""
    store.add_scenarios("bench", _entries(trials))
    with store.writer("bench", on_committed=lambda trials: None) as writer:
        for trial in trials:
            writer.submit(trial)
            writer.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["--durability"]:
        with TemporaryDirectory(dir=".") as folder:  # not where /tmp may be memory
            compare_durability(Path(folder))
    elif len(sys.argv) > 1:
        measure_store(sys.argv[1])
    else:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "runs.db"
            measure_store(str(path))
            print(f"{path.stat().st_size / 1e6:.1f} MB")
