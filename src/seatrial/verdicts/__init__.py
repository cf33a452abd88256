"""Verdicts of trials, scenarios and runs: pure functions, and the only code that can pass anything.

The command line, pytest, the server and a regrade all decide with them, from the same rows.
"""
