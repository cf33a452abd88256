"""Every public name, used as a user would. Type checkers in strict mode must accept this file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import seatrial
from seatrial import (
    AgentReply,
    AgentResult,
    Attachment,
    Contains,
    ContainsEvaluator,
    EndState,
    EvalResult,
    Evaluator,
    Exact,
    Expect,
    Invariant,
    JsonSchema,
    Judge,
    JudgeEvaluator,
    Limits,
    PassFail,
    Regex,
    Report,
    Scenario,
    Similarity,
    Suite,
    SuiteConfig,
    ToolArgs,
    ToolCall,
    ToolCallArgsEvaluator,
    ToolCallEvaluator,
    ToolCalls,
    ToolError,
    Trajectory,
    TrialContext,
    Turn,
    TurnContext,
    Usage,
    UsageError,
    User,
    World,
    arun,
    attack,
    check,
    compare,
    evaluator,
    load,
    mutate,
    run,
    tool,
)
from seatrial_pytest.fixture import Seatrial


class Concise:
    """An evaluator without a base class."""

    def __init__(self, words: int = 50) -> None:
        self.words = words

    async def evaluate(self, ctx: TurnContext | TrialContext) -> EvalResult:
        used = len(ctx.reply.split())
        return EvalResult(passed=used <= self.words, reasoning=f"{used} words", score=1.0)


def pay(state: dict[str, Any], order_id: str) -> str:
    state["paid"] = order_id
    return "paid"


SHOP = World(seed={"paid": None}, tools=[pay], ends=["pay"], errors="Error: {error}")
RULE = Invariant(never="pay", before="verify")
PAID = Scenario(name="pays", input="Pay W1", world=SHOP, end_state=EndState(as_after=[{"pay": {"order_id": "W1"}}]))


@evaluator
def polite(ctx: TurnContext) -> bool:
    return "please" in ctx.reply.lower() or not ctx.tools_called


@evaluator(name="on_topic", threshold=0.8)
async def on_topic(ctx: TrialContext) -> tuple[bool, str]:
    return ctx.transcript.turns[-1].reply is not None, "looked at the last reply"


@tool
def lookup(order: str) -> dict[str, str]:
    if not order:
        raise ToolError("no such order")
    return {"order": order}


status: str = lookup("ORD-1")["order"]


def agent(input: str) -> AgentResult:
    calls = [ToolCall("lookup", {"order": "ORD-1"}), ToolCall(name="refund", arguments={"amount": 5})]
    receipt = Attachment.of(b"order A-1", name="receipt.txt")
    usage = Usage(input_tokens=10, output_tokens=5)
    return AgentResult(f"Done: {input}", tool_calls=calls, usage=usage, cost_usd=0.01, attachments=[receipt])


class Session:
    """An agent of the user's own kind, during one trial."""

    async def respond(self, messages: Sequence[Mapping[str, Any]], *, timeout: float) -> AgentReply:
        return AgentReply(reply=f"{len(messages)} messages, {timeout} s", tool_calls=(ToolCall("lookup"),))

    async def close(self) -> None:
        pass


by_position: Sequence[Evaluator] = [
    Contains(["refunded"]),
    Exact("Done."),
    Regex(r"ORD-\d+"),
    Similarity("It was refunded."),
    ToolCalls(["refund"]),
    ToolArgs("refund", {"amount": {"$gt": 0}}),
    Trajectory(["lookup", {"name": "refund", "count": 1}]),
    Judge("Confirms the refund."),
    JsonSchema({"type": "object"}),
    Concise(),
    polite,
    on_topic,
]
by_keyword: Sequence[Evaluator] = [
    Contains(any_of=["a"], all_of=["b"], matches_any=["c"], matches_all=["d"], none_of=["e"], case_sensitive=True),
    Exact(expected="Done.", normalize=False),
    Regex(pattern="a"),
    Similarity(expected="a", threshold=0.8),
    ToolCalls(must_include=("a",), must_exclude=["b"], ordered=True),
    ToolArgs(tool="a", args={}, mode="exact", calls="all", judge=Judge("Sensible.")),
    Trajectory(expected=("a",), mode="strict", forbidden=["b"]),
    Judge(rubric="a", model="openai:gpt-5-mini", retries=1, timeout=10, votes=3),
    Judge("a", {"model": "openai:gpt-5-mini", "base_url": "http://localhost:1/v1"}),
    JsonSchema(schema=True),
    Limits(latency_ms=1000, cost_usd=0.1, tokens=500, tool_calls=3, turns=2),
    PassFail(expected_tools=["a"], expected_tool_args={"a": {"b": 1}}, expected_output="x"),
]
of_pytest_agent_eval: Sequence[Evaluator] = [
    ContainsEvaluator(["a"], ["b"]),
    ContainsEvaluator(any_of=["a"], all_of=["b"]),
    ToolCallEvaluator(["a"], ["b"], True),
    ToolCallArgsEvaluator("a", {"b": 1}, "exact"),
    JudgeEvaluator("Greets.", "openai:gpt-5-mini", 2, 30.0),
]

scenario = Scenario(
    name="refund",
    turns=[
        Turn(user="Refund ORD-1.", expect=Expect(reply_contains_any=["refunded"], evaluators=[polite, Concise(20)])),
        Turn(user="Thanks.", reply="optional", trajectory=Trajectory([], mode="strict")),
    ],
    expect=Expect(
        judge=Judge("Confirms the refund."),
        tool_calls_args=[ToolArgs("refund", {"order": "ORD-1"}), ToolArgs("refund", judge=Judge("Sensible amount."))],
    ),
    trajectory=Trajectory(["lookup", "refund"], mode="in_order"),
    limits=Limits(turns=4),
    scorers=[PassFail(), Regex("ORD"), "exact", {"regex": "ORD"}],
    mocks={"lookup": {"returns": {"status": "shipped"}}},
    trials="auto",
)
simulated = Scenario(
    name="simulated", user=User(goal="Get a refund.", knowledge=["ORD-1"]), expected_outcomes=["Done."]
)
suite = Suite(name="shop", agent=agent, scenarios=[scenario, simulated], config=SuiteConfig(trials=3, concurrency=2))


def play(folder: Path) -> str:
    """The commands of the Python API."""
    report: Report = run([folder, "more.yaml", suite, scenario], agent=agent, trials=3, store=None)
    names = [loaded.suite.name for loaded in load(folder)]
    difference = compare("baseline", report, max_pass_rate_drop=0.1)
    mutate(report, suite)
    try:
        check(report)
    except UsageError as mistake:
        return str(mistake)
    mutated = mutate(report)
    attacked: Report = attack(suite, agent=agent, families=["direct"], limit=10)
    return f"{report.passed} {attacked.passed} {names} {difference.regression_detected} {mutated}"


async def play_async() -> bool:
    report = await arun(suite)
    result = await Contains(["x"]).evaluate(TurnContext("Hi", "x", [ToolCall("a")]))
    mine: EvalResult = await polite.evaluate(TurnContext(reply="please"))
    return report.passed and result.passed and mine.passed


def test_refund(seatrial: Seatrial) -> None:
    result = seatrial.run(scenario, trials=3)
    seatrial.check(result, Contains(["refunded"]), polite)
    assert result.passed


async def test_refund_async(seatrial: Seatrial) -> None:
    result = await seatrial.run("Refund ORD-1.", agent=agent)
    assert result.passed


public: dict[str, Any] = {name: getattr(seatrial, name) for name in seatrial.__all__}
