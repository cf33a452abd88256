"""The form of the quick start in CrewAI's README, with a fake model: a researcher and an analyst, in sequence."""

from typing import Any

import seatrial
from seatrial import Scenario


def test_the_crew_runs_unchanged() -> None:
    from crewai import Agent, Crew, Process, Task
    from crewai.llms.base_llm import BaseLLM

    class Speaker(BaseLLM):
        """Repeats its task. (The README asks a model of OpenAI.)"""

        def call(self, messages: Any, tools: Any = None, **_: Any) -> Any:
            text = str(messages)
            return "Final Answer: a report on tides" if "Expand" in text else "Final Answer: ten facts on tides"

    def make(role: str) -> Agent:
        return Agent(role=role, goal="Know {topic}", backstory="Knows {topic} well.", llm=Speaker(model="speaker"))

    researcher, analyst = make("{topic} Researcher"), make("{topic} Analyst")
    research = Task(description="Research {topic}.", expected_output="Ten facts.", agent=researcher)
    report = Task(description="Expand the facts into a report.", expected_output="A report.", agent=analyst)
    crew = Crew(agents=[researcher, analyst], tasks=[research, report], process=Process.sequential)

    asked = Scenario(name="x", input="tides", expected_output="a report on tides")
    done = seatrial.run(asked, agent={"type": "crewai", "target": crew}, store=None)

    assert done.passed, done.failure_reasons
