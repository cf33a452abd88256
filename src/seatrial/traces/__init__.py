"""Conversations that were recorded elsewhere, read into transcripts: chat logs, SDK dumps, spans, our own exports.

A room of its own because other people's formats change without asking us: what is known of them stays in here, and
everybody else sees transcripts. Nothing in it may break on any JSON whatever, except with a TraceError.
"""
