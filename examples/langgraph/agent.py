"""A weather agent: a graph of a model and its tools. The model is scripted; yours would be ChatOpenAI or the like."""

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

CITIES = ("Kiel", "Lisbon", "Oslo")


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return {"Kiel": "windy", "Lisbon": "sunny"}.get(city, "unknown")


@tool
def send_warning(city: str) -> str:
    """Warn everybody in a city of a storm."""
    raise RuntimeError("the siren is not connected")


class ScriptedModel(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=answer(messages))])


def answer(messages: list[BaseMessage]) -> AIMessage:
    """The next step of the model."""
    text = next(message.text for message in reversed(messages) if message.type == "human")
    city = next((city for city in CITIES if city in text), None)
    last = messages[-1]
    if city is None:
        return AIMessage("For which city?")
    if last.type != "tool":
        return call("get_weather", city, len(messages))
    if last.name == "get_weather" and last.text == "storm":
        return call("send_warning", city, len(messages))
    if last.name == "send_warning":
        return AIMessage(f"There is a storm in {city}, and everybody is warned.")
    return AIMessage(f"In {city} it is {last.text}.")


def call(name: str, city: str, number: int) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": {"city": city}, "id": f"call-{number}"}])


def call_model(state: MessagesState) -> dict[str, Any]:
    return {"messages": [ScriptedModel().invoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("model", call_model)
builder.add_node("tools", ToolNode([get_weather, send_warning]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")
graph = builder.compile()
