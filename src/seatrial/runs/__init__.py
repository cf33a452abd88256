"""Runs: from a request to a report, and what can be done with stored runs.

`run`, `arun` and `load` in `api` are the Python entry points; the command line, pytest and the server use the same
session.
"""
