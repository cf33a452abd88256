"""The public verbs of the Python API."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seatrial import scenarios
from seatrial.scenarios import LoadedSuite
from seatrial.settings import read_settings
from seatrial.vocabulary.run import RunState
from seatrial.vocabulary.scenario import Scenario, Suite

from .records import Report
from .request import RunRequest
from .running import execute, play

Source = str | Path | Suite | Scenario

_FROM_SETTINGS = "settings"


def run(
    sources: Source | Sequence[Source],
    *,
    agent: Any = None,
    store: str | None = _FROM_SETTINGS,
    scenario: str | Sequence[str] = (),
    tag: str | Sequence[str] = (),
    name: str | None = None,
    **overrides: Any,
) -> Report:
    """Run files, folders, Suites or Scenarios against an agent, and report.

    `overrides` are keys of `suite.config`: trials=3, concurrency=5, and so on. `store=None` keeps nothing.
    """
    report = execute(
        _request(sources, agent, store, overrides, scenario_text=_several(scenario), tags=_several(tag), name=name)
    )
    if report.run.state is RunState.INTERRUPTED:
        raise KeyboardInterrupt
    return report


async def arun(
    sources: Source | Sequence[Source],
    *,
    agent: Any = None,
    store: str | None = _FROM_SETTINGS,
    scenario: str | Sequence[str] = (),
    tag: str | Sequence[str] = (),
    name: str | None = None,
    **overrides: Any,
) -> Report:
    """`run`, on the event loop that is running."""
    return await play(
        _request(sources, agent, store, overrides, scenario_text=_several(scenario), tags=_several(tag), name=name)
    )


def load(sources: Source | Sequence[Source]) -> list[LoadedSuite]:
    """The suites of files, folders and objects, checked. Raises UsageError with everything that is wrong."""
    return scenarios.load(sources)


def compare(base: str, candidate: str, **limits: Any) -> Any:
    """Two stored runs side by side."""
    raise NotImplementedError


def _request(sources: Any, agent: Any, store: str | None, overrides: dict[str, Any], **more: Any) -> RunRequest:
    environ = dict(os.environ)
    settings = read_settings(Path.cwd(), environ)
    given = [sources] if isinstance(sources, str | Path | Suite | Scenario) else list(sources)
    return RunRequest(
        sources=tuple(given),
        agent=agent,
        overrides=overrides,
        store=settings["store"] if store == _FROM_SETTINGS else store,
        cache=settings["cache"],
        environ=environ,
        models=models_from(settings),
        default_agent=settings["agent"],
        **more,
    )


def models_from(settings: dict[str, Any]) -> dict[str, Any]:
    """Which model plays which role, where a scenario does not say."""
    return {
        role: settings[f"{role}_model"]
        for role in ("judge", "user", "dedup")
        if settings.get(f"{role}_model") is not None
    }


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
