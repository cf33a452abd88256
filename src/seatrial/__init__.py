"""Seatrial tests LLM agents and returns a verdict. These are its public names.

Each name is imported on first use, so that `import seatrial` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seatrial.agents.context import tool as tool
    from seatrial.errors import ToolError as ToolError
    from seatrial.errors import UsageError as UsageError
    from seatrial.evaluators.end_state import EndState as EndState
    from seatrial.evaluators.invariants import Invariant as Invariant
    from seatrial.evaluators.limits import Limits as Limits
    from seatrial.evaluators.passfail import PassFail as PassFail
    from seatrial.evaluators.registry import evaluator as evaluator
    from seatrial.evaluators.text import Contains as Contains
    from seatrial.evaluators.text import ContainsEvaluator as ContainsEvaluator
    from seatrial.evaluators.text import Exact as Exact
    from seatrial.evaluators.text import JsonSchema as JsonSchema
    from seatrial.evaluators.text import Regex as Regex
    from seatrial.evaluators.tool_calls import ToolArgs as ToolArgs
    from seatrial.evaluators.tool_calls import ToolCallArgsEvaluator as ToolCallArgsEvaluator
    from seatrial.evaluators.tool_calls import ToolCallEvaluator as ToolCallEvaluator
    from seatrial.evaluators.tool_calls import ToolCalls as ToolCalls
    from seatrial.evaluators.trajectory import Trajectory as Trajectory
    from seatrial.judges.rubric import Judge as Judge
    from seatrial.judges.rubric import JudgeEvaluator as JudgeEvaluator
    from seatrial.judges.similarity import Similarity as Similarity
    from seatrial.model.content import Attachment as Attachment
    from seatrial.model.conversation import AgentResult as AgentResult
    from seatrial.model.conversation import ToolCall as ToolCall
    from seatrial.model.conversation import Usage as Usage
    from seatrial.model.protocols import AgentReply as AgentReply
    from seatrial.model.protocols import Evaluator as Evaluator
    from seatrial.model.protocols import TrialContext as TrialContext
    from seatrial.model.protocols import TurnContext as TurnContext
    from seatrial.model.results import EvalResult as EvalResult
    from seatrial.model.scenario import Expect as Expect
    from seatrial.model.scenario import Scenario as Scenario
    from seatrial.model.scenario import Suite as Suite
    from seatrial.model.scenario import SuiteConfig as SuiteConfig
    from seatrial.model.scenario import Turn as Turn
    from seatrial.model.scenario import User as User
    from seatrial.model.scenario import World as World
    from seatrial.runs.api import arun as arun
    from seatrial.runs.api import attack as attack
    from seatrial.runs.api import check as check
    from seatrial.runs.api import compare as compare
    from seatrial.runs.api import load as load
    from seatrial.runs.api import mutate as mutate
    from seatrial.runs.api import run as run
    from seatrial.runs.report import Report as Report

_NAMES_BY_MODULE = {
    "seatrial.agents.context": "tool",
    "seatrial.errors": "ToolError UsageError",
    "seatrial.evaluators.end_state": "EndState",
    "seatrial.evaluators.registry": "evaluator",
    "seatrial.evaluators.invariants": "Invariant",
    "seatrial.evaluators.limits": "Limits",
    "seatrial.evaluators.passfail": "PassFail",
    "seatrial.evaluators.text": "Contains ContainsEvaluator Exact JsonSchema Regex",
    "seatrial.evaluators.tool_calls": "ToolArgs ToolCallArgsEvaluator ToolCallEvaluator ToolCalls",
    "seatrial.evaluators.trajectory": "Trajectory",
    "seatrial.judges.rubric": "Judge JudgeEvaluator",
    "seatrial.judges.similarity": "Similarity",
    "seatrial.model.content": "Attachment",
    "seatrial.model.conversation": "AgentResult ToolCall Usage",
    "seatrial.model.protocols": "AgentReply Evaluator TrialContext TurnContext",
    "seatrial.model.results": "EvalResult",
    "seatrial.model.scenario": "Expect Scenario Suite SuiteConfig Turn User World",
    "seatrial.runs.api": "arun attack check compare load mutate run",
    "seatrial.runs.report": "Report",
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
