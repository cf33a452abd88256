"""The same hostile projects through every way of running them: the results are equal."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.journeys.hostile import (
    EXPECTED,
    SECRET,
    newest_outcome,
    stored_bytes,
    unique_errors,
    write_project,
)

from seatrial.store.store import open_store
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

Run = Callable[[Path], int]


def in_process(folder: Path, *command: str) -> int:
    """Its exit code. What it prints is shown where a test fails."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SEATRIAL_")}
    environ |= {"SHOP_TOKEN": SECRET, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environ, capture_output=True, text=True, timeout=100, check=False
    )
    print(ended.stdout, ended.stderr)
    return ended.returncode


def command(folder: Path) -> int:
    return in_process(folder, "-m", "seatrial", "run", "hostile.trial.yaml")


def under_pytest(folder: Path) -> int:
    return in_process(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--seatrial-live", "hostile.trial.yaml")


def python(folder: Path) -> int:
    code = "import seatrial, sys; sys.exit(seatrial.run('hostile.trial.yaml').exit_code)"
    return in_process(folder, "-c", code)


def regrade(folder: Path) -> int:
    command(folder)
    return in_process(folder, "-m", "seatrial", "regrade", "latest")


PLAYING: list[Run] = [command, under_pytest, python]
ALL: list[Run] = [*PLAYING, regrade]


def name_of(run: Run) -> str:
    return run.__name__


@pytest.mark.parametrize("run", ALL, ids=name_of)
def test_every_misbehaviour_ends_the_same_and_no_file_holds_a_secret(run: Run, tmp_path: Path) -> None:
    write_project(tmp_path)
    assert run(tmp_path) == 1
    assert newest_outcome(tmp_path) == EXPECTED
    assert SECRET.encode() not in stored_bytes(tmp_path)


@pytest.mark.parametrize("run", PLAYING, ids=name_of)
def test_an_agent_that_raises_on_close_is_errored(run: Run, tmp_path: Path) -> None:
    scenario = {"name": "closes", "input": "hello", "expected_output": "hello"}
    write_project(tmp_path, agent="agent:Unclosable", scenarios=[scenario])
    assert run(tmp_path) == 1
    assert newest_outcome(tmp_path) == {"closes": ["errored agent"]}


@pytest.fixture
def judge() -> Iterator[ModelServer]:
    """A judge that words the failure of each trial differently, and a dedup model that says they are the same."""
    labels = count(1)

    def answer(request: ReceivedRequest) -> str:
        ids = re.findall(r'"id": ?"(F\d+)"', "\n".join(content for _, content in request.messages))
        if ids:
            return json.dumps({"groups": [{"ids": ids, "label": "Made up", "explanation": "It made that up."}]})
        failure = {"category": "false_information", "turn": 1, "label": f"Made up {next(labels)}", "explanation": "no"}
        return json.dumps({"failures": [failure], "summary": "s"})

    with ModelServer(answer) as server:
        yield server


@pytest.mark.parametrize("run", PLAYING, ids=name_of)
def test_a_cost_that_is_not_known_ends_a_budget(run: Run, tmp_path: Path) -> None:
    silent = ServerReply(content=json.dumps({"failures": [], "summary": "s"}), usage=None)
    scenarios = [{"name": name, "input": name, "failures": True} for name in ("first", "second", "third")]
    with ModelServer([silent]) as server:
        model = {"model": "openai:m", "base_url": server.base_url, "price": {"input": 1, "output": 1}}
        write_project(tmp_path, scenarios=scenarios, budget=1.0, concurrency=1, models={"judge": model})
        assert run(tmp_path) == 1
    assert len(newest_outcome(tmp_path)) == 1


@pytest.mark.parametrize("run", PLAYING, ids=name_of)
def test_a_budget_with_a_model_of_unknown_price_is_refused(run: Run, tmp_path: Path) -> None:
    model = {"model": "openai:unpriced", "base_url": "http://127.0.0.1:9/v1"}
    scenario = {"name": "a", "input": "hello", "failures": True}
    write_project(tmp_path, scenarios=[scenario], budget=1.0, models={"judge": model, "dedup": model})
    assert run(tmp_path) in (1, 2)
    assert not (tmp_path / ".seatrial" / "runs.db").exists() or newest_outcome(tmp_path) == {}


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Any]]]:
    """Where spans are sent to, and those that were."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
            spans.extend(span for each in sent.resource_spans for scope in each.scope_spans for span in scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", spans
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("run", ALL, ids=name_of)
def test_open_telemetry_hears_of_every_trial(
    run: Run, tmp_path: Path, collector: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, spans = collector
    scenarios = [{"name": name, "input": "hello", "expected_output": "hello"} for name in ("a", "b")]
    write_project(tmp_path, scenarios=scenarios)
    if run is regrade:
        command(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    if run is regrade:
        in_process(tmp_path, "-m", "seatrial", "regrade", "latest")
    else:
        run(tmp_path)
    assert sum(not span.parent_span_id for span in spans) == 2


def test_an_imported_trace_is_told_to_open_telemetry(
    tmp_path: Path, collector: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, spans = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello"}]
    (tmp_path / "trace.json").write_text(json.dumps({"messages": messages}))
    write_project(tmp_path, scenarios=[{"name": "a", "input": "hello", "expected_output": "hello"}])
    in_process(tmp_path, "-m", "seatrial", "import-trace", "trace.json", "--suite", "hostile.trial.yaml")
    assert sum(not span.parent_span_id for span in spans) == 1


@pytest.mark.parametrize("run", PLAYING, ids=name_of)
def test_behaviour_failures_of_two_trials_are_merged(run: Run, tmp_path: Path, judge: ModelServer) -> None:
    model = {"model": "openai:scripted", "base_url": judge.base_url}
    scenario = {"name": "fails", "input": "hello", "trials": 2, "fail_on_error_severity": "high"}
    write_project(tmp_path, scenarios=[scenario], models={"judge": model, "dedup": model})
    assert run(tmp_path) == 1
    assert unique_errors(tmp_path) == {"fails": 1}


def test_the_store_has_one_run_for_each_way(tmp_path: Path) -> None:
    write_project(tmp_path, scenarios=[{"name": "a", "input": "hello", "expected_output": "hello"}])
    assert [run(tmp_path) for run in PLAYING] == [0, 0, 0]
    with open_store(tmp_path / ".seatrial" / "runs.db") as store:
        assert [run.state for run in store.runs()] == ["finished"] * 3
