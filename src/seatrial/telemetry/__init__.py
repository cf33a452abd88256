"""Finished trials as OpenTelemetry spans, for those who have a tracing system already.

A room of its own because it looks at trials from outside, as reports do: it is told of a trial once it is stored, and
nothing it does can change a verdict. Without an exporter nothing of OpenTelemetry is imported.
"""
