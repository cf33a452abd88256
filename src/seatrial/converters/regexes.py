"""Checks of texts as regular expressions: those of other tools heed the case, `reply_contains_*` does not."""

import re
from collections.abc import Iterable

NOT_IN_FRONT = r"\A(?![\s\S]*"


def escape(text: str) -> str:
    """As `re.escape`, but with spaces and dashes left alone, so that people can read it."""
    return re.escape(text).replace(r"\ ", " ").replace(r"\-", "-")


def any_of(texts: Iterable[str], *, ignore_case: bool = False) -> str:
    """Found where at least one of the texts is."""
    alternatives = "|".join(map(escape, texts))
    return f"{'(?i)' if ignore_case else ''}(?:{alternatives})"


def contains(text: str) -> str:
    return escape(text)


def none_of(texts: Iterable[str], *, ignore_case: bool = False) -> str:
    """Found only where none of the texts is."""
    return f"{'(?i)' if ignore_case else ''}{NOT_IN_FRONT}{any_of(texts)})"


def starts_with(text: str) -> str:
    return rf"\A{escape(text)}"


def does_not_match(pattern: str) -> str:
    return f"{NOT_IN_FRONT}(?:{pattern}))"
