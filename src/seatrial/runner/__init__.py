"""Conversations are played here, trial by trial: the turn loop, the evaluation, the schedule.

The room knows roles, not actors: it is given finished objects and yields trials, so that a run can be played without a
database and without knowing what kind of agent, user or tool takes part.
"""

from .redact import Redaction, Secret
from .run import RunOptions, run_trials
from .trial import TrialSettings, judge_transcript, run_trial

__all__ = ["Redaction", "RunOptions", "Secret", "TrialSettings", "judge_transcript", "run_trial", "run_trials"]
