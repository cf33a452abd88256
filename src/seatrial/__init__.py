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
    from seatrial.session import Report as Report
    from seatrial.session import arun as arun
    from seatrial.session import check as check
    from seatrial.session import compare as compare
    from seatrial.session import load as load
    from seatrial.session import run as run
    from seatrial.vocabulary.conversation import AgentResult as AgentResult
    from seatrial.vocabulary.conversation import ToolCall as ToolCall
    from seatrial.vocabulary.conversation import Usage as Usage
    from seatrial.vocabulary.findings import EvalResult as EvalResult
    from seatrial.vocabulary.roles import Evaluator as Evaluator
    from seatrial.vocabulary.roles import TrialContext as TrialContext
    from seatrial.vocabulary.roles import TurnContext as TurnContext
    from seatrial.vocabulary.scenario import Expect as Expect
    from seatrial.vocabulary.scenario import Scenario as Scenario
    from seatrial.vocabulary.scenario import Suite as Suite
    from seatrial.vocabulary.scenario import SuiteConfig as SuiteConfig
    from seatrial.vocabulary.scenario import Turn as Turn
    from seatrial.vocabulary.scenario import User as User

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
        "session": ("Report", "arun", "check", "compare", "load", "run"),
        "vocabulary.conversation": ("AgentResult", "ToolCall", "Usage"),
        "vocabulary.findings": ("EvalResult",),
        "vocabulary.roles": ("Evaluator", "TrialContext", "TurnContext"),
        "vocabulary.scenario": ("Expect", "Scenario", "Suite", "SuiteConfig", "Turn", "User"),
    },
)
