"""Which agent plays a scenario: the flag's, the fixture's, the suite's or the settings'."""

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from .options import Options, options_of
from .outcome import COLLECTED, ScenarioErrored

if TYPE_CHECKING:
    from .files import CollectedScenario

_HOW = """Supply one in any of these ways:
    a fixture in conftest.py:
        @pytest.fixture
        def seatrial_agent():
            return my_agent
    agent: package.module:attribute   in the suite of the scenario file
    agent = "package.module:attribute"   in [tool.seatrial] of pyproject.toml
    --seatrial-agent package.module:attribute   on the command line"""


def find_agent(request: pytest.FixtureRequest) -> Any:
    """The value of the default fixture `seatrial_agent`: the flag's or the settings' agent, or None."""
    options = options_of(request.config)
    found = options.agent if options.agent is not None else options.default_agent
    if found is None and "seatrial" not in request.fixturenames and COLLECTED not in request.node.stash:
        # A test that uses the fixture itself would get None.
        raise ScenarioErrored(_no_agent(request.node))
    return found


def is_supplied(node: pytest.Collector | pytest.Item) -> bool:
    """Whether the project defines a fixture `seatrial_agent` for this node."""
    found = node.session._fixturemanager.getfixturedefs("seatrial_agent", node) or ()
    return any(definition.func.__module__ != "seatrial_pytest" for definition in found)


def choose_agent(collected: "CollectedScenario", options: Options) -> Any:
    """The agent of a scenario from a file, if no fixture supplies it."""
    if options.agent is not None:
        return options.agent
    suite = collected.loaded.suite
    if collected.agent_name and suite.agents:
        return suite.agents[collected.agent_name]
    return suite.agent if suite.agent is not None else options.default_agent


def require_agent(agent: Any, item: pytest.Item) -> Any:
    """The agent. Raises ScenarioErrored if it is missing, or a coroutine that was not awaited."""
    if agent is None:
        raise ScenarioErrored(_no_agent(item))
    if inspect.iscoroutine(agent) or inspect.isasyncgen(agent):
        if inspect.iscoroutine(agent):
            agent.close()
        raise ScenarioErrored(
            f"{item.nodeid}: the fixture 'seatrial_agent' is async, and no plugin awaited it. "
            "Make it a plain function, or install pytest-asyncio and mark it with @pytest_asyncio.fixture."
        )
    return agent


def _no_agent(item: pytest.Item) -> str:
    return f"{item.nodeid}: no agent to run. {_HOW}"
