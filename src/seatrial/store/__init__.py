"""The store: runs, scenarios, trials, baselines and labels, in SQLite or PostgreSQL.

Only this package knows tables and rows; other packages use runs and trials.
"""
