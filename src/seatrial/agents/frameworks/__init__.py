"""Agents of frameworks: one module per framework, with a class `Adapter`.

An Adapter is made for each trial around the user's object. It has `run(messages, ctx)` and `tool_names`, and is called
like any Python agent, so timeouts and isolation are the same.
"""
