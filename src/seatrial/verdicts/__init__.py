"""The verdicts room."""
