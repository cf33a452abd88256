"""From files and Python objects to checked suites, and from their scenarios to objects that a run can play.

Separate, so that other packages never see how a scenario was written: YAML, JSON, lines of JSON or Python.
"""
