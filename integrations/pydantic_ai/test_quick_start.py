"""pydantic-ai's own examples with a fake model: the bank of its README, which needs deps, and deferred tools."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import seatrial
from seatrial import Expect, Scenario, Turn
from seatrial.model.conversation import ErrorKind


class DatabaseConn:
    async def customer_name(self, *, id: int) -> str | None:
        return "John" if id == 123 else None

    async def customer_balance(self, *, id: int, include_pending: bool) -> float:
        return 123.45 if id == 123 else 0.0


@dataclass
class SupportDependencies:
    customer_id: int
    db: DatabaseConn


class SupportOutput(BaseModel):
    support_advice: str = Field(description="Advice returned to the customer")
    block_card: bool = Field(description="Whether to block the customer's card")
    risk: int = Field(description="Risk level of query", ge=0, le=10)


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Asks for the balance, then fills in the form. (The README asks gpt-5.)"""
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if not returned:
        return ModelResponse(parts=[ToolCallPart("customer_balance", {"include_pending": True})])
    greeting = str(info.instructions or "")
    name = greeting.rpartition("name is ")[2].strip("'\"")
    advice = {"support_advice": f"Hello {name}, you have {returned[0].content}.", "block_card": False, "risk": 1}
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, advice)])


support_agent = Agent(
    FunctionModel(answer),
    deps_type=SupportDependencies,
    output_type=SupportOutput,
    instructions=(
        "You are a support agent in our bank, give the customer support and judge the risk level of their query."
    ),
)


@support_agent.instructions
async def add_customer_name(ctx: RunContext[SupportDependencies]) -> str:
    customer_name = await ctx.deps.db.customer_name(id=ctx.deps.customer_id)
    return f"The customer's name is {customer_name!r}"


@support_agent.tool
async def customer_balance(ctx: RunContext[SupportDependencies], include_pending: bool) -> float:
    """Returns the customer's current account balance."""
    return await ctx.deps.db.customer_balance(id=ctx.deps.customer_id, include_pending=include_pending)


MADE: list[int] = []


def make_deps() -> SupportDependencies:
    MADE.append(1)
    return SupportDependencies(customer_id=123, db=DatabaseConn())


async def make_deps_later() -> SupportDependencies:
    return make_deps()


def play(agent: Any, **scenario: Any) -> Any:
    report = seatrial.run(Scenario(name="x", **scenario), agent=agent, store=None)
    report.asserted = True
    (trial,) = report.trials()
    return trial


def bank(**settings: Any) -> dict[str, Any]:
    return {"type": "pydantic_ai", "target": support_agent, **settings}


def test_the_bank_gets_its_deps_in_another_process() -> None:
    agent = {"type": "pydantic_ai", "target": "test_quick_start:support_agent", "deps": "test_quick_start:make_deps"}
    scenario = Scenario(name="x", input="What is my balance?", expected_tools=["customer_balance"])
    report = seatrial.run(scenario, agent=agent, store=None, isolation="process")

    assert report.passed, report.failure_reasons


@pytest.mark.parametrize(
    "deps",
    [
        "test_quick_start:make_deps",
        make_deps,
        make_deps_later,
        make_deps(),
        {"customer_id": 123, "db": DatabaseConn()},
    ],
    ids=["path", "function", "async function", "value", "mapping"],
)
def test_the_bank_gets_its_deps(deps: Any) -> None:
    expect = Expect(reply_json={"risk": {"$lte": 3}, "block_card": False}, tool_calls_include=["customer_balance"])
    trial = play(bank(deps=deps), input="What is my balance?", expect=expect)

    assert trial.error is None
    assert trial.status == "passed", trial.failure_reasons
    assert "Hello John, you have 123.45." in trial.transcript.reply


def test_a_mock_replaces_a_tool_that_needs_deps() -> None:
    trial = play(bank(deps=make_deps), input="What is my balance?", mocks={"customer_balance": {"returns": 7}})

    assert "you have 7." in trial.transcript.reply


def test_a_function_makes_deps_for_each_trial() -> None:
    MADE.clear()
    report = seatrial.run(
        Scenario(name="x", input="What is my balance?"), agent=bank(deps=make_deps), trials=3, store=None
    )
    report.asserted = True

    assert len(list(report.trials())) == 3
    assert len(MADE) == 3


def test_missing_deps_are_a_mistake_of_the_settings_with_the_line_to_write() -> None:
    trial = play(bank(), input="What is my balance?")

    assert trial.error.kind is ErrorKind.CONFIG
    assert "the agent needs deps of type SupportDependencies" in trial.error.message
    assert 'deps: "package.module:make_deps"' in trial.error.hint


def test_deps_that_cannot_be_made_are_a_mistake_of_the_settings() -> None:
    def broken() -> Any:
        raise ConnectionError("no database")

    trial = play(bank(deps=broken), input="What is my balance?")

    assert trial.error.kind is ErrorKind.CONFIG
    assert "deps cannot be made: ConnectionError: no database" in trial.error.message


# Deferred tools, as in the documentation's first example.

PROTECTED = {".env"}


def clean_up(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    told = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if told:
        return ModelResponse(parts=[TextPart("; ".join(str(part.content) for part in told))])
    return ModelResponse(
        parts=[
            ToolCallPart("delete_file", {"path": "__init__.py"}),
            ToolCallPart("update_file", {"path": "README.md", "content": "Hello"}),
            ToolCallPart("update_file", {"path": ".env", "content": ""}),
        ]
    )


def editor() -> Agent[None, Any]:
    agent = Agent(FunctionModel(clean_up), output_type=[str, DeferredToolRequests])

    @agent.tool
    def update_file(ctx: RunContext, path: str, content: str) -> str:
        if path in PROTECTED and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": "protected"})
        return f"File {path!r} updated: {content!r}"

    @agent.tool_plain(requires_approval=True)
    def delete_file(path: str) -> str:
        return f"File {path!r} deleted"

    return agent


EDITOR = {"type": "pydantic_ai", "target": editor}


def test_a_turn_approves_one_call_and_rejects_another() -> None:
    turns = [Turn(user="Clean up."), Turn(approve=["update_file"], reject=["delete_file"])]
    trial = play(EDITOR, turns=turns)

    assert trial.error is None
    asked, decided = trial.transcript.turns
    assert asked.reply == "(waits for approval: delete_file, update_file)"
    assert [(call.name, call.arguments["path"]) for call in asked.tool_calls] == [("update_file", "README.md")]
    assert {(call.name, call.arguments["path"], call.error) for call in decided.tool_calls} == {
        ("delete_file", "__init__.py", "rejected by the user"),
        ("update_file", ".env", None),
    }
    assert "File '.env' updated" in decided.reply


def test_an_approval_comes_before_a_mock() -> None:
    turns = [Turn(user="Clean up."), Turn(approve=["delete_file"])]
    mocks = {"delete_file": {"returns": "gone"}, "update_file": {"returns": "changed"}}
    trial = play(EDITOR, turns=turns, mocks=mocks)

    assert trial.error is None
    assert [[call.name for call in turn.tool_calls] for turn in trial.transcript.turns] == [
        ["update_file", "update_file"],
        ["delete_file"],
    ]


def test_without_decisions_a_mock_needs_no_approval() -> None:
    trial = play(EDITOR, input="Clean up.", mocks={"delete_file": {"returns": "gone"}, "update_file": {"returns": "x"}})

    assert trial.error is None
    assert len(trial.transcript.tool_calls) == 3


@pytest.mark.parametrize(
    ("turns", "kind", "text"),
    [
        ([Turn(user="Clean up.")], ErrorKind.CONFIG, "waits for a person to approve delete_file, update_file"),
        ([Turn(user="Clean up."), Turn(user="Yes.")], ErrorKind.CONFIG, "waits for a person to approve"),
        ([Turn(user="Clean up."), Turn(approve=["delete_file"])], ErrorKind.CONFIG, "approve update_file"),
        (
            [Turn(user="Clean up."), Turn(approve=["format_disk"])],
            ErrorKind.AGENT,
            "a person decides about 'format_disk', but the agent waits for delete_file, update_file",
        ),
    ],
)
def test_what_nobody_decided_is_errored(turns: list[Turn], kind: ErrorKind, text: str) -> None:
    trial = play(EDITOR, turns=turns)

    assert trial.error.kind is kind
    assert text in trial.error.message


# A function of the user's own that runs the agent and returns what the SDK gives.


async def ask_bank(input: str) -> Any:
    return await support_agent.run(input, deps=make_deps())


async def ask_bank_for_messages(input: str) -> Any:
    return (await support_agent.run(input, deps=make_deps())).all_messages()


async def ask_bank_for_output(input: str) -> Any:
    return (await support_agent.run(input, deps=make_deps())).output


@pytest.mark.parametrize("agent", [ask_bank, ask_bank_for_messages], ids=["result", "messages"])
def test_a_function_may_return_the_result_or_the_messages(agent: Any) -> None:
    trial = play(agent, input="What is my balance?", expect=Expect(tool_calls_exclude=["block_card"]))

    assert trial.status == "passed", (trial.error, trial.failure_reasons)
    assert trial.transcript.usage is not None
    (call,) = [call for call in trial.transcript.tool_calls if call.name == "customer_balance"]
    assert (call.arguments, call.result) == ({"include_pending": True}, 123.45)


def test_a_function_may_return_a_model_which_says_nothing_about_calls() -> None:
    trial = play(ask_bank_for_output, input="What is my balance?", expect=Expect(reply_json={"risk": 1}))

    assert trial.status == "passed", (trial.error, trial.failure_reasons)
    assert not trial.transcript.calls_complete
