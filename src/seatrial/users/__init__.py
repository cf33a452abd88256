"""The users room."""
