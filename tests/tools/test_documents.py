"""The page about mocks says what is true."""

import asyncio
from pathlib import Path
from typing import Any

import yaml

from seatrial.tools.mock_checks import check_mocks
from seatrial.tools.tool_box import MockSet
from seatrial.tools.tool_schemas import check_tools

PAGE = (Path(__file__).parents[2] / "docs" / "mocks.md").read_text(encoding="utf-8")
EXAMPLES = [yaml.safe_load(part.split("```")[0]) for part in PAGE.split("```yaml\n")[1:]]


def test_the_examples_are_accepted():
    mocks, tools = EXAMPLES
    assert check_mocks(mocks["mocks"]) == []
    assert check_tools(tools["tools"]) == []


def test_the_function_of_the_page_works():
    names: dict[str, Any] = {}
    exec(PAGE.split("```python\n")[1].split("```")[0], names)
    box = MockSet.parse({"charge": names["charge"]}, matches=lambda expected, actual: False).open("t", 0)
    assert asyncio.run(box.call("charge", {"amount": 5}, turn=0)).result == {"receipt": "R-0"}
    assert asyncio.run(box.call("charge", {"amount": 500}, turn=0)).error == "card declined"
    assert box.state == {"charged": 5}
