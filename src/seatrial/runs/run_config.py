"""What is known of the project a run is made in: its commit, and the versions that take part."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from seatrial.model.conversation import REDACTED
from seatrial.model.scenario import Scenario, Suite
from seatrial.model.struct import field_names
from seatrial.version import __version__

from .run_plan import RunPlan, describe_agent
from .secrets import is_telling


@dataclass(slots=True)
class Commit:
    """The git commit of a folder, looked up on the side while other work goes on."""

    sha: str | None = None
    dirty: bool | None = None
    _thread: Thread | None = None

    def wait(self) -> "Commit":
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        return self


def find_commit(folder: Path) -> Commit:
    """Starts looking; `wait` for the answer. Nothing where there is no repository, or no git."""
    commit = Commit()
    if not any((place / ".git").exists() for place in (folder, *folder.parents)):
        return commit
    commit._thread = Thread(target=_look_up, args=(commit, folder), daemon=True)
    commit._thread.start()
    return commit


def _look_up(commit: Commit, folder: Path) -> None:
    sha = _git(folder, "rev-parse", "HEAD")
    if sha is None:
        return
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    commit.sha = sha.strip()
    commit.dirty = None if changes is None else bool(changes.strip())


def _git(folder: Path, *arguments: str) -> str | None:
    import subprocess

    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=4.0, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def versions() -> Mapping[str, str]:
    """Of Seatrial and Python."""
    return {"seatrial": __version__, "python": ".".join(map(str, sys.version_info[:3]))}


def snapshot(plan: RunPlan) -> Mapping[str, Any]:
    """What was asked for and what held, as plain JSON."""
    request = plan.request
    return {
        "sources": [_source(source) for source in request.sources],
        "agent": None if request.agent is None else redact_spec(request.agent),
        "agents": {suite.name: redact_spec(suite.suite.agents or suite.suite.agent) for suite in plan.suites},
        "baselines": {suite.name: suite.suite.baseline for suite in plan.suites if suite.suite.baseline},
        "overrides": redact_spec(plain(request.overrides)),
        "scenario_text": list(request.scenario_text),
        "tags": list(request.tags),
        "only": None if request.only is None else sorted([suite, name] for suite, name in request.only),
        "shard": list(request.shard) if request.shard else None,
        "scenarios": plan.count()[0],
        "run": plain(plan.config),
        "confirms": request.confirms,
        "models": redact_spec(plain(request.models)),
        "command": request.command,
    }


def _source(source: Any) -> str:
    if isinstance(source, Suite | Scenario):
        return f"<{type(source).__name__} {source.name}>"
    return str(source)


def redact_spec(spec: Any) -> Any:
    """An agent's settings without the values that authorise."""
    if isinstance(spec, Mapping):
        return {
            key: REDACTED if isinstance(value, str) and is_telling(str(key)) else redact_spec(value)
            for key, value in spec.items()
        }
    if isinstance(spec, list | tuple):
        return [redact_spec(item) for item in spec]
    if spec is None or isinstance(spec, str | int | float | bool):
        return spec
    return describe_agent(spec)


def plain(value: Any) -> Any:
    """JSON for settings; what JSON cannot hold becomes its description."""
    names = None if isinstance(value, type) else field_names(value)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return describe_agent(value)
