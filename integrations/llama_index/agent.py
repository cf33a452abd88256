"""Shop agents made with LlamaIndex; their model is its own MockFunctionCallingLLM, with tokens."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.mock import MockFunctionCallingLLM

from seatrial.testing import shop


class Scripted(MockFunctionCallingLLM):
    """The mock does not count tokens; a real model's raw answer tells them like this."""

    async def astream_chat_with_tools(self, tools: Any, *args: Any, **options: Any) -> Any:
        stream = await super().astream_chat_with_tools(tools, *args, **options)

        async def counted() -> AsyncGenerator[ChatResponse, None]:
            async for response in stream:
                response.raw = {"usage": {"prompt_tokens": 7, "completion_tokens": 1}}
                yield response

        return counted()


def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    step = shop.next_steps([{"role": message.role.value, "content": read(message)} for message in messages])
    if isinstance(step, str):
        return ChatMessage(role="assistant", blocks=[TextBlock(text=step)])
    blocks = []
    for place, call in enumerate(step):
        name, arguments = NAMES.get(call.name, (call.name, call.arguments))
        blocks.append(ToolCallBlock(tool_name=name, tool_kwargs=arguments, tool_call_id=f"{len(messages)}-{place}"))
    return ChatMessage(role="assistant", blocks=blocks)


def read(message: ChatMessage) -> str:
    shown = [message.content or ""]
    for block in message.blocks:
        if isinstance(block, ImageBlock):
            shown.append(shop.show_attachment(block.image_mimetype, block.resolve_image().read()))
        elif isinstance(block, DocumentBlock):
            shown.append(shop.show_attachment(block.document_mimetype, block.resolve_document().read()))
    return " ".join(shown)


NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "transfer_to_billing": ("handoff", {"to_agent": "billing", "reason": "a bill"}),
}
"""The shop's names for what LlamaIndex names itself."""


def answer_as_billing(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    return ChatMessage(role="assistant", blocks=[TextBlock(text="Billing here.")])


async def wait_for_courier() -> str:
    """Wait until the courier is here."""
    await asyncio.sleep(shop.COURIER_SECONDS)
    return "here"


expert = FunctionAgent(tools=[shop.lookup_order, shop.track_parcel], llm=Scripted(response_generator=answer))


async def ask_expert(question: str) -> str:
    """Ask somebody who knows where parcels are."""
    return str(await expert.run(user_msg=question))


agent = FunctionAgent(
    name="shop",
    description="Knows about orders.",
    tools=[shop.lookup_order, shop.track_parcel, shop.refund_order, wait_for_courier, ask_expert],
    llm=Scripted(response_generator=answer),
)
billing = FunctionAgent(
    name="billing", description="Knows about bills.", llm=Scripted(response_generator=answer_as_billing)
)
workflow = AgentWorkflow(agents=[agent, billing], root_agent="shop")
