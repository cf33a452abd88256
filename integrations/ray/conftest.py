"""A real cluster of two nodes on this machine, and projects whose runs go there."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

SMALL = 100 * 2**20


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two nodes with one CPU each, so two workers. Their token is of this session; none comes into the home folder."""
    token = tmp_path_factory.mktemp("ray") / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(token), RAY_USAGE_STATS_ENABLED="0")
    from ray.cluster_utils import Cluster

    # A dead node is noticed within seconds; by default Ray gives it half a minute.
    noticing = {"health_check_period_ms": 500, "health_check_timeout_ms": 1000, "health_check_failure_threshold": 3}
    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": SMALL, "_system_config": noticing}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=SMALL)
    yield cluster
    cluster.shutdown()


class Project:
    """A user's folder, and `seatrial` run in it as a process of its own."""

    def __init__(self, path: Path, address: str) -> None:
        self.path = path
        self.address = address

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(dedent(text).lstrip("\n"), encoding="utf-8")

    def suite(self, scenarios: list[dict[str, Any]], **suite: Any) -> None:
        self.write("suite.yaml", json.dumps({"suite": {"agent": "agent:answer", **suite}, "scenarios": scenarios}))

    def start(self, *args: str, **environ: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "seatrial", *args],
            cwd=self.path,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def seatrial(self, *args: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        with self.start(*args, **environ) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def on_ray(self, *args: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return self.seatrial("run", "suite.yaml", "--executor", "ray", "--ray-address", self.address, *args, **environ)

    def stored(self, store: str = ".seatrial/runs.db") -> list[dict[str, Any]]:
        """Every line of the last run, without what differs from run to run."""
        done = self.seatrial("export", "latest", "--store", store)
        assert done.returncode == 0, done.stderr
        return [_lasting(json.loads(line)) for line in done.stdout.splitlines()]

    def trials(self) -> list[tuple[str, int, str]]:
        """(scenario, index, status) of every stored trial."""
        lines = (line["trial"] for line in self.stored() if "trial" in line)
        return sorted((trial["key"][1], trial.get("index", 0), trial["status"]) for trial in lines)


PASSING = ("id", "started_at", "finished_at", "started_ms", "command", "traceback")


def _lasting(form: Any) -> Any:
    if isinstance(form, dict):
        return {k: _lasting(v) for k, v in form.items() if k not in PASSING and not k.endswith("_ms")}
    return [_lasting(item) for item in form] if isinstance(form, list) else form


@pytest.fixture
def project(tmp_path: Path, cluster: Any) -> Project:
    return Project(tmp_path, cluster.address)
