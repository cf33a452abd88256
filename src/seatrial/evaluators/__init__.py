"""Evaluators that need no model: the same conversation always gets the same answer.

They are a room of their own because they are pure. Each is a frozen dataclass whose fields are its arguments in a
file; it looks at what was said and done and returns an EvalResult, and it reads no time, disk, network or setting.
"""
