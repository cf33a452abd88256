"""The server: a JSON API and pages over the store.

A door, like the command line: it reads runs through the same session and store, shows them with the report's own
templates, and starts runs as `seatrial run` in a process of their own. Nothing is decided here.
"""
