"""What was run, kept: runs, scenarios, trials, baselines and labels, in SQLite or PostgreSQL.

A room of its own because nothing else in the house may know how rows look: everyone else speaks of runs and trials.
"""
