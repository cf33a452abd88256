"""Evaluators that need no model: the same conversation always gets the same answer.

Each evaluator is a frozen struct whose fields are its arguments in files and in Python. It is pure: it reads the
recorded conversation and returns an EvalResult, and uses no clock, disk, network or settings.
"""
