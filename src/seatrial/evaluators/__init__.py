"""Evaluators that need no model: the same conversation always gets the same answer.

They are a room of their own because they are pure. Each is a frozen dataclass whose fields are its arguments in a
file; it looks at what was said and done and returns an EvalResult, and it reads no time, disk, network or setting.
"""

from .catalog import EVALUATORS, build_evaluator
from .construction import check_arguments, check_expected
from .function import FunctionEvaluator, evaluator
from .json_schema import JsonSchema
from .limits import Limits
from .matchers import matches, mismatch
from .passfail import PassFail
from .state import State
from .text import ContainsEvaluator, Exact, Regex, ReplyProduced
from .tool_calls import ToolCallArgsEvaluator, ToolCallEvaluator
from .trajectory import Trajectory
from .trajectory_match import match_trajectory

__all__ = [
    "EVALUATORS",
    "ContainsEvaluator",
    "Exact",
    "FunctionEvaluator",
    "JsonSchema",
    "Limits",
    "PassFail",
    "Regex",
    "ReplyProduced",
    "State",
    "ToolCallArgsEvaluator",
    "ToolCallEvaluator",
    "Trajectory",
    "build_evaluator",
    "check_arguments",
    "check_expected",
    "evaluator",
    "match_trajectory",
    "matches",
    "mismatch",
]
