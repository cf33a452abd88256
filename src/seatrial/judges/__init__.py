"""The judges: everything that needs an opinion rather than a rule.

A model says whether a rubric is followed, grades metrics, checks outcomes and names what the agent did wrong; a small
local one says how near two texts are. It is a room of its own because an opinion can be missing, and then it must
become an error of class judge: never a pass, and never a failure of the agent.

A file is loaded when the first of its names is used: reading which metrics exist must not load the judges themselves.
"""
