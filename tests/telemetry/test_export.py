"""`seatrial run` with the standard OTEL_* variables: spans arrive at a real OTLP/HTTP receiver, or nothing happens."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SUITE = """
suite: {name: shop, agent: "agent:answer"}
scenarios:
  - {name: order status, input: "Where is ORD-1?", expected_output: shipped, trials: 20}
"""


@dataclass
class Receiver:
    """An OTLP/HTTP receiver on loopback, and what it was sent."""

    port: int = 0
    status: int = 200
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            kept.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(kept.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield kept
    server.shutdown()
    server.server_close()
    thread.join()


def run(folder: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    (folder / "agent.py").write_text("def answer(input): return 'It has shipped.'\n")
    (folder / "suite.yaml").write_text(SUITE)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-m", "seatrial", "run", "suite.yaml"],
        cwd=folder,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_trial_arrives_at_the_collector(tmp_path: Path, receiver: Receiver) -> None:
    done = run(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{receiver.port}")

    assert (done.returncode, done.stderr.count("OpenTelemetry")) == (0, 0), done.stderr
    names = [span.name for span in receiver.spans]
    assert names.count("trial order status") == 20
    assert names.count("invoke_agent agent:answer") == 20
    events = [event.name for span in receiver.spans for event in span.events]
    assert events == ["gen_ai.evaluation.result"] * 20
    resource = {
        item.key: item.value.string_value for item in receiver.requests[0].resource_spans[0].resource.attributes
    }
    assert resource["service.name"] == "seatrial"


@pytest.mark.parametrize(("kind", "status"), [("refused", 0), ("rejecting", 400)])
def test_a_collector_that_takes_nothing_changes_no_verdict(
    tmp_path: Path, receiver: Receiver, kind: str, status: int
) -> None:
    receiver.status = status
    port = receiver.port if kind == "rejecting" else 1
    done = run(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}", OTEL_EXPORTER_OTLP_TIMEOUT="1")

    assert done.returncode == 0
    assert "1/1 scenario passed" in done.stdout
    assert "OpenTelemetry: 40 spans could not be exported" in done.stderr


def test_an_exporter_that_is_not_known_changes_no_verdict(tmp_path: Path) -> None:
    done = run(tmp_path, OTEL_TRACES_EXPORTER="zipkin")

    assert done.returncode == 0
    assert "OTEL_TRACES_EXPORTER='zipkin': expected otlp, console or none" in done.stderr


def test_the_console_exporter_leaves_stdout_to_the_report(tmp_path: Path) -> None:
    done = run(tmp_path, OTEL_TRACES_EXPORTER="console")

    assert done.returncode == 0
    assert "gen_ai.evaluation.result" in done.stderr
    assert "gen_ai" not in done.stdout


def test_nothing_of_opentelemetry_is_imported_without_an_exporter(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "atexit.register(lambda: print('LOADED', [n for n in sys.modules if 'telemetry' in n], file=sys.stderr))\n"
    )
    done = run(tmp_path, PYTHONPATH=str(tmp_path))

    assert done.returncode == 0
    assert "LOADED []" in done.stderr
