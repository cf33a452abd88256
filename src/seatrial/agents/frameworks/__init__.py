"""Agents made with a framework: one file for each, which knows that framework's ways and nothing else does.

Each has a class `Adapter`, made anew for every trial around the user's object, with a `run(messages, ctx)` like any
Python agent; so timeouts, isolation and the borders are those of Python agents.
"""
