"""Evaluators that need no model: the same conversation always gets the same answer.

They are a room of their own because they are pure. Each is a frozen dataclass whose fields are its arguments in a
file; it looks at what was said and done and returns an EvalResult, and it reads no time, disk, network or setting.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .function import FunctionEvaluator as FunctionEvaluator
    from .function import evaluator as evaluator
    from .json_schema import JsonSchema as JsonSchema
    from .limits import Limits as Limits
    from .matchers import matches as matches
    from .matchers import mismatch as mismatch
    from .passfail import PassFail as PassFail
    from .registry import EVALUATORS as EVALUATORS
    from .registry import asserts_nothing as asserts_nothing
    from .registry import build_evaluator as build_evaluator
    from .registry import keys_read_by as keys_read_by
    from .state import State as State
    from .text import ContainsEvaluator as ContainsEvaluator
    from .text import Exact as Exact
    from .text import Regex as Regex
    from .text import ReplyProduced as ReplyProduced
    from .tool_calls import ToolCallArgsEvaluator as ToolCallArgsEvaluator
    from .tool_calls import ToolCallEvaluator as ToolCallEvaluator
    from .trajectory import Trajectory as Trajectory
    from .trajectory_match import match_trajectory as match_trajectory
    from .validation import check_arguments as check_arguments
    from .validation import check_expected as check_expected

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "registry": (
            "EVALUATORS",
            "asserts_nothing",
            "build_evaluator",
            "keys_read_by",
        ),
        "validation": (
            "check_arguments",
            "check_expected",
        ),
        "function": (
            "FunctionEvaluator",
            "evaluator",
        ),
        "json_schema": ("JsonSchema",),
        "limits": ("Limits",),
        "matchers": (
            "matches",
            "mismatch",
        ),
        "passfail": ("PassFail",),
        "state": ("State",),
        "text": (
            "ContainsEvaluator",
            "Exact",
            "Regex",
            "ReplyProduced",
        ),
        "tool_calls": (
            "ToolCallArgsEvaluator",
            "ToolCallEvaluator",
        ),
        "trajectory": ("Trajectory",),
        "trajectory_match": ("match_trajectory",),
    },
)
