"""Which agent a scenario is played with: the flag's, the fixture's, the suite's, the settings'."""

import inspect
from typing import Any

import pytest

from .exceptions import COLLECTED, ScenarioErrored
from .options import options_of

_HOW = """Supply one in any of these ways:
    a fixture in conftest.py:
        @pytest.fixture
        def seatrial_agent():
            return my_agent
    agent: package.module:attribute   in the suite of the scenario file
    agent = "package.module:attribute"   in [tool.seatrial] of pyproject.toml
    --seatrial-agent package.module:attribute   on the command line"""


def find_agent(request: pytest.FixtureRequest) -> Any:
    """What the fixture gives where nobody supplied one: the flag's or the settings' agent; None where it may be so."""
    options = options_of(request.config)
    found = options.agent if options.agent is not None else options.default_agent
    if found is None and "seatrial" not in request.fixturenames and COLLECTED not in request.node.stash:
        # Somebody asks for it by name and would get nothing.
        raise ScenarioErrored(no_agent(request.node.nodeid))
    return found


def is_supplied(node: pytest.Collector | pytest.Item) -> bool:
    """Whether the project has a fixture `seatrial_agent` of its own for this place."""
    found = node.session._fixturemanager.getfixturedefs("seatrial_agent", node) or ()
    return any(definition.func.__module__ != "seatrial_pytest" for definition in found)


def require_agent(agent: Any, item: pytest.Item) -> Any:
    """The agent, unless there is none, or it is one that nobody awaited. Raises ScenarioErrored."""
    if agent is None:
        raise ScenarioErrored(no_agent(item.nodeid))
    if inspect.iscoroutine(agent) or inspect.isasyncgen(agent):
        if inspect.iscoroutine(agent):
            agent.close()
        raise ScenarioErrored(
            f"{item.nodeid}: the fixture 'seatrial_agent' is async, and no plugin awaited it. "
            "Make it a plain function, or install pytest-asyncio and mark it with @pytest_asyncio.fixture."
        )
    return agent


def no_agent(where: str) -> str:
    return f"{where}: no agent to run. {_HOW}"
