"""The row of a new run: its id, its settings as JSON without secrets, the git commit and the versions."""

import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from seatrial.clock import now
from seatrial.engine.redact import Redaction
from seatrial.model.conversation import REDACTED
from seatrial.model.run import Run, RunGates
from seatrial.model.scenario import Scenario, Suite
from seatrial.model.struct import field_names
from seatrial.version import __version__

from .agents import describe_agent
from .request import RunRequest
from .run_plan import RunPlan
from .secrets import is_secret_name


def new_run(
    request: RunRequest,
    *,
    name: str,
    commit: "Commit",
    config: Mapping[str, Any],
    seed: int = 0,
    gates: RunGates | None = None,
    replayed: bool = False,
) -> Run:
    """A run that starts now."""
    found, started = commit.wait(), now()
    return Run(
        id=request.id or f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        name=name,
        started_at=started,
        seed=seed,
        gates=gates or RunGates(),
        config=config,
        git_commit=found.sha,
        git_dirty=found.dirty,
        git_branch=_branch_of_job(request.environ) or found.branch,
        versions={"seatrial": __version__, "python": ".".join(map(str, sys.version_info[:3]))},
        replayed=replayed,
    )


def new_planned_run(plan: RunPlan, commit: "Commit", redaction: Redaction, *, seed: int) -> Run:
    """A run of the plan that starts now."""
    return new_run(
        plan.request,
        name=plan.name,
        commit=commit,
        config=redaction.value(_plan_settings(plan)),
        seed=seed,
        gates=plan.gates,
        replayed=plan.agents.replay(plan.suites),
    )


def _plan_settings(plan: RunPlan) -> Mapping[str, Any]:
    request = plan.request
    return {
        **request_settings(request),
        "agents": {suite.name: redact_spec(suite.suite.agents or suite.suite.agent) for suite in plan.suites},
        "baselines": {suite.name: suite.suite.baseline for suite in plan.suites if suite.suite.baseline},
        "scenario_text": list(request.scenario_text),
        "tags": list(request.tags),
        "only": None if request.only is None else sorted([suite, name] for suite, name in request.only),
        "shard": list(request.shard) if request.shard else None,
        "scenarios": plan.count()[0],
        "run": to_json(plan.config),
        "confirms": request.confirms,
        **({"fork": dict(request.fork)} if request.fork is not None else {}),
        **({"sweep": dict(request.sweep)} if request.sweep is not None else {}),
    }


def request_settings(request: RunRequest) -> Mapping[str, Any]:
    """The settings that every stored run has, as JSON."""
    return {
        "sources": [_source(source) for source in request.sources],
        "agent": None if request.agent is None else redact_spec(request.agent),
        "overrides": redact_spec(to_json(request.overrides)),
        "models": redact_spec(to_json(request.models)),
        "command": request.command,
    }


def _source(source: Any) -> str:
    if isinstance(source, Suite | Scenario):
        return f"<{type(source).__name__} {source.name}>"
    return str(source)


def redact_spec(spec: Any) -> Any:
    """The settings of an agent without secret values."""
    if isinstance(spec, Mapping):
        return {
            key: REDACTED if isinstance(value, str) and is_secret_name(str(key)) else redact_spec(value)
            for key, value in spec.items()
        }
    if isinstance(spec, list | tuple):
        return [redact_spec(item) for item in spec]
    if spec is None or isinstance(spec, str | int | float | bool):
        return spec
    return describe_agent(spec)


def to_json(value: Any) -> Any:
    """JSON for settings; an object that JSON cannot hold becomes its import path."""
    names = None if isinstance(value, type) else field_names(value)
    if names is not None:
        return {name: to_json(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return describe_agent(value)


@dataclass(slots=True)
class Commit:
    """The git commit of a folder, read in a thread while other work goes on."""

    sha: str | None = None
    dirty: bool | None = None
    branch: str | None = None
    _thread: Thread | None = None

    def wait(self) -> "Commit":
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        return self


def find_commit(folder: Path) -> Commit:
    """Start reading the commit; call `wait` for the result. It is empty without a repository or without git."""
    commit = Commit()
    if any((place / ".git").exists() for place in (folder, *folder.parents)):
        commit._thread = Thread(target=_read_commit, args=(commit, folder), daemon=True)
        commit._thread.start()
    return commit


def _read_commit(commit: Commit, folder: Path) -> None:
    sha = _git(folder, "rev-parse", "HEAD")
    if sha is None:
        return
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    branch = _git(folder, "branch", "--show-current")
    commit.branch = (branch or "").strip() or None
    commit.sha = sha.strip()
    commit.dirty = None if changes is None else bool(changes.strip())


def _branch_of_job(environ: Mapping[str, str]) -> str | None:
    """The branch that a CI job tests. Jobs often check out a commit, so Git does not know the branch."""
    if environ.get("GITHUB_REF_TYPE") == "branch":
        return environ.get("GITHUB_HEAD_REF") or environ.get("GITHUB_REF_NAME") or None
    names = ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_BRANCH", "BUILD_SOURCEBRANCHNAME", "CIRCLE_BRANCH")
    return next((environ[name] for name in names if environ.get(name)), None)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=4.0, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
