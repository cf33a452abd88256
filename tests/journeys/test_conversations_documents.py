"""The files in docs/agents.md and docs/users.md are files that Seatrial takes."""

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def files_in(name: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (DOCS / name).read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("text", [*files_in("agents.md"), *files_in("users.md")])
def test_every_file_in_the_documents_is_valid(folder: Any, text: str) -> None:
    folder.write("people.py", "def patient(conversation, trial, seed): return None")
    whole = text if "scenarios:" in text else f"{text}scenarios:\n  - {{name: a, input: b}}\n"
    (folder.path / "suite.yaml").write_text(whole, "utf-8")

    ended = folder.seatrial("validate", "suite.yaml")

    assert ended.code == 0, ended.err


def test_the_function_in_the_documents_is_a_user(folder: Any) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "users.md").read_text("utf-8"), flags=re.DOTALL)
    folder.write("people.py", code)
    folder.write("agent.py", "def answer(messages): return 'booked' if len(messages) > 3 else 'Which day?'")
    (suite,) = (text for text in files_in("users.md") if "people:patient" in text)
    (folder.path / "suite.yaml").write_text(suite, "utf-8")

    ended = folder.seatrial("run", "suite.yaml", "--agent", "agent:answer")

    assert ended.code == 0, ended.out + ended.err
    assert "goal met" in ended.out


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_the_function_in_the_documents_is_an_agent(folder: Any, isolation: str) -> None:
    (code, *_) = re.findall(r"```python\n(.*?)```", (DOCS / "agents.md").read_text("utf-8"), flags=re.DOTALL)
    folder.write("shop/agent.py", code)
    (folder.path / "suite.yaml").write_text(files_in("agents.md")[0], "utf-8")

    ended = folder.seatrial("run", "suite.yaml", "--set", f"isolation={isolation}")

    assert ended.code == 0, ended.out + ended.err
