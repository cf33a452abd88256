"""Shop agents and a crew made with CrewAI; their models are scripted subclasses of its BaseLLM."""

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from typing import Any

# CrewAI reads these when it is imported: nothing is sent anywhere, and nothing kept in the user's folders.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")
os.environ["CREWAI_STORAGE_DIR"] = tempfile.mkdtemp()

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool, tool

from seatrial.testing import shop


class Scripted(BaseLLM):
    """A model that knows tools."""

    def supports_function_calling(self) -> bool:
        return True

    def call(self, messages: Any, tools: Any = None, **_: Any) -> Any:
        step = self.next_steps(messages)
        if isinstance(step, str):
            return step
        return [
            {"id": str(place), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for place, call in enumerate(step)
        ]

    def next_steps(self, messages: Any) -> str | list[shop.Call]:
        self._track_token_usage_internal({"prompt_tokens": len(messages), "completion_tokens": 1})
        step = shop.next_steps([said for message in messages for said in read(message)])
        if isinstance(step, str) or step[0].name != "ask_expert":
            return step
        delegated = {"task": step[0].arguments["question"], "context": "none", "coworker": "Expert"}
        return [shop.Call(name="delegate_work_to_coworker", arguments=delegated)]


class Writing(Scripted):
    """A model that writes its calls as text."""

    def supports_function_calling(self) -> bool:
        return False

    def call(self, messages: Any, tools: Any = None, **_: Any) -> Any:
        step = self.next_steps(messages)
        if isinstance(step, str):
            return f"Thought: I know.\nFinal Answer: {step}"
        return f"Thought: I look.\nAction: {step[0].name}\nAction Input: {json.dumps(step[0].arguments)}"


def read(message: dict[str, Any]) -> Iterator[dict[str, str]]:
    """What was said, out of CrewAI's prompts: it puts a crew's conversation into the task."""
    text = message.get("content") or ""
    if text.startswith("Analyze the tool result."):
        return
    if message["role"] == "user":
        for said in re.findall(r"^User: (.*)", text, re.MULTILINE):
            yield {"role": "user", "content": said}
        task = re.search(r"Current Task: (.*)", text)
        yield {"role": "user", "content": task[1] if task else text}
    elif message["role"] == "tool":
        yield {"role": "tool", "content": text}
    elif "Observation:" in text:
        yield {"role": "tool", "content": text.rsplit("Observation:", 1)[1].strip()}


@tool("Lookup order")
def lookup_order(order_id: str) -> str:
    """Find the parcel of an order."""
    return shop.lookup_order(order_id)


class TrackParcel(BaseTool):
    name: str = "track_parcel"
    description: str = "Find the place where a parcel is."

    def _run(self, parcel_id: str) -> str:
        return shop.track_parcel(parcel_id)


@tool
def refund_order(order_id: str) -> str:
    """Pay an order back."""
    return shop.refund_order(order_id)


@tool
def wait_for_courier() -> str:
    """Wait until the courier is here."""
    time.sleep(shop.COURIER_SECONDS)
    return "here"


TOOLS = [lookup_order, TrackParcel(), refund_order, wait_for_courier]


def make_agent(role: str, model: BaseLLM, tools: list[BaseTool], **options: Any) -> Agent:
    return Agent(role=role, goal="Help customers", backstory="Long in the shop.", llm=model, tools=tools, **options)


agent = make_agent("Clerk", Scripted(model="scripted"), TOOLS)
writer = make_agent("Clerk", Writing(model="writing"), TOOLS)

clerk = make_agent("Clerk", Scripted(model="scripted"), TOOLS, allow_delegation=True)
expert = make_agent("Expert", Scripted(model="scripted"), TOOLS[:2])
answer = Task(description="{input}", expected_output="An answer to the customer.", agent=clerk)
crew = Crew(agents=[clerk, expert], tasks=[answer])
