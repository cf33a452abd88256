"""Conversations are played here, trial by trial: the turn loop, the evaluation, the schedule, the executors.

The package knows roles, not kinds of agents: it is given finished objects and yields trials, so that a run can be
played without a database and without knowing what kind of agent, user or tool takes part.
"""

from .executors import Executor, JudgeExecutor, LocalExecutor
from .rate_limit import RateLimit
from .redact import Redaction, Secret
from .schedule import Budget, FixedSchedule, Job, Schedule, TrialSchedule
from .trial import TrialSettings, judge_transcript, run_trial

__all__ = [
    "Budget",
    "Executor",
    "FixedSchedule",
    "Job",
    "JudgeExecutor",
    "LocalExecutor",
    "RateLimit",
    "Redaction",
    "Schedule",
    "Secret",
    "TrialSchedule",
    "TrialSettings",
    "judge_transcript",
    "run_trial",
]
