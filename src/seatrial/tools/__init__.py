"""What the agent's tools answer during a trial: mocks, faults and tool schemas.

A room of its own because a mock is neither the agent's nor the evaluators': it plays the world around the agent. A
`MockSet` is read once per scenario and opens a fresh `ToolBox` for each trial, so that no trial sees another's state.
"""
