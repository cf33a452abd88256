"""Faults of tools."""

from typing import Literal, TypeAlias, get_args

Fault: TypeAlias = Literal["timeout", "error", "rate_limited", "malformed", "truncated", "empty", "slow"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
