"""What the agent's tools answer during a trial: mocks, faults and tool schemas.

A room of its own because a mock is neither the agent's nor the evaluators': it plays the world around the agent. A
`MockSet` is read once per scenario and opens a fresh `ToolBox` for each trial, so that no trial sees another's state.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .mock_set import MockSet as MockSet
    from .no_mocks import NoMocks as NoMocks
    from .problems import MockProblem as MockProblem
    from .problems import check_mocks as check_mocks
    from .problems import find_problems as find_problems
    from .python_mocks import MockContext as MockContext
    from .tool_box import MockedTools as MockedTools
    from .tool_schemas import ToolSchema as ToolSchema
    from .tool_schemas import check_tools as check_tools
    from .tool_schemas import read_tools as read_tools

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "mock_set": ("MockSet",),
        "no_mocks": ("NoMocks",),
        "problems": (
            "MockProblem",
            "check_mocks",
            "find_problems",
        ),
        "python_mocks": ("MockContext",),
        "tool_box": ("MockedTools",),
        "tool_schemas": (
            "ToolSchema",
            "check_tools",
            "read_tools",
        ),
    },
)
