"""Faults of tools: of mocks (`fault: timeout`), and of a sweep over tools (`seatrial run --faults`).

timeout       a tool error: the tool did not answer in time. The trial does not wait
error         a tool error: 500
rate_limited  a tool error: 429, with a time to wait
malformed     a wrong result: an HTML error page instead of JSON
truncated     the first half of the result: of its JSON, or of the text itself
empty         an empty result of the same kind: {}, [], "" or null
slow          the result, after a delay
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from seatrial.model.faults import Fault
from seatrial.model.protocols import ToolAnswer

SLOW_SECONDS = 5.0
"""How long a slow tool takes, unless another time is given."""
_ERRORS: Mapping[Fault, str] = {
    "timeout": "timeout: the tool did not answer in time",
    "error": "500 Internal Server Error: the tool failed",
    "rate_limited": "429 Too Many Requests: rate limit exceeded, retry after 30 seconds",
}
_ERROR_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


def answer_with_fault(fault: Fault, value: Any) -> ToolAnswer:
    """What the agent gets from a tool with this fault, whose result would be `value`. It does not wait."""
    match fault:
        case "malformed":
            return ToolAnswer(result=_ERROR_PAGE)
        case "truncated":
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            return ToolAnswer(result=text[: len(text) // 2])
        case "empty":
            return ToolAnswer(result=_empty(value))
        case "slow":
            return ToolAnswer(result=deepcopy(value))
        case _:
            return ToolAnswer(error=_ERRORS[fault])


def can_be_truncated(value: Any) -> bool:
    """Whether half of it is a broken value: true for a text, a list or a mapping."""
    return (isinstance(value, str) and len(value) > 1) or isinstance(value, list | tuple | Mapping)


def _empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {}
    if isinstance(value, list | tuple):
        return []
    return "" if isinstance(value, str) else None
