"""The OpenAI Agents SDK's own examples with a fake model: context, tools that need approval, guardrails."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    Model,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    Usage,
    function_tool,
    input_guardrail,
    output_guardrail,
    set_tracing_disabled,
)
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.entries import File
from agents.sandbox.sandboxes import UnixLocalSandboxClient
from agents.testing import assistant_message, function_call

import seatrial
from seatrial import Expect, Scenario, Turn
from seatrial.model.conversation import ErrorKind

set_tracing_disabled(True)


class Caller(Model):
    """Calls all tools that it is given, then says what they returned. (The examples ask gpt-5.)"""

    def __init__(self, arguments: dict[str, Any] | None = None) -> None:
        self._arguments = arguments or {}

    async def get_response(self, system_instructions: str | None, input: Any, *args: Any, **options: Any) -> Any:
        tools = args[1] if len(args) > 1 else options["tools"]
        items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        last = max(place for place, item in enumerate(items) if item.get("role") == "user")
        told = [item["output"] for item in items[last:] if item.get("type") == "function_call_output"]
        if told or not tools:
            output = [assistant_message("; ".join(told) or f"Hello! {system_instructions or ''}".strip())]
        else:
            output = [
                function_call(tool.name, self._arguments.get(tool.name, {}), call_id=f"call_{len(items)}_{place}")
                for place, tool in enumerate(tools)
            ]
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=output, usage=usage, response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


# The README's agents, and functions and handoffs as in the examples.


poet = Agent(name="Assistant", instructions="You are a helpful assistant", model=Caller())


def test_the_agent_of_the_readme_runs_unchanged() -> None:
    trial = play(poet, input="Write a haiku about recursion in programming.", expected_output="helpful assistant")

    assert (trial.status, trial.transcript.tool_calls) == ("passed", ())


@function_tool
def get_weather(city: str) -> str:
    return f"The weather in {city} is sunny."


hello = Agent(name="Hello world", tools=[get_weather], model=Caller({"get_weather": {"city": "Tokyo"}}))
spanish = Agent(name="Spanish agent", instructions="¡Hola!", model=Caller())


class Handing(Caller):
    async def get_response(self, system_instructions: str | None, input: Any, *args: Any, **options: Any) -> Any:
        answer = await super().get_response(system_instructions, input, *args, **options)
        return ModelResponse(
            output=[function_call("transfer_to_spanish_agent", {}, call_id="call_1")],
            usage=answer.usage,
            response_id=None,
        )


triage = Agent(name="Triage agent", handoffs=[spanish], model=Handing())


def test_a_function_of_the_readme_is_called() -> None:
    trial = play(hello, input="What's the weather in Tokyo?", expected_tools=["get_weather"])

    assert (trial.error, trial.transcript.reply) == (None, "The weather in Tokyo is sunny.")


def test_the_triage_of_the_readme_hands_over() -> None:
    trial = play(triage, input="Hola, ¿cómo estás?", expected_tools=["transfer_to_spanish_agent"])

    assert trial.error is None
    assert "Spanish agent" in trial.transcript.reply


def make_config() -> RunConfig:
    return RunConfig(sandbox=SandboxRunConfig(client=UnixLocalSandboxClient()))


class Reader(Caller):
    """Looks at a file of the workspace with the sandbox's own tool."""

    async def get_response(self, system_instructions: str | None, input: Any, *args: Any, **options: Any) -> Any:
        tools = [tool for tool in (args[1] if len(args) > 1 else options["tools"]) if tool.name == "exec_command"]
        given = (args[0], tools, *args[2:]) if len(args) > 1 else args
        more = {**options, "tools": tools} if "tools" in options else options
        return await super().get_response(system_instructions, input, *given, **more)


workspace = SandboxAgent(
    name="Workspace Assistant",
    instructions="Inspect the sandbox workspace before answering.",
    model=Reader({"exec_command": {"cmd": "cat notes.txt"}}),
    default_manifest=Manifest(entries={"notes.txt": File(content=b"The tide is high.")}),
)


@pytest.mark.parametrize("config", ["test_quick_start:make_config", make_config, make_config()])
def test_the_sandbox_agent_of_the_readme_runs_with_its_config(config: Any) -> None:
    agent = {"type": "openai_agents", "target": workspace, "config": config}
    asked = Scenario(name="x", input="Summarize the notes.", expected_tools=["exec_command"])
    report = seatrial.run(asked, agent=agent, store=None)

    assert report.passed, report.failure_reasons
    (trial,) = report.trials()
    assert "The tide is high." in trial.transcript.reply


def test_function_tools_of_a_sandbox_are_mocked() -> None:
    agent = {"type": "openai_agents", "target": workspace, "config": make_config}
    mocks = {"exec_command": {"returns": "The tide is low."}}
    asked = Scenario(name="x", input="Go.", mocks=mocks, unmocked_tools="passthrough")
    report = seatrial.run(asked, agent=agent, store=None)

    assert report.passed, report.failure_reasons
    (trial,) = report.trials()
    assert trial.transcript.reply == "The tide is low."


def test_a_config_that_is_none_is_a_mistake_of_the_settings() -> None:
    agent = {"type": "openai_agents", "target": poet, "config": {"modle": "gpt-5"}}
    report = seatrial.run(Scenario(name="x", input="Go."), agent=agent, store=None)
    report.asserted = True
    (trial,) = report.trials()

    assert trial.error.kind is ErrorKind.CONFIG
    assert "config is no RunConfig" in trial.error.message
    assert "modle" in trial.error.message


@dataclass
class UserInfo:
    name: str
    uid: int


@function_tool
async def fetch_user_age(wrapper: RunContextWrapper[UserInfo]) -> str:
    """Fetch the age of the user. Call this function to get user's age information."""
    return f"The user {wrapper.context.name} is 47 years old"


def make_context() -> UserInfo:
    return UserInfo(name="John", uid=123)


assistant = Agent[UserInfo](name="Assistant", tools=[fetch_user_age], model=Caller())
untyped = Agent(name="Assistant", tools=[fetch_user_age], model=Caller())


def play(target: Any, *, context: Any = None, **scenario: Any) -> Any:
    agent = {"type": "openai_agents", "target": target} | ({} if context is None else {"context": context})
    report = seatrial.run(Scenario(name="x", **scenario), agent=agent, store=None)
    report.asserted = True
    (trial,) = report.trials()
    return trial


@pytest.mark.parametrize("context", ["test_quick_start:make_context", make_context, make_context()])
def test_tools_get_the_context(context: Any) -> None:
    trial = play(assistant, context=context, input="What is the age of the user?")

    assert trial.error is None
    assert trial.transcript.reply == "The user John is 47 years old"
    assert trial.transcript.usage.input_tokens == 20


@pytest.mark.parametrize("target", [assistant, untyped], ids=["typed", "untyped"])
def test_a_missing_context_is_a_mistake_of_the_settings(target: Any) -> None:
    trial = play(target, input="What is the age of the user?")

    assert trial.error.kind is ErrorKind.CONFIG
    assert "context" in trial.error.message
    assert 'context: "package.module:make_context"' in trial.error.hint


# Human in the loop.


@function_tool(needs_approval=True)
async def cancel_order(order_id: int) -> str:
    """Cancel an order."""
    return f"Cancelled order {order_id}"


async def needs_oakland_approval(context: Any, parameters: dict[str, Any], call_id: str) -> bool:
    return "Oakland" in parameters["city"]


@function_tool(needs_approval=needs_oakland_approval)
async def get_temperature(city: str) -> str:
    """Get the temperature of a city."""
    return f"The temperature in {city} is 20° Celsius"


clerk = Agent(
    name="Clerk",
    tools=[cancel_order, get_temperature],
    model=Caller({"cancel_order": {"order_id": 101}, "get_temperature": {"city": "Berlin"}}),
)
ASK = Turn(user="Cancel order 101.")


def test_an_approved_call_is_made_in_the_turn_of_the_approval() -> None:
    trial = play(clerk, turns=[ASK, Turn(approve=["cancel_order"]), Turn(user="Again.", expect=None)][:2])

    assert trial.error is None
    asked, decided = trial.transcript.turns
    assert (asked.reply, [call.name for call in asked.tool_calls]) == (
        "(waits for approval: cancel_order)",
        ["get_temperature"],
    )
    assert [(call.name, call.result) for call in decided.tool_calls] == [("cancel_order", "Cancelled order 101")]
    assert "Cancelled order 101" in decided.reply


def test_a_rejected_call_is_recorded_as_rejected() -> None:
    trial = play(clerk, turns=[ASK, Turn(reject=["cancel_order"])])

    assert trial.error is None
    assert [(call.name, call.error) for call in trial.transcript.turns[1].tool_calls] == [
        ("cancel_order", "rejected by the user")
    ]


def test_the_conversation_goes_on_after_a_decision() -> None:
    trial = play(clerk, turns=[ASK, Turn(approve=["cancel_order"]), ASK, Turn(reject=["cancel_order"])])

    assert trial.error is None
    calls = [[(call.name, call.error) for call in turn.tool_calls] for turn in trial.transcript.turns]
    assert calls == [
        [("get_temperature", None)],
        [("cancel_order", None)],
        [("get_temperature", None)],
        [("cancel_order", "rejected by the user")],
    ]


def test_an_approval_comes_before_a_mock() -> None:
    mocks = {"cancel_order": {"returns": "mocked"}, "get_temperature": {"returns": "cold"}}
    trial = play(clerk, turns=[ASK, Turn(approve=["cancel_order"])], mocks=mocks)

    assert trial.error is None
    assert [(call.name, call.result, call.real) for call in trial.transcript.tool_calls] == [
        ("get_temperature", "cold", False),
        ("cancel_order", "mocked", False),
    ]


@pytest.mark.parametrize(
    ("turns", "kind", "text"),
    [
        ([ASK], ErrorKind.CONFIG, "waits for a person to approve cancel_order"),
        ([ASK, Turn(user="Yes.")], ErrorKind.CONFIG, "waits for a person to approve cancel_order"),
        ([ASK, Turn(approve=["get_temperature"])], ErrorKind.AGENT, "the agent waits for cancel_order"),
        ([Turn(approve=["cancel_order"])], ErrorKind.AGENT, "the agent waits for nothing"),
        ([ASK, Turn(resume={"a": 1})], ErrorKind.CONFIG, "write approve or reject"),
    ],
)
def test_a_wrong_decision_is_errored(turns: list[Turn], kind: ErrorKind, text: str) -> None:
    trial = play(clerk, turns=turns)

    assert trial.error.kind is kind
    assert text in trial.error.message


# Guardrails.


@input_guardrail
async def math_guardrail(context: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
    said = input if isinstance(input, str) else input[-1]["content"]
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="solve" in said)


@output_guardrail(name="no greetings")
async def greeting_guardrail(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="Bye" in output)


guarded = Agent(
    name="Support", model=Caller(), input_guardrails=[math_guardrail], output_guardrails=[greeting_guardrail]
)
polite = Agent(name="Support", instructions="Bye", model=Caller(), output_guardrails=[greeting_guardrail])


def test_an_expected_guardrail_passes_and_the_conversation_goes_on() -> None:
    turns = [
        Turn(user="Please solve 2x + 3 = 11", expect=Expect(guardrail="math_guardrail")),
        Turn(user="Good morning!", expect=Expect(reply_contains_any=["Hello!"])),
    ]
    trial = play(guarded, turns=turns)

    assert trial.status == "passed", (trial.error, trial.failure_reasons)
    assert [turn.guardrail for turn in trial.transcript.turns] == ["math_guardrail", None]


def test_a_guardrail_of_the_output_has_its_name() -> None:
    trial = play(polite, input="Hello.", expect=Expect(guardrail="no greetings"))

    assert trial.status == "passed", (trial.error, trial.failure_reasons)


def test_a_guardrail_that_does_not_stop_the_agent_fails() -> None:
    trial = play(guarded, input="Good morning!", expect=Expect(guardrail="math_guardrail"))

    assert trial.status == "failed"
    assert "must stop the agent, but no guardrail did" in str(trial.failure_reasons)


def test_a_guardrail_that_nobody_expects_is_an_error_of_the_agent() -> None:
    trial = play(guarded, input="Please solve 2x + 3 = 11")

    assert trial.error.kind is ErrorKind.AGENT
    assert "the guardrail 'math_guardrail' stopped the agent" in trial.error.message


# A function of the user's own that runs the agent and returns what the SDK gives.


async def ask(input: str) -> Any:
    return await Runner.run(assistant, input, context=make_context())


async def ask_clerk(input: str) -> Any:
    return await Runner.run(clerk, input)


def run_function(function: Any) -> Any:
    report = seatrial.run(Scenario(name="x", input="What is the age?"), agent=function, store=None)
    report.asserted = True
    (trial,) = report.trials()
    return trial


def test_a_function_may_return_the_result() -> None:
    trial = run_function(ask)

    assert trial.error is None
    assert trial.transcript.reply == "The user John is 47 years old"
    assert [(call.name, call.result) for call in trial.transcript.tool_calls] == [
        ("fetch_user_age", "The user John is 47 years old")
    ]
    assert trial.transcript.calls_complete
    assert trial.transcript.usage.input_tokens == 20


def test_a_result_that_waits_for_an_approval_is_no_reply() -> None:
    assert "waits for a person to approve cancel_order" in run_function(ask_clerk).error.message
