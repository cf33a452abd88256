"""Comparison of two runs: what changed, whether it is more than noise, and where conversations differ.

Pure functions: runs and summaries come in, frozen results go out. The command line, the pages and Python use them.
"""
