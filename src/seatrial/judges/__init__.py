"""The judges: everything that needs an opinion rather than a rule.

A model says whether a rubric is followed, grades metrics, checks outcomes and names what the agent did wrong; a small
local one says how near two texts are. It is a room of its own because an opinion can be missing, and then it must
become an error of class judge: never a pass, and never a failure of the agent.
"""

from .calibration import Calibration, calibrate
from .failures import Category, load_categories
from .merge import MergedFailures, merge_failures
from .metrics import Metric, load_metrics, overall_score, resolve_metrics
from .rubric import JudgeEvaluator, ToolArgsJudge
from .similarity import Similarity
from .transcript_judge import TranscriptJudge

__all__ = [
    "Calibration",
    "Category",
    "JudgeEvaluator",
    "MergedFailures",
    "Metric",
    "Similarity",
    "ToolArgsJudge",
    "TranscriptJudge",
    "calibrate",
    "load_categories",
    "load_metrics",
    "merge_failures",
    "overall_score",
    "resolve_metrics",
]
