"""The start of a forked trial: a stored conversation is restored up to a point."""

import json
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, Message, ToolCall
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ForkPoint, ToolBox
from seatrial.model.results import TrialError
from seatrial.model.run import Trial

_SHOWN = 120


def cut_conversation(trial: Trial, *, turn: int | None = None, call: int | None = None) -> ForkPoint:
    """The conversation before a turn's answer, or before a call of the trial; both from 0. Raises UsageError."""
    turns = trial.transcript.turns
    where = f"{trial.id} of {trial.key.label!r}"
    if call is not None:
        made = [(place, at) for place, one in enumerate(turns) for at in range(len(one.tool_calls or ()))]
        if not 0 <= call < len(made):
            raise UsageError(f"{where}: has {len(made)} recorded calls, so it has no call {call + 1}")
        turn, before = made[call]
    else:
        turn, before = turn or 0, 0
        if not 0 <= turn < len(turns):
            raise UsageError(f"{where}: has {len(turns)} turns, so it has no turn {turn + 1}")
    made_before = (turns[turn].tool_calls or ())[:before]
    return ForkPoint(
        turns=turns[:turn], open_turn=replace(turns[turn], reply=None, tool_calls=made_before), seed=trial.seed
    )


def call_messages(call: ToolCall, position: int) -> Iterator[Message]:
    """A call and its answer as chat messages. `position`: makes an id, if the call has none."""
    identity = call.id or f"call_{position}"
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments or {})
    function = {"name": call.name, "arguments": arguments}
    asked = [{"id": identity, "type": "function", "function": function}]
    yield {"role": "assistant", "content": None, "tool_calls": asked}
    content: Any = call.result if call.error is None else {"error": call.error}
    text = content if isinstance(content, str) else json.dumps(content)
    yield {"role": "tool", "tool_call_id": identity, "content": text}


async def restore_call(tools: ToolBox, call: ToolCall, *, turn: int) -> None:
    """Make a stored call again, so that mocks and world are as they were. Raises TrialError if the answer differs.

    Real tools are not called again, nor are calls that the agent only listed.
    """
    if call.real or not call.result_known or not tools.knows(call.name):
        return
    answer = await tools.call(call.name, call.arguments, turn=turn)
    then, now = (call.result, call.error), (plain_value(answer.result), answer.error)
    if then != now:
        raise TrialError(
            ErrorKind.CONFIG,
            f"the conversation cannot be restored: {call.name} answered {_show(then)} then, and {_show(now)} now",
            hint="its mock or the world has changed, is random, or answered with a secret, which is not stored; "
            "fork a trial of a new run",
        )


def _show(answer: tuple[Any, str | None]) -> str:
    text = json.dumps(answer[0], ensure_ascii=False, default=str) if answer[1] is None else f"error {answer[1]!r}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def refuse_fork(agent: Any, *, decides: bool) -> str | None:
    """Why the agent cannot continue a stored conversation; None if it can."""
    if decides:
        return "its turns approve or reject calls, and a call that waits for a person cannot be restored"
    if getattr(agent, "continues", False):
        return None
    return (
        f"the agent {agent.name!r} cannot continue a stored conversation, because it does not take messages. "
        "These can: a function or a class with a parameter messages or ctx; types openai, anthropic, bedrock; http "
        "with {{messages}} in its body; langgraph, openai_agents, pydantic_ai"
    )
