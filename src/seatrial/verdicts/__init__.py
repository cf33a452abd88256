"""From results to verdicts: pure functions, the only place where anything can pass.

It is a room of its own so that the command line, pytest, the server and a regrade all decide by the same rules,
from the same rows.
"""
