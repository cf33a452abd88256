"""Faults of tools: of mocks (`fault: timeout`), and of a sweep over tools (`seatrial run --faults`).

timeout       a tool error: the tool did not answer in time. The trial does not wait
error         a tool error: 500
rate_limited  a tool error: 429, with a time to wait
malformed     a wrong result: an HTML error page instead of JSON
truncated     the first half of the result: of its JSON, or of the text itself
empty         an empty result of the same kind: {}, [], "" or null
slow          the result, after a delay
"""

import asyncio
import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from seatrial.model.faults import FAILING, Fault
from seatrial.model.protocols import ToolAnswer

from .altered_tools import Call

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


class ToolFault:
    """Lets one tool fail in a trial, `once` or always. It is an Alteration."""

    def __init__(
        self, tool: str, fault: Fault, *, once: bool, seconds: float = SLOW_SECONDS, errors: str | None = None
    ) -> None:
        """`seconds`: how long a slow tool takes. `errors`: how the agent sees an error, a text with `{error}`."""
        self._tool = tool
        self._fault = fault
        self._once = once
        self._seconds = seconds
        self._errors = errors
        self._occurred = False

    async def answer(self, name: str, arguments: Any, turn: int, call: Call) -> ToolAnswer:
        if name != self._tool or (self._once and self._occurred):
            return await call()
        if self._fault in FAILING:
            self._occurred = True
            return self._failed(answer_with_fault(self._fault, None))
        if self._fault == "slow":
            self._occurred = True
            await asyncio.sleep(self._seconds)
            return replace(await call(), altered=self._fault)
        answer = await call()
        done = self._once and self._occurred  # by another call at the same time
        if done or answer.error is not None or not _can_alter(self._fault, answer.result):
            return answer
        self._occurred = True
        return replace(answer, result=answer_with_fault(self._fault, answer.result).result, altered=self._fault)

    def _failed(self, answer: ToolAnswer) -> ToolAnswer:
        if self._errors is None:
            return replace(answer, altered=self._fault)
        error = self._errors.replace("{error}", answer.error or "")
        return replace(answer, error=error, is_plain=True, altered=self._fault)


def _can_alter(fault: Fault, result: Any) -> bool:
    """Whether the fault makes another result of it. An empty result stays empty, and half a number is a number."""
    if fault == "truncated":
        return can_be_truncated(result)
    return fault != "empty" or _empty(result) != result
