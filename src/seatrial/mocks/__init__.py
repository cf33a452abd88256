"""What the agent's tools answer during a trial: mocks, faults and tool schemas.

A room of its own because a mock is neither the agent's nor the evaluators': it plays the world around the agent. A
`MockSet` is read once per scenario and opens a fresh `ToolBox` for each trial, so that no trial sees another's state.
"""

from .mock_set import MockSet
from .problems import MockProblem, check_mocks, find_problems
from .python_mocks import MockContext
from .tool_box import MockedTools
from .tool_schemas import ToolSchema, check_tools, read_tools

__all__ = [
    "MockContext",
    "MockProblem",
    "MockSet",
    "MockedTools",
    "ToolSchema",
    "check_mocks",
    "check_tools",
    "find_problems",
    "read_tools",
]
