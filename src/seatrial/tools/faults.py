"""Ways in which real tools misbehave, to be had by name: `fault: timeout`.

timeout       the agent sees a tool error that says the tool did not answer in time. The trial does not wait for it;
              put `delay_ms` beside it for a tool that first takes its time
rate_limited  the agent sees a tool error of the kind a rate limit gives (429, with a time to wait)
malformed     the agent sees a result that is not what the tool promises: an HTML error page where JSON was due
truncated     the agent sees the first half of `returns`, cut off in the middle: of its JSON, or of a text itself
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from seatrial.model.protocols import ToolAnswer

Fault: TypeAlias = Literal["timeout", "malformed", "truncated", "rate_limited"]
FAULTS: tuple[Fault, ...] = get_args(Fault)

_ERRORS: Mapping[Fault, str] = {
    "timeout": "timeout: the tool did not answer in time",
    "rate_limited": "429 Too Many Requests: rate limit exceeded, retry after 30 seconds",
}
_ERROR_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


def answer_with_fault(fault: Fault, value: Any) -> ToolAnswer:
    """What the agent sees of a tool with this fault."""
    if fault == "malformed":
        return ToolAnswer(result=_ERROR_PAGE)
    if fault == "truncated":
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return ToolAnswer(result=text[: len(text) // 2])
    return ToolAnswer(error=_ERRORS[fault])


def can_be_truncated(value: Any) -> bool:
    """Whether half of it is something else than the whole: a text, a list or a mapping; half a number is a number."""
    return (isinstance(value, str) and len(value) > 1) or isinstance(value, list | tuple | Mapping)
