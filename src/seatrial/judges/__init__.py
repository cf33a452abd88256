"""The judges: everything that needs an opinion rather than a rule.

A model says whether a rubric is followed, grades metrics, checks outcomes and names what the agent did wrong; a small
local one says how near two texts are. It is a room of its own because an opinion can be missing, and then it must
become an error of class judge: never a pass, and never a failure of the agent.

A file is loaded when the first of its names is used: reading which metrics exist must not load the judges themselves.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .calibration import Calibration as Calibration
    from .calibration import calibrate as calibrate
    from .dedup_failures import MergedFailures as MergedFailures
    from .dedup_failures import merge_failures as merge_failures
    from .failure_categories import Category as Category
    from .failure_categories import load_categories as load_categories
    from .metrics import Metric as Metric
    from .metrics import load_metrics as load_metrics
    from .metrics import overall_score as overall_score
    from .metrics import resolve_metrics as resolve_metrics
    from .rubric import JudgeEvaluator as JudgeEvaluator
    from .rubric import ToolArgsJudge as ToolArgsJudge
    from .similarity import Similarity as Similarity
    from .transcript_judge import TranscriptJudge as TranscriptJudge

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "calibration": ("Calibration", "calibrate"),
        "failure_categories": ("Category", "load_categories"),
        "dedup_failures": ("MergedFailures", "merge_failures"),
        "metrics": ("Metric", "load_metrics", "overall_score", "resolve_metrics"),
        "rubric": ("JudgeEvaluator", "ToolArgsJudge"),
        "similarity": ("Similarity",),
        "transcript_judge": ("TranscriptJudge",),
    },
)
