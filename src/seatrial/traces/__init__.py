"""Readers of recorded conversations: chat logs, dumps of SDKs, OpenTelemetry spans, Seatrial's own exports.

Only this package knows these formats, which change without notice. It makes transcripts of them. For any JSON
whatsoever, the only exception it raises is TraceError.
"""
