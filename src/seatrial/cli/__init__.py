"""The command line: thin shells around the session. Each command is loaded when it is called."""

from .main import main

__all__ = ["main"]
