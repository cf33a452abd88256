"""Conversations are played here, trial by trial: the turn loop, the evaluation, the schedule, the executors.

The package knows roles, not kinds of agents: it is given finished objects and yields trials, so that a run can be
played without a database and without knowing what kind of agent, user or tool takes part.
"""
