"""A store filled by real runs, and servers over it that speak HTTP on loopback."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from seatrial.web.access import ServeOptions
from seatrial.web.app import make_app, make_config

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> \"'><b>bold</b> </td></table> {{ 7*7 }} "
    "javascript:alert(3) \x1b[31m \u202e \x00 &amp; https://evil.example"
)
AGENT = """
import json, os, pathlib, threading, time

HOSTILE = json.loads(pathlib.Path(__file__).with_name("hostile.json").read_text())

def answer(messages, ctx):
    text = messages[-1]["content"]
    if text.startswith("wait"):
        gate = pathlib.Path(os.environ["GATE"])
        while not gate.exists():
            time.sleep(0.02)
        return "waited"
    if text == "crash":
        raise RuntimeError("the agent broke")
    if text == "hostile":
        ctx.call_tool(HOSTILE, {HOSTILE: [HOSTILE]})
        return HOSTILE
    free = ctx.call_tool("check", {"time": text})
    if pathlib.Path(__file__).with_name("broken").exists():
        return "Sorry, no."
    ctx.call_tool("book", {"time": text})
    return f"Booked for {text}."
"""


@dataclass(frozen=True)
class Project:
    """A folder with suites, and what was run in it: `good`, then `bad`, then `hostile`, by the names of the runs."""

    path: Path

    @property
    def store(self) -> str:
        return str(self.path / "runs.db")

    def seatrial(self, *args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "seatrial", *args, f"--store={self.store}"],
            cwd=self.path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def suite(scenarios: list[dict[str, Any]], **config: Any) -> str:
    mocks = {"check": {"returns": {"free": True}}, "book": {"returns": {"id": "BK-1"}}, HOSTILE: {"returns": HOSTILE}}
    head = {"name": "tables", "agent": "agent:answer", "config": {"mocks": mocks, **config}}
    return json.dumps({"suite": head, "scenarios": scenarios})


def table_scenarios() -> list[dict[str, Any]]:
    books = {"name": "books a table", "input": "19:00", "expected_tools": ["check", "book"], "trials": 3}
    return [
        {**books, "expected_output": "Booked", "tags": ["write"]},
        {"name": "only looks", "input": "20:00", "expected_tools": ["check"], "tags": ["read"]},
        {"name": "crashes", "input": "crash", "expected_output": "x"},
        {"name": "later", "input": "x", "skip": "no such thing yet"},
    ]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    path = tmp_path_factory.mktemp("project")
    made = Project(path)
    (path / "agent.py").write_text(AGENT, encoding="utf-8")
    (path / "hostile.json").write_text(json.dumps(HOSTILE), encoding="utf-8")
    (path / "tables.json").write_text(suite(table_scenarios()), encoding="utf-8")
    hostile = {"name": HOSTILE, "input": "hostile", "expected_output": HOSTILE + "!", "tags": [HOSTILE]}
    (path / "hostile.trial.json").write_text(suite([hostile]), encoding="utf-8")
    waits = [{"name": f"waits {number}", "input": f"wait {number}"} for number in range(6)]
    quick = [{"name": "quick", "input": "18:00", "expected_tools": ["check"]}]
    (path / "slow.yaml").write_text(suite([*quick, *waits], concurrency=1), encoding="utf-8")
    made.seatrial("run", "tables.json", "--id=good", "--name=first version")
    (path / "broken").touch()
    made.seatrial("run", "tables.json", "--id=bad", "--name=second version")
    (path / "broken").unlink()
    made.seatrial("run", "hostile.trial.json", "--id=hostile", f"--name={HOSTILE.replace(chr(0), '')}")
    return made


class Served:
    """A server, and a client of it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.client = httpx2.Client(base_url=address, timeout=20)

    def get(self, path: str, **more: Any) -> httpx2.Response:
        return self.client.get(path, **more)

    def json(self, path: str, **more: Any) -> Any:
        answer = self.client.get(path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def scenario(self, run_id: str, name: str) -> str:
        """The id of a scenario."""
        return next(one["id"] for one in self.json(f"/api/runs/{run_id}")["scenarios"] if one["name"] == name)


@contextlib.contextmanager
def serving(options: ServeOptions, **limits: Any) -> Iterator[Served]:
    """As `seatrial serve` does. `limits` are those of connections."""
    listening = socket.create_server((options.host, 0))
    server = uvicorn.Server(make_config(make_app(options), **limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    served = Served(f"http://{options.host}:{listening.getsockname()[1]}")
    try:
        served.client.get("/api/runs")  # answered as soon as the server has begun
        yield served
    finally:
        served.client.close()
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="session")
def served(project: Project) -> Iterator[Served]:
    """A server over the project, shared by tests that only look."""
    with serving(ServeOptions(store=project.store, root=project.path)) as made:
        made.get("/")  # for the session, so that no test depends on the order of the others
        yield made


@pytest.fixture
def serve(project: Project) -> Iterator[Callable[..., Served]]:
    """Servers with options of one's own; `serve.close()` ends them before the test does."""
    with contextlib.ExitStack() as stack:

        def start(*, limits: dict[str, Any] | None = None, **options: Any) -> Served:
            chosen = {"store": project.store, "root": project.path, **options}
            return stack.enter_context(serving(ServeOptions(**chosen), **(limits or {})))

        start.close = stack.close  # type: ignore[attr-defined]
        yield start


@pytest.fixture
def own_project(project: Project, tmp_path: Path) -> Project:
    """The same project with a store of its own, for tests that change something."""
    import shutil

    shutil.copytree(project.path, tmp_path / "copy")
    return Project(tmp_path / "copy")


@pytest.fixture(scope="session")
def hostile() -> str:
    return HOSTILE
