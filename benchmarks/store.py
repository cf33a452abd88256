"""What the store costs: CPU seconds for 10,000 trials of one turn, two tool calls and one result."""

import gc
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from seatrial.store import open_store
from seatrial.store.codec import decode, encode
from seatrial.vocabulary.conversation import PlayedTurn, StopReason, ToolCall, Transcript, Usage
from seatrial.vocabulary.findings import Check, EvalResult
from seatrial.vocabulary.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial

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
    bodies = [encode(Trial, trial) for trial in trials]
    measure("encode", lambda: [encode(Trial, trial) for trial in trials])
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


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure_store(sys.argv[1])
    else:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "runs.db"
            measure_store(str(path))
            print(f"{path.stat().st_size / 1e6:.1f} MB")
