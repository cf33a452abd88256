"""Mocked tools: what they answer during a trial, their faults, and their schemas.

A `MockSet` is read once per scenario. It opens new tools for each trial, so no trial sees the state of another.
"""
