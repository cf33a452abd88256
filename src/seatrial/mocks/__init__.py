"""The mocks room."""
