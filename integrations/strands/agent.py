"""A shop agent made with Strands; its model is a scripted subclass of the SDK's Model."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.models.model import Model
from strands.vended_interventions.hitl import HumanInTheLoop

from seatrial.testing import shop


class Scripted(Model):
    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, output_model: Any, prompt: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *args: Any, **more: Any) -> AsyncIterator[dict[str, Any]]:
        step = shop.next_steps([said for message in messages for said in read(message)])
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(step, str):
            yield {"contentBlockStart": {"start": {}}}
            for piece in (step[:3], step[3:]):
                yield {"contentBlockDelta": {"delta": {"text": piece}}}
            yield {"contentBlockStop": {}}
        for place, call in enumerate([] if isinstance(step, str) else step):
            use = {"toolUseId": f"use-{len(messages)}-{place}", "name": call.name}
            arguments = {"input": call.arguments["question"]} if call.name == "ask_expert" else call.arguments
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(step, str) else "tool_use"}}
        usage = {"inputTokens": len(messages), "outputTokens": 1, "totalTokens": len(messages) + 1}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


class Cancelling(Scripted):
    """Cancels order N-5, whatever it is asked."""

    async def stream(self, messages: Any, *args: Any, **more: Any) -> AsyncIterator[dict[str, Any]]:
        asked = {"role": "user", "content": [{"text": "Please cancel order N-5."}]}
        async for event in super().stream([asked, *messages[1:]]):
            yield event


def read(message: Any) -> list[dict[str, str]]:
    said = []
    for block in message["content"]:
        if "toolResult" in block:
            said.append({"role": "tool", "content": str(block["toolResult"]["content"])})
        elif "image" in block:
            shown = shop.show_attachment("image/" + block["image"]["format"], block["image"]["source"]["bytes"])
            said.append({"role": message["role"], "content": shown})
        elif "document" in block:
            held = block["document"]
            shown = shop.show_attachment("application/" + held["format"], held["source"]["bytes"])
            said.append({"role": message["role"], "content": shown})
        elif "text" in block:
            said.append({"role": message["role"], "content": block["text"]})
    return said


@tool
async def wait_for_courier() -> str:
    """Wait until the courier is here."""
    await asyncio.sleep(shop.COURIER_SECONDS)
    return "here"


lookup_order, track_parcel, refund_order, cancel_order = (
    tool(function) for function in (shop.lookup_order, shop.track_parcel, shop.refund_order, shop.cancel_order)
)
expert = Agent(
    name="ask_expert", description="Knows where parcels are.", model=Scripted(), tools=[lookup_order, track_parcel]
)
agent = Agent(
    model=Scripted(),
    tools=[lookup_order, track_parcel, refund_order, wait_for_courier, expert],
    system_prompt="You work in a shop.",
)
guarded = Agent(
    model=Scripted(),
    tools=[lookup_order, cancel_order],
    interventions=[HumanInTheLoop(allowed_tools=["lookup_order"])],
)
