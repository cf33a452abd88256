"""Sea trials for AI agents: the front door.

Every name is fetched when it is first asked for, so that `import seatrial` costs next to nothing.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from seatrial.agents import tool as tool
    from seatrial.errors import ToolError as ToolError
    from seatrial.errors import UsageError as UsageError
    from seatrial.evaluators import ContainsEvaluator as ContainsEvaluator
    from seatrial.evaluators import Exact as Exact
    from seatrial.evaluators import JsonSchema as JsonSchema
    from seatrial.evaluators import Limits as Limits
    from seatrial.evaluators import PassFail as PassFail
    from seatrial.evaluators import Regex as Regex
    from seatrial.evaluators import ToolCallArgsEvaluator as ToolCallArgsEvaluator
    from seatrial.evaluators import ToolCallEvaluator as ToolCallEvaluator
    from seatrial.evaluators import Trajectory as Trajectory
    from seatrial.evaluators import evaluator as evaluator
    from seatrial.judges import JudgeEvaluator as JudgeEvaluator
    from seatrial.judges import Similarity as Similarity
    from seatrial.model.conversation import AgentResult as AgentResult
    from seatrial.model.conversation import ToolCall as ToolCall
    from seatrial.model.conversation import Usage as Usage
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
    from seatrial.runs import Report as Report
    from seatrial.runs import arun as arun
    from seatrial.runs import check as check
    from seatrial.runs import compare as compare
    from seatrial.runs import load as load
    from seatrial.runs import run as run

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "agents": ("tool",),
        "errors": ("ToolError", "UsageError"),
        "evaluators": (
            "ContainsEvaluator",
            "Exact",
            "JsonSchema",
            "Limits",
            "PassFail",
            "Regex",
            "ToolCallArgsEvaluator",
            "ToolCallEvaluator",
            "Trajectory",
            "evaluator",
        ),
        "judges": ("JudgeEvaluator", "Similarity"),
        "runs": ("Report", "arun", "check", "compare", "load", "run"),
        "model.conversation": ("AgentResult", "ToolCall", "Usage"),
        "model.results": ("EvalResult",),
        "model.protocols": ("Evaluator", "TrialContext", "TurnContext"),
        "model.scenario": ("Expect", "Scenario", "Suite", "SuiteConfig", "Turn", "User"),
    },
)
