"""Shop agents made with smolagents; their model is a scripted subclass of its Model."""

import re
import time
from typing import Any, ClassVar

from smolagents import CodeAgent, Model, Tool, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import TokenUsage

from seatrial.testing import shop


class Scripted(Model):
    """Answers with a tool call, as a ToolCallingAgent wants it."""

    def generate(self, messages: list[ChatMessage], **options: Any) -> ChatMessage:
        calls = []
        for place, step in enumerate(next_steps(messages)):
            function = ChatMessageToolCallFunction(name=step.name, arguments=step.arguments)
            calls.append(ChatMessageToolCall(id=str(place), type="function", function=function))
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls, token_usage=tokens(messages))


class Coding(Model):
    """Answers with a line of Python, as a CodeAgent wants it."""

    def generate(self, messages: list[ChatMessage], **options: Any) -> ChatMessage:
        lines = []
        for step in next_steps(messages):
            given = ", ".join(f"{name}={value!r}" for name, value in step.arguments.items())
            lines.append(f"print({step.name}({given}))")
        code = f"<code>{'; '.join(lines)}</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=code, token_usage=tokens(messages))


def next_steps(messages: list[ChatMessage]) -> list[shop.Call]:
    step = shop.next_steps([said for message in messages if (said := read(message))])
    if isinstance(step, str):
        return [shop.Call(name="final_answer", arguments={"answer": step})]
    if step[0].name == "ask_expert":
        return [shop.Call(name="expert", arguments={"task": step[0].arguments["question"]})]
    return step


def read(message: ChatMessage) -> dict[str, str] | None:
    text = "".join(part["text"] for part in message.content) if isinstance(message.content, list) else message.content
    if message.role == MessageRole.USER and "New task:" in text:
        return {"role": "user", "content": text}
    if message.role == MessageRole.TOOL_RESPONSE:
        return {"role": "tool", "content": re.sub(r"Last output from code snippet:\nNone$", "", text)}
    return None


def tokens(messages: list[ChatMessage]) -> TokenUsage:
    return TokenUsage(input_tokens=len(messages), output_tokens=1)


@tool
def lookup_order(order_id: str) -> str:
    """Find the parcel of an order.

    Args:
        order_id: The number of the order.
    """
    return shop.lookup_order(order_id)


class TrackParcel(Tool):
    name = "track_parcel"
    description = "Find the place where a parcel is."
    inputs: ClassVar = {"parcel_id": {"type": "string", "description": "The number of the parcel."}}
    output_type = "string"

    def forward(self, parcel_id: str) -> str:
        return shop.track_parcel(parcel_id)


@tool
def refund_order(order_id: str) -> str:
    """Pay an order back.

    Args:
        order_id: The number of the order.
    """
    return shop.refund_order(order_id)


@tool
def wait_for_courier() -> str:
    """Wait until the courier is here."""
    time.sleep(shop.COURIER_SECONDS)
    return "here"


TOOLS = [lookup_order, TrackParcel(), refund_order, wait_for_courier]

expert = ToolCallingAgent(tools=TOOLS[:2], model=Scripted(), name="expert", description="Knows where parcels are.")
agent = ToolCallingAgent(tools=TOOLS, model=Scripted(), managed_agents=[expert])
coder = CodeAgent(tools=TOOLS, model=Coding(), managed_agents=[expert])
