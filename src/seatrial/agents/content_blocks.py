"""Tool calls and results that stand as blocks in the content of a message, as Anthropic's API has them."""

from collections.abc import Iterator, Sequence
from typing import Any

from seatrial.model.conversation import ToolCall
from seatrial.model.json_values import plain_value
from seatrial.traces.anthropic import is_call, is_result, result_in
from seatrial.traces.parsing import parts_of

from .replies import parse_arguments, read_calls


def calls_of(content: Sequence[Any]) -> Iterator[ToolCall]:
    """The calls among the blocks."""
    for block in filter(is_call, parts_of(content)):
        arguments = parse_arguments(block.get("input"))
        yield from read_calls([{"id": block.get("id"), "name": block.get("name"), "arguments": arguments}])


def results_of(content: Sequence[Any]) -> Iterator[tuple[Any, tuple[Any, str | None]]]:
    """What tools gave back among the blocks: the call's id, and its result or error."""
    for block in filter(is_result, parts_of(content)):
        found = result_in(block)
        yield found.call_id, (plain_value(found.result), found.error)
