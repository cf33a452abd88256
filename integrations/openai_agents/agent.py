"""A shop agent made with the OpenAI Agents SDK, with an expert behind a tool and a billing agent to hand over to."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from agents.testing import assistant_message, function_call
from openai.types.responses import Response, ResponseCompletedEvent

from seatrial.testing import shop

set_tracing_disabled(True)


class ShopModel(Model):
    """A model without a network."""

    async def get_response(self, system_instructions: str | None, input: Any, *args: Any, **options: Any) -> Any:
        step = "Billing here." if system_instructions == "billing" else shop.next_steps(list(_conversation(input)))
        usage = Usage(requests=1, input_tokens=10 * len(input), output_tokens=5, total_tokens=10 * len(input) + 5)
        if isinstance(step, str):
            output = [assistant_message(step)]
        else:
            output = [
                function_call(call.name, call.arguments, call_id=f"call_{len(input)}_{place}")
                for place, call in enumerate(step)
            ]
        return ModelResponse(output=output, usage=usage, response_id=None)

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        made = await self.get_response(*args, **options)
        response = Response(
            id="response",
            created_at=1,
            model="shop",
            object="response",
            output=made.output,
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


def _conversation(items: Any) -> Any:
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    for item in items:
        if item.get("type") == "function_call_output":
            yield {"role": "tool", "content": item["output"]}
        elif item.get("type") != "function_call":
            content = item["content"]
            yield {
                "role": item["role"],
                "content": content if isinstance(content, str) else " ".join(map(_show, content)),
            }


def _show(part: Any) -> str:
    if part["type"] not in ("input_image", "input_file"):
        return part["text"]
    url = part["image_url"] if part["type"] == "input_image" else part["file_data"]
    return shop.show_attachment(url.split(":")[1].split(";")[0], url)


@function_tool(failure_error_function=lambda context, error: str(error))
def refund_order(order_id: str) -> str:
    """Pay an order back."""
    return shop.refund_order(order_id)


@function_tool
async def wait_for_courier() -> str:
    """Wait for the courier."""
    await asyncio.sleep(shop.COURIER_SECONDS)
    return "here"


SEARCH = [function_tool(shop.lookup_order), function_tool(shop.track_parcel)]
expert = Agent(name="Expert", model=ShopModel(), tools=SEARCH)
billing = Agent(name="Billing", model=ShopModel(), instructions="billing")
ask_expert = expert.as_tool("ask_expert", "Ask somebody who knows.")


async def _answer(context: Any, arguments: str) -> Any:
    """`as_tool` takes `input`; the shop's model says `question`."""
    return await _asked(context, arguments.replace('"question"', '"input"'))


_asked = ask_expert.on_invoke_tool
ask_expert.on_invoke_tool = _answer
agent = Agent(
    name="Shop", model=ShopModel(), tools=[*SEARCH, refund_order, wait_for_courier, ask_expert], handoffs=[billing]
)
guarded = Agent(
    name="Shop", model=ShopModel(), tools=[SEARCH[0], function_tool(shop.cancel_order, needs_approval=True)]
)
