"""Agents of frameworks, as far as it can be seen without them; `integrations/` has the rest."""

import asyncio
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import seatrial
from seatrial import Scenario
from seatrial.agents.frameworks.registry import FRAMEWORKS, Framework, framework_of
from seatrial.agents.resolve import AGENT_TYPES, resolve_agent
from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.testing.model_server import ModelServer, ServerReply

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_the_extra_states_the_versions_that_were_tested(kind: str) -> None:
    assert EXTRAS[kind.replace("_", "-")] == [FRAMEWORKS[kind].requirement]


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_the_page_states_them_as_well(kind: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| [`{kind}`]")]

    assert f"| `seatrial[{kind.replace('_', '-')}]` | {FRAMEWORKS[kind].requirement} |" in row


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_framework_has_a_contract(kind: str) -> None:
    assert (ROOT / "integrations" / kind / "test_contract.py").is_file()


@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_framework_is_a_type_of_agent(kind: str) -> None:
    assert kind in AGENT_TYPES


def test_a_missing_framework_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Framework(package="no-such-package", since="1", below="2")
    monkeypatch.setitem(FRAMEWORKS, "openai_agents", nothing)  # type: ignore[arg-type]

    with pytest.raises(MissingExtra, match=r"type 'openai_agents' .*pip install 'seatrial\[openai-agents\]'"):
        resolve_agent({"type": "openai_agents", "target": "shop:agent"})


@pytest.mark.parametrize(
    ("installed", "covered"),
    [("1.9.9", False), ("2.0", True), ("2.1.3", True), ("2.9rc1", True), ("3.0.0", False), ("10.0", False)],
)
def test_versions_are_compared_by_their_numbers(installed: str, covered: bool) -> None:
    assert Framework(package="x", since="2.0", below="3").covers(installed) is covered


def test_a_version_that_was_not_tested_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Framework(package="pydantic-ai-slim", since="0.1", below="0.2")
    monkeypatch.setitem(FRAMEWORKS, "pydantic_ai", old)  # type: ignore[arg-type]

    with pytest.warns(UserWarning, match=r"pydantic-ai-slim \d.* is installed.*tested with pydantic-ai-slim>=0.1,<0.2"):
        resolve_agent({"type": "pydantic_ai", "target": an_agent()})


def test_another_object_than_the_frameworks_is_refused() -> None:
    with pytest.raises(UsageError, match=r"agent 'shop': type 'pydantic_ai' needs a pydantic_ai.Agent, got dict"):
        resolve_agent({"type": "pydantic_ai", "target": {}}, name="shop")


def test_what_a_function_makes_is_refused_in_the_trial_as_a_mistake_of_the_set_up() -> None:
    (trial,) = play(dict)

    assert trial.error.kind is ErrorKind.CONFIG
    assert "needs a pydantic_ai.Agent, got dict" in trial.error.message


def test_a_function_makes_the_object_anew_for_each_trial() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(an_agent())
        return made[-1]

    trials = play(make, trials=3)

    assert len(made) == 3
    assert [trial.transcript.reply for trial in trials] == ["success (no tool calls)"] * 3


def test_an_async_function_may_make_it_too() -> None:
    async def make() -> Any:
        await asyncio.sleep(0)
        return an_agent()

    (trial,) = play(make)

    assert trial.transcript.reply == "success (no tool calls)"


def test_a_wrapped_tool_inside_a_framework_is_told_once() -> None:
    @seatrial.tool
    def add_up(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    (trial,) = play(an_agent(tools=[add_up]))

    assert [(call.name, call.result) for call in trial.transcript.tool_calls] == [("add_up", 0)]


def test_outside_of_trials_the_framework_is_what_it_was() -> None:
    agent = an_agent(tools=[add])
    play(agent, mocks={"add": {"returns": 42}})

    assert asyncio.run(agent.run("again")).output == '{"add":0}'


def test_a_call_that_waits_for_approval_is_no_sign_that_the_tool_was_not_called() -> None:
    (trial,) = play(an_agent_that_asks_before_it_adds(), expect={"tool_calls_exclude": ["add"]})

    assert trial.error.kind is ErrorKind.CONFIG
    assert "the agent waits for a person to approve add" in trial.error.message


def test_a_mock_needs_no_approval() -> None:
    (trial,) = play(an_agent_that_asks_before_it_adds(), mocks={"add": {"returns": 42}})

    assert trial.error is None
    assert [(call.name, call.result) for call in trial.transcript.tool_calls] == [("add", 42)]


def test_tokens_that_the_provider_does_not_tell_are_not_known() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    with ModelServer([ServerReply(content="Hello.", usage=None)]) as server:
        provider = OpenAIProvider(base_url=server.base_url, api_key="none")
        (trial,) = play(Agent(OpenAIChatModel("m", provider=provider)), limits={"tokens": 100})

    assert trial.transcript.usage is None
    assert "tokens of the trial is not known" in trial.error.message


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def an_agent(**settings: Any) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    return Agent(TestModel(), **settings)


def an_agent_that_asks_before_it_adds() -> Any:
    from pydantic_ai import DeferredToolRequests, Tool

    return an_agent(tools=[Tool(add, requires_approval=True)], output_type=[str, DeferredToolRequests])


def play(target: Any, *, trials: int = 1, **more: Any) -> list[Any]:
    agent = {"type": "pydantic_ai", "target": target}
    return list(seatrial.run(Scenario(name="x", input="hi", **more), agent=agent, store=None, trials=trials).trials())


# Objects without a type


def an_object_of(module: str, **methods: Any) -> Any:
    return type("Thing", (), {"__module__": module, **methods})()


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        ("langgraph.graph.state", "langgraph"),
        ("langchain_core.runnables.base", "langchain"),
        ("pydantic_ai.agent", "pydantic_ai"),
        ("smolagents.agents", "smolagents"),
        ("crewai.crew", "crewai"),
        ("google.adk.agents.llm_agent", "google_adk"),
        ("llama_index.core.agent.workflow.function_agent", "llama_index"),
        ("strands.agent.agent", "strands"),
        ("claude_agent_sdk.types", "claude_agent_sdk"),
        ("agent_framework._agents", "agent_framework"),
    ],
)
def test_an_object_of_a_framework_is_recognised_by_its_module(module: str, kind: str) -> None:
    assert framework_of(an_object_of(module, run=lambda self, task: task)) == kind


def test_a_users_own_package_named_agents_is_not_taken_for_openais(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = an_object_of("agents.agent", run=lambda self, input: input)
    monkeypatch.setitem(sys.modules, "agents", ModuleType("agents"))
    assert framework_of(agent) is None
    monkeypatch.setattr(sys.modules["agents"], "function_tool", object(), raising=False)
    assert framework_of(agent) == "openai_agents"


def test_a_subclass_with_a_run_of_its_own_is_the_users_agent() -> None:
    base = type("Base", (), {"__module__": "smolagents.agents", "run": lambda self, task: task})
    own = type("Own", (base,), {"__module__": "shop", "run": lambda self, input: f"own {input}"})
    assert framework_of(own()) is None


def test_a_framework_that_is_recognised_and_missing_is_named_with_its_extra() -> None:
    with pytest.raises(MissingExtra, match=r"an agent of type 'crewai' .*seatrial\[crewai\]"):
        resolve_agent(an_object_of("crewai.crew"))


def test_an_object_of_a_framework_that_is_no_agent_is_refused_with_its_type() -> None:
    from pydantic_ai.models.test import TestModel

    with pytest.raises(UsageError, match=r"needs a pydantic_ai\.Agent, got TestModel") as refused:
        resolve_agent(TestModel(), name="shop:model")
    assert "{type: pydantic_ai, target: shop:model}" in str(refused.value)
