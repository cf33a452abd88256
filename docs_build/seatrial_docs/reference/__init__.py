"""The reference pages: generated from the schema, the commands and the docstrings, and committed."""

from .pages import GENERATED, reference_pages, refreshed, write_pages

__all__ = ["GENERATED", "reference_pages", "refreshed", "write_pages"]
