"""A project as a user has it, with pytest run in it."""

import os
from pathlib import Path
from textwrap import dedent

import pytest

# Loaded once here, else every session of a test would import them anew; PyYAML's extension cannot be imported twice.
import yaml

import seatrial
import seatrial.store.codec
import seatrial_pytest.files
import seatrial_pytest.fixture
import seatrial_pytest.session_end

LOADED = (yaml, seatrial_pytest, *(getattr(seatrial, name) for name in seatrial.__all__))

AGENT = """
    def answer(messages):
        text = messages[-1]["content"]
        return f"You said: {text}", ["lookup"]
"""
CONFTEST = """
    import pytest
    from agent import answer

    @pytest.fixture
    def seatrial_agent():
        return answer
"""


class Project:
    """A folder with an agent in it, and pytest to be run there."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.write("agent.py", AGENT)

    def write(self, name: str, text: str) -> Path:
        """Write a file; the text may be indented as the test is."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return file

    def supply_agent(self) -> None:
        self.write("conftest.py", CONFTEST)

    def run(self, *args: str) -> pytest.RunResult:
        """Run it in this process."""
        return self.pytester.runpytest_inprocess("-p", "no:cacheprovider", *args)

    def process(self, *args: str) -> pytest.RunResult:
        """Run it in a process of its own."""
        return self.pytester.runpytest_subprocess(*args, timeout=120)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in [name for name in os.environ if name.startswith("SEATRIAL_")]:
        monkeypatch.delenv(name)
    return Project(pytester)
