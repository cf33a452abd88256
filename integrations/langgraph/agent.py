"""A shop agent made with LangGraph: a graph of a model and its tools, with an expert and a billing agent beside it."""

import asyncio
from itertools import chain, repeat
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

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

    department: str = "shop"

    @property
    def _llm_type(self) -> str:
        return "shop"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        said = [{"role": ROLES.get(message.type, message.type), "content": read(message)} for message in messages]
        step = "Billing here." if self.department == "billing" else shop.next_steps(said)
        usage: Any = {"input_tokens": 10 * len(messages), "output_tokens": 5, "total_tokens": 10 * len(messages) + 5}
        if isinstance(step, str):
            message = AIMessage(step, usage_metadata=usage)
        else:
            calls = [
                {"name": call.name, "args": call.arguments, "id": f"call_{len(messages)}_{place}"}
                for place, call in enumerate(step)
            ]
            message = AIMessage("", tool_calls=calls, usage_metadata=usage)
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
def transfer_to_billing(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Hand the user over to billing."""
    done = ToolMessage("Transferred to billing.", tool_call_id=tool_call_id)
    return Command(goto="billing", update={"messages": [done]})


lookup = tool(shop.lookup_order)
track = tool(shop.track_parcel)
refund = tool(refund_order)
refund.handle_tool_error = True


def graph_of(tools: list[Any], *, run_tools: Any = None, checkpointer: Any = None) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("model", _answer_as("shop"))
    builder.add_node("billing", _answer_as("billing"))
    builder.add_node("tools", run_tools or ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_conditional_edges("tools", _after_tools)
    return builder.compile(checkpointer=checkpointer)


def _answer_as(department: str) -> Any:
    async def answer(state: MessagesState) -> Any:
        return {"messages": [await ShopModel(department=department).ainvoke(state["messages"])]}

    return answer


def _after_tools(state: MessagesState) -> str:
    """After a handoff, the tool's own Command says where to go."""
    return END if state["messages"][-1].name == "transfer_to_billing" else "model"


def run_by_hand(state: MessagesState) -> Any:
    """Calls functions by their names, past LangChain's tools."""
    (call,) = state["messages"][-1].tool_calls
    result = getattr(shop, call["name"])(**call["args"])
    return {"messages": [ToolMessage(result, tool_call_id=call["id"], name=call["name"])]}


def run_with_bare_arguments(state: MessagesState) -> Any:
    """Runs LangChain's tools, but does not tell them which call they answer."""
    (call,) = state["messages"][-1].tool_calls
    result = {"lookup_order": lookup, "track_parcel": track}[call["name"]].invoke(call["args"])
    return {"messages": [ToolMessage(result, tool_call_id=call["id"], name=call["name"])]}


@tool
def ask_the_boss(order_id: str) -> str:
    """Pay an order back, if the boss agrees."""
    return f"the boss says {interrupt(f'May {order_id} be paid back?')}"


class Shelf(TypedDict):
    books: list[str]


ask_the_boss.name = "refund_order"
TOOLS = [lookup, track, refund, wait_for_courier, ask_expert, transfer_to_billing]
expert = graph_of([lookup, track])
graph = graph_of(TOOLS)
graph_with_threads = graph_of(TOOLS, checkpointer=InMemorySaver())
by_hand = graph_of([], run_tools=run_by_hand)
by_bare_arguments = graph_of([], run_tools=run_with_bare_arguments)
with_boss = graph_of([ask_the_boss], checkpointer=InMemorySaver())
without_messages = StateGraph(Shelf).add_node("n", lambda state: state).add_edge(START, "n").compile()
failures = chain([True], repeat(False))


async def fail_once(state: MessagesState) -> Any:
    if next(failures):
        raise ConnectionError("try again")
    return await _answer_as("shop")(state)


def flaky() -> Any:
    builder = StateGraph(MessagesState).add_node("model", fail_once).add_edge(START, "model")
    return builder.compile(checkpointer=InMemorySaver())


def make() -> Any:
    """The same, made anew for each trial."""
    return graph_of(TOOLS)
