"""Two runs side by side: what changed, whether it is beyond noise, and where the conversations part.

A room of its own, pure, so that the command line, the pages and Python programs all compare by the same rules: runs and
summaries come in, frozen results go out.
"""

from .alignment import align, align_closest
from .compare import BaselinePool, compare_runs
from .detectable_drop import estimate_rates, scenarios_to_see, trials_to_see, visible_drop
from .gate import Gate, decide_gate, find_objections
from .match import RunSide, find_gap
from .regressions import check_limits, find_regressions
from .rerun_suspects import Rerun, confirm, find_suspects, fresh_trials_needed
from .scenario_status import classify, trial_identity

__all__ = [
    "BaselinePool",
    "Gate",
    "Rerun",
    "RunSide",
    "align",
    "align_closest",
    "check_limits",
    "classify",
    "compare_runs",
    "confirm",
    "decide_gate",
    "estimate_rates",
    "find_gap",
    "find_objections",
    "find_regressions",
    "find_suspects",
    "fresh_trials_needed",
    "scenarios_to_see",
    "trial_identity",
    "trials_to_see",
    "visible_drop",
]
