"""The generated parts of the reference: made from the schema, the commands and the docstrings, so never out of date."""

from .fill import GENERATED, fill

__all__ = ["GENERATED", "fill"]
