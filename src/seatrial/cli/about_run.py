"""What is known of a stored run beside its verdict: when, of what, with what, and how it was asked for."""

from collections.abc import Iterator
from typing import Any

from seatrial.model.run import Run
from seatrial.reports.escaping import one_line


def about_run(run: Run) -> list[str]:
    """One line for each thing that is known."""
    return [f"{name}: {one_line(text)}" for name, text in _facts(run) if text]


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    config = run.config or {}
    yield "run", f"{run.id}  {run.name}" + ("  (recordings)" if run.replayed else "")
    yield "regraded from", run.parent or ""
    yield "started", f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    yield "state", f"{run.state} {run.finished_at:%Y-%m-%d %H:%M:%S} UTC" if run.finished_at else run.state.value
    yield "seed", str(run.seed)
    yield "commit", f"{run.git_commit} {'with changes' if run.git_dirty else ''}".rstrip() if run.git_commit else ""
    yield "versions", ", ".join(f"{name} {version}" for name, version in (run.versions or {}).items())
    yield "agent", _agents(config)
    yield "set", ", ".join(f"{name}={value!r}" for name, value in (config.get("overrides") or {}).items())
    yield "command", config.get("command") or ""


def _agents(config: Any) -> str:
    if config.get("agent") is not None:
        return str(config["agent"])
    named = config.get("agents") or {}
    return ", ".join(dict.fromkeys(str(spec) for spec in named.values() if spec is not None))
