"""A shop agent made with LangGraph: a graph of a model and its tools, with an expert and a billing agent beside it."""

import asyncio
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

from seatrial.testing import shop

ROLES = {"human": "user", "ai": "assistant"}


class ShopModel(BaseChatModel):
    """A chat model without a network."""

    department: str = "shop"

    @property
    def _llm_type(self) -> str:
        return "shop"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        said = [{"role": ROLES.get(message.type, message.type), "content": message.text} for message in messages]
        step = "Billing here." if self.department == "billing" else shop.next_step(said)
        usage: Any = {"input_tokens": 10 * len(messages), "output_tokens": 5, "total_tokens": 10 * len(messages) + 5}
        if isinstance(step, str):
            message = AIMessage(step, usage_metadata=usage)
        else:
            call = {"name": step.name, "args": step.arguments, "id": f"call_{len(messages)}"}
            message = AIMessage("", tool_calls=[call], usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


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


@tool
def transfer_to_billing() -> Command:
    """Hand the user over to billing."""
    return Command(goto="billing", graph=Command.PARENT)


lookup = tool(shop.lookup_order)
track = tool(shop.track_parcel)
refund = tool(refund_order)
refund.handle_tool_error = True


def graph_of(tools: list[Any], *, checkpointer: Any = None) -> Any:
    async def answer(state: MessagesState) -> Any:
        return {"messages": [await ShopModel().ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", answer)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=checkpointer)


TOOLS = [lookup, track, refund, wait_for_courier, ask_expert]
expert = graph_of([lookup, track])
graph = graph_of(TOOLS)
graph_with_threads = graph_of(TOOLS, checkpointer=InMemorySaver())


def make() -> Any:
    """The same, made anew for each trial."""
    return graph_of(TOOLS)
