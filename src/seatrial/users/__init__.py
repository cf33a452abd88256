"""The user's side of a conversation: scripted, programmed, or played by a model.

A room of its own, because a user who fails is not an agent who fails: whatever goes wrong here ends the trial as
errored(simulator), never as failed.
"""
