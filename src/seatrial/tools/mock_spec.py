"""A mock as it is kept after reading: a small tree that ends in answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .faults import Fault

MISSING: Any = object()
"""Stands for a `returns` that was not given, since null is a result like any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Raises:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulty:
    fault: Fault
    value: Any = None
    """What would have been returned; only `truncated` has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    function: Callable[..., Any]


Answer = Returns | Raises | Faulty | Calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """An entry of `when`: the mock that answers calls with these arguments."""

    args: Mapping[str, Any]
    mock: "Mock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mock:
    """A tool's mock, or an entry of its `sequence` or `when`. First `when`, then `sequence`, then the answer."""

    path: str
    """Where it stands under `mocks:`; also the name under which a trial counts how far its sequence has come."""
    delay_ms: float | None = None
    when: tuple[Branch, ...] = ()
    sequence: tuple["Mock", ...] = ()
    answer: Answer | None = None
    """None: only what `when` or `sequence` says."""
