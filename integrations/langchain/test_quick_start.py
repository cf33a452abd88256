"""LangChain's own examples with a fake model: an agent with a context, and the human-in-the-loop middleware."""

from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

import seatrial
from seatrial import Scenario, Turn
from seatrial.model.conversation import ErrorKind


class Caller(BaseChatModel):
    """Makes these calls, then says what the tools returned. (The examples ask Claude.)"""

    calls: list[tuple[str, dict[str, Any]]]

    @property
    def _llm_type(self) -> str:
        return "caller"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        last = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
        told = [message.text for message in messages[last:] if isinstance(message, ToolMessage)]
        calls = [
            {"name": name, "args": args, "id": f"call_{len(messages)}_{place}"}
            for place, (name, args) in enumerate(self.calls)
        ]
        message = AIMessage("; ".join(told)) if told else AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


# The quick start: a weather forecaster that knows its user.


@dataclass
class Context:
    """Custom runtime context schema."""

    user_id: str


@tool
def get_user_location(runtime: ToolRuntime[Context]) -> str:
    """Retrieve user information based on user ID."""
    return "Florida" if runtime.context.user_id == "1" else "SF"


@tool
def get_language(config: RunnableConfig) -> str:
    """The language of the user."""
    return config["configurable"].get("language", "unknown")


def make_context() -> Context:
    return Context(user_id="1")


weather = create_agent(
    Caller(calls=[("get_user_location", {}), ("get_language", {})]),
    tools=[get_user_location, get_language],
    context_schema=Context,
    checkpointer=InMemorySaver(),
)


def play(target: Any, settings: Any = (), **scenario: Any) -> Any:
    agent = {"type": "langchain", "target": target, **dict(settings)}
    report = seatrial.run(Scenario(name="x", **scenario), agent=agent, store=None)
    report.asserted = True
    (trial,) = report.trials()
    return trial


@pytest.mark.parametrize("context", ["test_quick_start:make_context", make_context, make_context(), {"user_id": "1"}])
def test_tools_get_the_context(context: Any) -> None:
    trial = play(weather, {"context": context}, input="What is the weather outside?")

    assert trial.error is None
    assert trial.transcript.reply == "Florida; unknown"


def test_tools_get_the_config() -> None:
    settings = {"context": make_context, "config": {"configurable": {"language": "German"}, "tags": ["test"]}}
    trial = play(weather, settings, input="What is the weather outside?")

    assert trial.error is None
    assert trial.transcript.reply == "Florida; German"


def test_a_missing_context_is_a_mistake_of_the_settings() -> None:
    trial = play(weather, input="What is the weather outside?")

    assert trial.error.kind is ErrorKind.CONFIG
    assert "the agent needs a context of type Context" in trial.error.message
    assert '{type: langchain, target: ..., context: "package.module:make_context"}' in trial.error.hint


# Human in the loop.


@tool
def write_file(filename: str, content: str) -> str:
    """Write a file."""
    return f"wrote {filename}"


@tool
def execute_sql(query: str) -> str:
    """Run a query."""
    return f"ran {query}"


@tool
def read_data(name: str) -> str:
    """Read data."""
    return f"read {name}"


secretary = create_agent(
    Caller(
        calls=[
            ("read_data", {"name": "a"}),
            ("write_file", {"filename": "b", "content": "c"}),
            ("execute_sql", {"query": "DELETE"}),
        ]
    ),
    tools=[write_file, execute_sql, read_data],
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={
                "write_file": True,
                "execute_sql": {"allowed_decisions": ["approve", "reject"]},
                "read_data": False,
            }
        )
    ],
    checkpointer=InMemorySaver(),
)
ASK = Turn(user="Clean up.")
BOTH = ["write_file", "execute_sql"]


def test_a_turn_approves_one_call_and_rejects_another() -> None:
    trial = play(secretary, turns=[ASK, Turn(approve=["write_file"], reject=["execute_sql"])])

    assert trial.error is None
    asked, decided = trial.transcript.turns
    assert (asked.reply, asked.tool_calls) == ("(waits for approval: execute_sql, write_file)", ())
    calls = {call.name: call for call in decided.tool_calls}
    assert calls.keys() == {"read_data", "write_file", "execute_sql"}
    assert calls["write_file"].result == "wrote b"
    assert calls["execute_sql"].error is not None
    assert "wrote b" in decided.reply


def test_an_approval_comes_before_a_mock() -> None:
    mocks = {name: {"returns": "mocked"} for name in (*BOTH, "read_data")}
    trial = play(secretary, turns=[ASK, Turn(approve=BOTH)], mocks=mocks)

    assert trial.error is None
    assert [call.result for call in trial.transcript.tool_calls] == ["mocked"] * 3
    assert trial.transcript.turns[0].tool_calls == ()


def test_a_value_resumes_the_agent() -> None:
    edited = {"type": "edit", "edited_action": {"name": "write_file", "args": {"filename": "z", "content": ""}}}
    trial = play(secretary, turns=[ASK, Turn(resume={"decisions": [edited, {"type": "reject"}]})])

    assert trial.error is None
    assert "wrote z" in trial.transcript.reply


@pytest.mark.parametrize(
    ("turns", "kind", "text"),
    [
        ([ASK], ErrorKind.CONFIG, "waits for a person to approve execute_sql, write_file"),
        ([ASK, Turn(user="Yes.")], ErrorKind.CONFIG, "waits for a person to approve"),
        ([ASK, Turn(approve=["write_file"])], ErrorKind.CONFIG, "approve execute_sql"),
        ([ASK, Turn(approve=["read_data"])], ErrorKind.AGENT, "the agent waits for execute_sql, write_file"),
        ([Turn(approve=["write_file"])], ErrorKind.AGENT, "the agent waits for nothing"),
    ],
)
def test_a_wrong_decision_is_errored(turns: list[Turn], kind: ErrorKind, text: str) -> None:
    trial = play(secretary, turns=turns)

    assert trial.error.kind is kind
    assert text in trial.error.message


# A function of the user's own that runs the agent and returns what LangChain gives.


async def ask_for_state(messages: Any) -> Any:
    return await weather_without_memory.ainvoke({"messages": messages}, context=make_context())


async def ask_for_messages(messages: Any) -> Any:
    return (await ask_for_state(messages))["messages"]


weather_without_memory = create_agent(
    Caller(calls=[("get_user_location", {}), ("get_language", {})]),
    tools=[get_user_location, get_language],
    context_schema=Context,
)


@pytest.mark.parametrize("function", [ask_for_state, ask_for_messages], ids=["state", "messages"])
def test_a_function_may_return_the_state_or_the_messages(function: Any) -> None:
    turns = [Turn(user="What is the weather outside?"), Turn(user="And now?")]
    report = seatrial.run(Scenario(name="x", turns=turns), agent=function, store=None)
    report.asserted = True
    (trial,) = report.trials()

    assert trial.error is None
    assert [turn.reply for turn in trial.transcript.turns] == ["Florida; unknown"] * 2
    calls = [[(call.name, call.result) for call in turn.tool_calls] for turn in trial.transcript.turns]
    assert calls == [[("get_user_location", "Florida"), ("get_language", "unknown")]] * 2
