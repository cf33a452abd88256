"""Evidence as it was: copies of what agents and tools hand around, taken before anybody can change it."""

from typing import Any

DEEPEST = 100
"""Nothing is followed further down: it may hold itself, and everything after us walks through it by recursion."""


_PLAIN = frozenset({str, int, float, bool, type(None)})


def copied(value: Any, *, depth: int = DEEPEST) -> Any:
    """The value with its dicts, lists and tuples made anew; whatever else it holds stays the same object."""
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is dict:
        if depth and _PLAIN.issuperset(map(type, value.values())):
            return value.copy()
        return {k: copied(v, depth=depth - 1) for k, v in value.items()} if depth else "[nested too deeply]"
    if kind is list or kind is tuple:
        return kind(copied(v, depth=depth - 1) for v in value) if depth else "[nested too deeply]"
    return value
