"""Judges: evaluators and metrics that ask a model.

A model decides whether a rubric is followed, grades metrics, checks outcomes and names behaviour failures. A small
local model compares texts. If a judge gives no answer, the trial is errored (judge): never passed, never failed.
"""
