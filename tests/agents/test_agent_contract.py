"""The contract of agents can be held, and can be broken in every clause."""

import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import seatrial
from seatrial import AgentResult, ToolCall, Usage
from seatrial.testing import shop
from seatrial.testing.agent_contract import AgentContract


@seatrial.tool
def wait_for_courier() -> str:
    time.sleep(shop.COURIER_SECONDS)
    return "here"


TOOLS: dict[str, Callable[..., Any]] = {
    "lookup_order": seatrial.tool(shop.lookup_order),
    "track_parcel": seatrial.tool(shop.track_parcel),
    "refund_order": seatrial.tool(shop.refund_order),
    "wait_for_courier": wait_for_courier,
    "ask_expert": seatrial.tool(lambda question: Shop().talk([{"role": "user", "content": question}]).output),
}
TOOLS["ask_expert"].__name__ = "ask_expert"


class Shop:
    """An agent in plain Python, which works in the shop as its model says."""

    tools = TOOLS

    def __init__(self) -> None:
        self.said: list[Any] = []

    def run(self, messages: list[Any]) -> AgentResult:
        self.said += messages[:-1] if not self.said else []
        self.said.append(messages[-1])
        return self.talk(self.said)

    def talk(self, said: list[Any]) -> AgentResult:
        unknown: list[ToolCall] = []
        tokens = 0
        while True:
            tokens += 10
            step = shop.next_step(said)
            if isinstance(step, str):
                said.append({"role": "assistant", "content": step})
                return AgentResult(step, unknown, Usage(input_tokens=tokens, output_tokens=tokens))
            if step.name not in self.tools:
                unknown.append(ToolCall(step.name, step.arguments, error="no such tool", started_ms=0, duration_ms=0))
                said.append({"role": "tool", "content": "no such tool"})
            else:
                said.append({"role": "tool", "content": self.use(step)})

    def use(self, step: shop.Call) -> str:
        try:
            return str(self.tools[step.name](**step.arguments))
        except (shop.ShopError, seatrial.ToolError) as error:
            return str(error)


CONTRACT = AgentContract(agent=Shop)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_an_agent_can_hold_it(clause: str) -> None:
    CONTRACT.check(clause)


class Silent(Shop):
    def talk(self, said: list[Any]) -> Any:
        return super().talk(said).output


class Bare(Shop):
    """Its tools are not Seatrial's: they are neither told nor mocked."""

    tools: ClassVar = {tool.__name__: tool for tool in (shop.lookup_order, shop.track_parcel, shop.refund_order)}


class Twice(Shop):
    def use(self, step: shop.Call) -> str:
        super().use(step)
        return super().use(step)


class Forgetful(Shop):
    def run(self, messages: list[Any]) -> AgentResult:
        return self.talk(messages[-1:])


class Mixed(Shop):
    everybody: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        self.said = self.everybody


class Deaf(Shop):
    def run(self, messages: list[Any]) -> AgentResult:
        self.said.append(messages[-1])
        return self.talk(self.said)


class Hasty(Shop):
    tools: ClassVar = {**TOOLS, "wait_for_courier": lambda: "here"}


class Cheap(Shop):
    def talk(self, said: list[Any]) -> AgentResult:
        return AgentResult(super().talk(said).output, [])


class Cheerful(Shop):
    def use(self, step: shop.Call) -> str:
        return str(self.tools[step.name](**step.arguments))


@pytest.mark.parametrize(
    ("agent", "clause"),
    [
        (Silent, "a reply is recorded, without tool calls"),
        (Bare, "two calls are recorded with arguments and results"),
        (Bare, "a tool's error is recorded"),
        (Bare, "mocks answer, separately for each trial"),
        (Bare, "a mock's error reaches the agent"),
        (Twice, "two calls are recorded with arguments and results"),
        (Twice, "each turn has only its own calls"),
        (Silent, "a call of an unknown tool is recorded"),
        (Forgetful, "the second turn remembers the first"),
        (Mixed, "parallel trials do not mix"),
        (Deaf, "the scenario's history reaches the agent"),
        (Hasty, "an agent that exceeds its timeout is errored"),
        (Cheap, "tokens are recorded"),
        (Cheerful, "a tool's error is recorded"),
    ],
)
def test_an_agent_that_breaks_it_is_found_out(agent: type, clause: str) -> None:
    with pytest.raises(AssertionError):
        AgentContract(agent=agent).check(clause)


@pytest.mark.parametrize(
    ("clause", "contract"),
    [
        ("mocks that cannot be used are refused", AgentContract(agent=Bare, mocks=False)),
        ("a history that cannot reach the agent is refused", AgentContract(agent=Deaf, history=False)),
        ("the calls of nested agents are recorded", AgentContract(agent=Bare, nested="ask_expert")),
        ("mocks answer nested agents", AgentContract(agent=Bare, nested="ask_expert")),
        ("a handoff is recorded", AgentContract(agent=Shop, handoff="transfer_to_billing")),
        ("images and files reach the model", AgentContract(agent=Deaf, attachments=True)),
        ("images and files are refused", AgentContract(agent=Shop, attachments=False)),
    ],
)
def test_what_an_adapter_says_of_itself_is_looked_at(clause: str, contract: AgentContract) -> None:
    assert clause in contract.clauses
    with pytest.raises(AssertionError):
        contract.check(clause)
