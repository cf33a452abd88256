"""The hallway: where the rooms meet, and the public verbs.

`run`, `arun` and `load` are the Python doors; the command line, pytest and the server use the same functions.
"""
