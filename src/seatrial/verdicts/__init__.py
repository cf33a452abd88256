"""From results to verdicts: pure functions, the only place where anything can pass.

It is a room of its own so that the command line, pytest, the server and a regrade all decide by the same rules,
from the same rows.
"""

from .budget import Spending
from .rates import answer_of, can_still_pass, reaches, read_sequential_test
from .run import decide_run
from .run_decision import RunDecision
from .scenario import decide_scenario
from .trial import count_earlier, decide_again, decide_trial, find_error

__all__ = [
    "RunDecision",
    "Spending",
    "answer_of",
    "can_still_pass",
    "count_earlier",
    "decide_again",
    "decide_run",
    "decide_scenario",
    "decide_trial",
    "find_error",
    "reaches",
    "read_sequential_test",
]
