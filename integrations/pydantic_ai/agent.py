"""A shop agent made with pydantic-ai; its model is the framework's own FunctionModel."""

import asyncio
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from seatrial.testing import shop

ROLES = {"user-prompt": "user", "system-prompt": "system", "tool-return": "tool", "text": "assistant"}


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    conversation: list[dict[str, Any]] = []
    for message in messages:
        for part in message.parts:
            if part.part_kind == "tool-return":
                conversation.append({"role": "tool", "content": part.model_response_str()})
            elif part.part_kind == "retry-prompt":  # as older versions tell it
                conversation.append({"role": "tool", "content": part.model_response()})
            elif part.part_kind in ROLES:
                conversation.append({"role": ROLES[part.part_kind], "content": read(part.content)})
    step = shop.next_steps(conversation)
    if isinstance(step, str):
        return ModelResponse(parts=[TextPart(step)])
    return ModelResponse(parts=[ToolCallPart(call.name, call.arguments) for call in step])


def read(content: Any) -> str:
    parts = [content] if isinstance(content, str) else content
    return " ".join(
        part if isinstance(part, str) else shop.show_attachment(part.media_type, part.data) for part in parts
    )


agent = Agent(FunctionModel(answer), tools=[shop.lookup_order, shop.track_parcel])
expert = Agent(FunctionModel(answer), tools=[shop.lookup_order, shop.track_parcel])


@agent.tool_plain
def refund_order(order_id: str) -> str:
    try:
        return shop.refund_order(order_id)
    except shop.ShopError as error:
        raise ModelRetry(str(error)) from None


@agent.tool_plain
async def wait_for_courier() -> str:
    await asyncio.sleep(shop.COURIER_SECONDS)
    return "here"


@agent.tool_plain
async def ask_expert(question: str) -> str:
    return (await expert.run(question)).output


guarded = Agent(
    FunctionModel(answer),
    tools=[shop.lookup_order, Tool(shop.cancel_order, requires_approval=True)],
    output_type=[str, DeferredToolRequests],
)


def make() -> Agent:
    return agent
