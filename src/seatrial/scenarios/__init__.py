"""Scenario files come in here: read, checked with every problem at its place, merged, selected and fingerprinted.

A room of its own because what a tester may write is one question, and how it is played another: everything behind
this door has already been found to be right.
"""
