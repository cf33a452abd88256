"""The rules of a trajectory about calls that must not be made, in any mode."""

import json
from collections.abc import Sequence

from seatrial.model.conversation import ToolCall
from seatrial.model.scenario import ExpectedCall

from .expected_calls import Alternative, entry_of


def broken_rules(rules: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> tuple[tuple[str, ...], frozenset[int]]:
    """One text for each rule that was broken, and all calls that broke one."""
    texts: list[str] = []
    hits: set[int] = set()
    for rule in rules:
        alternatives = entry_of(rule).alternatives
        broken = [index for index, call in enumerate(calls) if _breaks(alternatives, call)]
        if broken:
            hits.update(broken)
            texts.append(_broken_in_words(rule, calls[broken[0]]))
    return tuple(texts), frozenset(hits)


def _breaks(rule: Sequence[Alternative], call: ToolCall) -> bool:
    """Whether the rule forbids the call. One whose arguments are not known is not excused by a rule about arguments."""
    return any(
        each.name == call.name and (each.args is None or call.args is None or each.accepts(call)) for each in rule
    )


def _broken_in_words(rule: ExpectedCall, call: ToolCall) -> str:
    named = next((each for each in rule.any_of if each.name == call.name), rule)
    about_arguments = named.arg_match != "ignore" and (named.arg_match or named.args is not None)
    return f"{call.name}({arguments_as_json(call)})" if about_arguments else call.name


def arguments_as_json(call: ToolCall) -> str:
    """The arguments of a call, short."""
    return json.dumps(call.arguments, separators=(",", ":"), ensure_ascii=False, default=repr)
