"""The user's side of a conversation: scripted, programmed, or simulated by a model.

An error here ends the trial as errored(simulator), never as failed.
"""
