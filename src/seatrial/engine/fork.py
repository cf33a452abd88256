"""The start of a forked trial: a stored conversation is restored up to a point."""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

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
    return _open(trial, turn, before)


def _open(trial: Trial, turn: int, calls: int, next_call: ToolCall | None = None) -> ForkPoint:
    """The point in a turn after this number of its calls."""
    turns = trial.transcript.turns
    open_turn = replace(turns[turn], reply=None, error=None, tool_calls=(turns[turn].tool_calls or ())[:calls])
    return ForkPoint(turns=turns[:turn], open_turn=open_turn, next_call=next_call, seed=trial.seed)


Step: TypeAlias = ToolCall | str | None
"""What an agent does next: a call, its reply, or nothing (it raised, or its time was up)."""


def step_at(trial: Trial, turn: int, calls: int) -> Step:
    """What the agent did in the turn after this number of calls of the trial."""
    turns = trial.transcript.turns
    if turn >= len(turns):
        return None
    made = turns[turn].tool_calls or ()
    at = calls - _calls_before(trial, turn)
    return made[at] if 0 <= at < len(made) else turns[turn].reply


def continue_with(trial: Trial, turn: int, calls: int, step: Step) -> ForkPoint:
    """The conversation up to a point, and then this step. None: the agent decides again."""
    at = max(calls - _calls_before(trial, turn), 0)
    point = _open(trial, turn, at, step if isinstance(step, ToolCall) else None)
    if not isinstance(step, str) or point.open_turn is None:
        return point
    return replace(point, turns=(*point.turns, replace(point.open_turn, reply=step)), open_turn=None)


def _calls_before(trial: Trial, turn: int) -> int:
    return sum(len(one.tool_calls or ()) for one in trial.transcript.turns[:turn])


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


async def make_call(tools: ToolBox, call: ToolCall, *, turn: int) -> ToolCall:
    """The call with the answer that it gets now. A real tool is not called: its stored answer is used."""
    if call.real or not call.result_known or not tools.knows(call.name):
        return call
    answer = await tools.call(call.name, call.arguments, turn=turn)
    return replace(call, result=plain_value(answer.result), error=answer.error, changes=answer.changes)


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
