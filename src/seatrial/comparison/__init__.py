"""The comparison room."""
