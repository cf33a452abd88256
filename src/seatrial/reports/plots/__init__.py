"""Plots of runs as SVG, made by pure functions from plain values.

The web pages, the one-file report, `seatrial plot` and notebooks show the same plots.
"""
