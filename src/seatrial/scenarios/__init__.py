"""The scenarios room."""
