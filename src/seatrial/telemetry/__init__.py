"""Finished trials as OpenTelemetry spans.

A listener gets each trial after its commit, so nothing here can change a verdict. Without an exporter, nothing of
OpenTelemetry is imported.
"""
