"""The pytest plugin: scenario files as tests, and a fixture for tests in Python.

A top-level package, because pytest imports it in every project of an environment that has Seatrial installed, even if
the project does not use it. So this module contains only hooks and imports only pytest. The rest is loaded when pytest
finds a scenario file, or a test uses a fixture, or the settings mention Seatrial.
"""

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .fixture import Seatrial

__all__ = ["seatrial", "seatrial_agent", "seatrial_world"]

_MARKER = (
    "seatrial(trials=None, threshold=None, live=False, expect_failure=False): how often a scenario is played and which "
    "share must pass; live: skip the test unless --seatrial-live is given; expect_failure: the scenario must fail."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    _leave_asserts_alone()
    group = parser.getgroup("seatrial", "Seatrial, sea trials for AI agents")
    option = group.addoption
    option("--seatrial-live", action="store_true", help="Let simulated users and judges ask models.")
    option(
        "--seatrial-require-live",
        action="store_true",
        help="Scenarios that are skipped because they would ask a model are errors.",
    )
    option("--seatrial-trials", metavar="N", help="Trials per scenario: a number, or auto.")
    option(
        "--seatrial-against",
        metavar="RUN",
        help="Test the scenarios of files against the history of `baseline`, or of a run.",
    )
    option("--seatrial-agent", metavar="SPEC", help="The agent of all scenarios: package.module:attribute.")
    option(
        "--seatrial-attack",
        action="store_true",
        help="After the tests, attack the agent of the played scenario files as their `attacks:` say.",
    )
    option(
        "--seatrial-mutate",
        action="store_true",
        help="At the end, break the passed trials of scenario files and show which defects no check noticed.",
    )
    option(
        "--seatrial-report",
        action="append",
        metavar="KIND[=PATH]",
        help="Write a report of the run: console, json, jsonl, html, junit, markdown, github. Repeatable.",
    )
    parser.addini("seatrial_live", "Let simulated users and judges ask models.", default=None)
    parser.addini("seatrial_trials", "How many trials of each scenario.", default=None)
    parser.addini("seatrial_agent", "The agent of scenarios that have no other.", default=None)
    parser.addini("seatrial_report", "Reports of the run, one on each line.", type="linelist", default=None)
    parser.addini("seatrial_testpaths", "Folders whose scenario files are collected.", type="args", default=None)


def _leave_asserts_alone() -> None:
    """Do not let pytest rewrite Seatrial's own asserts, as it does for every package with a plugin.

    Importing Seatrial through the rewriter takes 400 ms longer.
    """
    for finder in sys.meta_path:
        marked = getattr(finder, "_must_rewrite", None)
        if isinstance(marked, set):
            marked -= {"seatrial", "seatrial_pytest"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    if _is_mentioned(config):
        from .options import configure

        configure(config)


def _is_mentioned(config: pytest.Config) -> bool:
    """Whether the project or the command line has settings for Seatrial. Reads them without importing it."""
    given = (value for name, value in vars(config.option).items() if name.startswith("seatrial_"))
    if any(value is not None and value is not False for value in given):
        return True
    values: Any = getattr(config, "_inicfg", None)  # pytest has no public way to read unknown keys
    if any(str(key).startswith("seatrial") for key in values or ()):
        return True
    project = config.rootpath / "pyproject.toml"
    return project.is_file() and "tool.seatrial" in project.read_text(encoding="utf-8", errors="replace")


def is_trial_file(file_path: Path) -> bool:
    """Whether the name marks a scenario file."""
    return file_path.name.lower().endswith((".trial.yaml", ".trial.yml", ".trial.json"))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not is_trial_file(file_path):
        return None
    from .files import ScenarioFile

    return ScenarioFile.from_parent(parent, path=file_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test at its end for scenarios that did not pass; also for those that `seatrial.run()` played."""
    try:
        if "seatrial" in getattr(item, "fixturenames", ()):
            from .fixture import refusing_return

            with refusing_return(item):
                result = yield
        else:
            result = yield
        if "seatrial.runs.report" in sys.modules:
            from .fixture import settle

            settle(item)
        return result
    finally:
        if "seatrial.runs.report" in sys.modules:
            sys.modules["seatrial.runs.report"].unsettled.clear()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Let all workers of xdist share one run."""
    from .session_plugin import run_identity

    node.workerinput["seatrial"] = run_identity(node.config)


@pytest.fixture
def seatrial_agent(request: pytest.FixtureRequest) -> Any:
    """The agent that plays scenarios. Define a fixture of this name to supply your own."""
    from .agents import find_agent

    return find_agent(request)


@pytest.fixture
def seatrial_world() -> Any:
    """The world of the scenarios that a test plays. Define a fixture of this name to supply one; a scenario's own keys
    come before its keys, and a scenario's seed is merged over its seed."""
    return None


@pytest.fixture
def seatrial(request: pytest.FixtureRequest, seatrial_agent: Any, seatrial_world: Any) -> "Iterator[Seatrial]":
    """Plays scenarios: `result = seatrial.run(scenario)`, with `await` in an async test; then `seatrial.check(…)`."""
    from .fixture import Seatrial

    made = Seatrial(request.node, seatrial_agent, seatrial_world)
    yield made
    made.settle()
