"""The quick start in CrewAI's README, with a fake model: a project of JSON files, with a researcher and an analyst.

The README's search tool is in another package and needs a key, so the search is a tool of the project here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import Scenario
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

FILES = {
    "agents/researcher.jsonc": """{
  "role": "{topic} Senior Data Researcher",
  "goal": "Find what is new in {topic}",
  "backstory": "You find what matters, and present it clearly.",
  "llm": "openai/gpt-4o",
  "tools": ["custom:search"],
  "settings": {"verbose": true}
}""",
    "agents/reporting_analyst.jsonc": """{
  "role": "{topic} Reporting Analyst",
  "goal": "Write reports on {topic}",
  "backstory": "You turn data into clear reports.",
  "llm": "openai/gpt-4o",
  "settings": {"verbose": true}
}""",
    "crew.jsonc": """{
  "name": "Latest AI Development",
  "agents": ["researcher", "reporting_analyst"],
  "tasks": [
    {
      "name": "research_task",
      "description": "Research {topic}.",
      "expected_output": "A list of 10 facts about {topic}.",
      "agent": "researcher"
    },
    {
      "name": "reporting_task",
      "description": "Expand each fact into a section of a report.",
      "expected_output": "A report in Markdown.",
      "agent": "reporting_analyst",
      "context": ["research_task"],
      "output_file": "output/report.md",
      "markdown": true
    }
  ],
  "process": "sequential",
  "verbose": true,
  "inputs": {"topic": "AI Agents"}
}""",
    "tools/search.py": """from crewai.tools import BaseTool


class SearchTool(BaseTool):
    name: str = "search"
    description: str = "Search the web."

    def _run(self, query: str) -> str:
        raise ConnectionError("there is no web")
""",
    "project.py": """from crewai.project import load_crew


def make():
    crew, inputs = load_crew("crew.jsonc")
    return crew
""",
}


def answer(request: ReceivedRequest) -> ServerReply | str:
    """Searches, and reports what was found. (The README asks gpt-4o.)"""
    found = [message["content"] for message in request.body["messages"] if message["role"] == "tool"]
    if found:
        return f"Ten facts: {found[-1]}"
    if not request.body.get("tools"):
        return "# A report on ten facts"
    function = {"name": "search", "arguments": json.dumps({"query": "tides"})}
    call = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [choice]}
    return ServerReply(body=json.dumps({**body, "usage": usage}))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with ModelServer(answer) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


def test_the_project_runs_unchanged(server: ModelServer, tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "expected_tool_args": {"search": {"query": "tides"}},
        "expected_output": "A report on ten facts",
    }
    scenario = Scenario(name="x", input="tides", mocks={"search": {"returns": "the moon pulls"}}, **asked)
    report = seatrial.run(scenario, agent={"type": "crewai", "target": "project:make"}, store=None)

    assert report.passed, report.failure_reasons
    assert (tmp_path / "output/report.md").read_text() == "# A report on ten facts"
    said = str([request.body for request in server.requests])
    assert "tides Senior Data Researcher" in said
    assert "Ten facts: the moon pulls" in said
