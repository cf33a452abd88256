"""A shop agent made with Microsoft's Agent Framework; its client is a scripted subclass of the framework's client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from seatrial.testing import shop


class Scripted(FunctionInvocationLayer, BaseChatClient):
    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        if not stream:
            return self.answer(messages)

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            response = await self.answer(messages)
            yield ChatResponseUpdate(role="assistant", contents=response.messages[0].contents)

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

    next_steps = staticmethod(shop.next_steps)

    async def answer(self, messages: Any) -> ChatResponse:
        step = self.next_steps([said for message in messages for said in read(message)])
        usage = {"input_token_count": len(messages), "output_token_count": 1, "total_token_count": len(messages) + 1}
        if isinstance(step, str):
            contents = [Content.from_text(step)]
        else:
            contents = [
                Content.from_function_call(f"call-{len(messages)}-{place}", call.name, arguments=read_arguments(call))
                for place, call in enumerate(step)
            ]
        return ChatResponse(messages=[Message(role="assistant", contents=contents)], usage_details=usage)


def read_arguments(call: shop.Call) -> dict[str, Any]:
    return {"task": call.arguments["question"]} if call.name == "ask_expert" else call.arguments


def read(message: Any) -> list[dict[str, str]]:
    said = []
    for content in message.contents:
        if content.type == "function_result":
            said.append({"role": "tool", "content": f"{content.result} {content.exception or ''}"})
        elif content.type == "data":
            said.append({"role": str(message.role), "content": shop.show_attachment(content.media_type, content.uri)})
        elif content.type == "text":
            said.append({"role": str(message.role), "content": content.text})
    return said


@tool
async def wait_for_courier() -> str:
    """Wait until the courier is here."""
    await asyncio.sleep(shop.COURIER_SECONDS)
    return "here"


lookup_order, track_parcel, refund_order = (
    tool(function) for function in (shop.lookup_order, shop.track_parcel, shop.refund_order)
)
client = Scripted(function_invocation_configuration={"include_detailed_errors": True})
expert = Agent(client=client, name="ask_expert", description="Knows parcels.", tools=[lookup_order, track_parcel])
plain = Agent(client=client, tools=[lookup_order, track_parcel, refund_order, wait_for_courier])
agent = Agent(client=client, tools=[lookup_order, track_parcel, refund_order, wait_for_courier, expert.as_tool()])
guarded = Agent(client=client, tools=[lookup_order, tool(approval_mode="always_require")(shop.cancel_order)])
