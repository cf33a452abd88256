"""Converters: files of other tools as scenario files, with notes about what they lack.

Nothing here is needed to run a suite. The converters use the reader of `scenarios`.
"""
