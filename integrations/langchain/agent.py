"""A shop agent made with LangChain's create_agent, and a chain, a chat model and a form beside it."""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from seatrial.testing import shop

ROLES = {"human": "user", "ai": "assistant"}


def read(message: BaseMessage) -> str:
    """The text, and what is attached in the form of chat completions or of LangChain."""
    parts = message.content if isinstance(message.content, list) else []
    shown = [
        shop.show_attachment(part["image_url"]["url"].split(":")[1].split(";")[0], part["image_url"]["url"])
        if part["type"] == "image_url"
        else shop.show_attachment(part["mime_type"], part["base64"])
        for part in parts
        if isinstance(part, dict) and part["type"] != "text"
    ]
    return " ".join([message.text, *shown])


class ShopModel(BaseChatModel):
    """A chat model without a network."""

    @property
    def _llm_type(self) -> str:
        return "shop"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        said = [{"role": ROLES.get(message.type, message.type), "content": read(message)} for message in messages]
        return _result(shop.next_steps(said), len(messages))


class FormModel(ShopModel):
    """Answers in the form that it is asked for, which is a tool to LangChain."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return _result([shop.Call(name="Receipt", arguments={"total": 12})], len(messages))


def _result(step: str | list[shop.Call], length: int) -> ChatResult:
    usage: Any = {"input_tokens": 10 * length, "output_tokens": 5, "total_tokens": 10 * length + 5}
    if isinstance(step, str):
        message = AIMessage(step, usage_metadata=usage)
    else:
        calls = [
            {"name": call.name, "args": call.arguments, "id": f"call_{length}_{place}"}
            for place, call in enumerate(step)
        ]
        message = AIMessage("", tool_calls=calls, usage_metadata=usage)
    return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def refund_order(order_id: str) -> str:
    """Pay an order back."""
    try:
        return shop.refund_order(order_id)
    except shop.ShopError as error:
        raise ToolException(str(error)) from None


@tool
async def wait_for_courier() -> str:
    """Wait for the courier."""
    await asyncio.sleep(shop.COURIER_SECONDS)
    return "here"


@tool
async def ask_expert(question: str) -> str:
    """Ask somebody who knows."""
    answer = await expert.ainvoke({"messages": [("user", question)]})
    return answer["messages"][-1].text


class Receipt(BaseModel):
    """What was paid."""

    total: int


refund_order.handle_tool_error = True
expert = create_agent(ShopModel(), [shop.lookup_order, shop.track_parcel])
agent = create_agent(
    ShopModel(),
    [shop.lookup_order, shop.track_parcel, refund_order, wait_for_courier, ask_expert],
    system_prompt="Help.",
)
form = create_agent(FormModel(), [shop.lookup_order], response_format=Receipt)
model = ShopModel()
chain = (
    ChatPromptTemplate([("system", "Help."), MessagesPlaceholder("chat_history"), ("user", "{input}")]) | ShopModel()
)
forgetful = ChatPromptTemplate([("user", "{question}")]) | ShopModel()
guarded = create_agent(
    ShopModel(),
    tools=[shop.lookup_order, shop.cancel_order],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"cancel_order": True})],
    checkpointer=InMemorySaver(),
)
