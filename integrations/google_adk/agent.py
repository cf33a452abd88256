"""A shop agent made with Google's Agent Development Kit; its model is a scripted subclass of the kit's BaseLlm."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import FunctionTool
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from seatrial.testing import shop


class Scripted(BaseLlm):
    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        tokens = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=len(llm_request.contents), candidates_token_count=1
        )
        yield LlmResponse(content=types.Content(role="model", parts=self.answer(llm_request)), usage_metadata=tokens)

    def answer(self, request: LlmRequest) -> list[types.Part]:
        step = shop.next_steps([said for content in request.contents for said in read(content)])
        if isinstance(step, str):
            return [types.Part(text=step)]
        named = [NAMES.get(call.name, (call.name, call.arguments)) for call in step]
        return [types.Part(function_call=types.FunctionCall(name=name, args=arguments)) for name, arguments in named]


class Billing(Scripted):
    def answer(self, request: LlmRequest) -> list[types.Part]:
        return [types.Part(text="Billing here.")]


NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "ask_expert": ("expert", {"request": "Where is order E-5?"}),
    "transfer_to_billing": ("transfer_to_agent", {"agent_name": "billing"}),
}
"""The shop's names for what the kit names itself."""


def read(content: types.Content) -> list[dict[str, str]]:
    said = []
    for part in content.parts or []:
        if part.function_response:
            said.append({"role": "tool", "content": str(part.function_response.response)})
        elif part.inline_data:
            shown = shop.show_attachment(part.inline_data.mime_type, part.inline_data.data)
            said.append({"role": "user", "content": shown})
        elif part.text:
            said.append({"role": "user" if content.role == "user" else "assistant", "content": part.text})
    return said


async def wait_for_courier() -> str:
    """Wait until the courier is here."""
    await asyncio.sleep(shop.COURIER_SECONDS)
    return "here"


def tell_error(tool: Any, args: dict[str, Any], tool_context: Any, error: Exception) -> dict[str, str]:
    return {"error": str(error)}


expert = LlmAgent(
    name="expert",
    description="Knows where parcels are.",
    model=Scripted(),
    tools=[shop.lookup_order, shop.track_parcel],
)
billing = LlmAgent(name="billing", description="Knows about bills.", model=Billing())
agent = LlmAgent(
    name="shop",
    model=Scripted(),
    tools=[shop.lookup_order, shop.track_parcel, shop.refund_order, wait_for_courier, AgentTool(expert)],
    sub_agents=[billing],
    on_tool_error_callback=tell_error,
)
app = App(name="shop", root_agent=agent)
guarded = LlmAgent(
    name="shop",
    model=Scripted(),
    tools=[shop.lookup_order, FunctionTool(shop.cancel_order, require_confirmation=True)],
)
