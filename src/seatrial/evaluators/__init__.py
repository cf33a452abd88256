"""The evaluators room."""
