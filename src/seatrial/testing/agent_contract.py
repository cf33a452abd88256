"""The contract of an adapter: checks that run scenarios against a real agent of its framework.

    CONTRACT = AgentContract(agent={"type": "langgraph", "target": "agent:graph"})

    @pytest.mark.parametrize("clause", CONTRACT.clauses)
    def test_the_adapter_holds(clause: str) -> None:
        CONTRACT.check(clause)

The agent works in the shop of `seatrial.testing.shop`. A clause that does not hold raises AssertionError.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import field

import seatrial
from seatrial import Attachment, Scenario, ToolCall, Turn, World
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Trial
from seatrial.model.struct import Struct

from . import shop
from .shop import COURIER_SECONDS

PARALLEL = 8
"""The number of concurrent trials in the checks that trials do not mix."""


class AgentContract(Struct, frozen=True, kw_only=True):
    """An agent of the shop, and what its adapter can do. It must refuse what it cannot do."""

    agent: Any
    """As in a suite: a mapping with a type, an import path, a Python object."""
    mocks: bool = True
    usage: bool = True
    history: bool = True
    """The scenario's `history` reaches the agent."""
    unknown_tools: bool = True
    """A call of a tool that does not exist is recorded, and the agent gets an error."""
    parallel: bool = False
    """The model asks `shop.next_steps`, and can make several calls at once."""
    nested: str | None = None
    """The tool that calls another agent, which looks up orders; None if there is none."""
    handoff: str | None = None
    """The call that hands over to another agent; None if there is none."""
    attachments: bool | None = None
    """Images and files of the user's message reach the model, which tells them by `shop.show_attachment`; False: they
    are refused; None: not checked."""
    waiting: Any = None
    """An agent of the shop with `cancel_order`, which waits for a person; None if the framework has no approvals."""
    tells_tools: bool = False
    """The names of the agent's tools are known before the first trial."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of every run, as in `suite.config`."""

    @property
    def clauses(self) -> list[str]:
        """The names of the checks that apply."""
        return [name for name, (applies, _) in _CLAUSES.items() if applies(self)]

    def check(self, clause: str) -> None:
        """Raise AssertionError, with the observed values, unless the clause holds."""
        _CLAUSES[clause][1](self)

    def play(self, *scenarios: Scenario, agent: Any = None) -> list[Trial]:
        """The trials of the scenarios, run concurrently."""
        agent = self.agent if agent is None else agent
        report = seatrial.run(scenarios, agent=agent, store=None, concurrency=PARALLEL, **self.config)
        report.asserted = True  # by the clause
        return list(report.trials())


def _replies(contract: AgentContract) -> None:
    (trial,) = contract.play(Scenario(name="reply", input="Good morning!"))
    _require_no_error(trial)
    assert trial.transcript.reply == "How can I help?", trial.transcript.reply
    assert trial.transcript.tool_calls == (), f"no tool was called, but recorded are {trial.transcript.tool_calls}"


def _calls_with_results(contract: AgentContract) -> None:
    (trial,) = contract.play(Scenario(name="two calls", input="Where is order A-1?"))
    _require_no_error(trial)
    _require_calls(trial, [("lookup_order", {"order_id": "A-1"}), ("track_parcel", {"parcel_id": "P-A-1"})])
    results = [call.result for call in _calls(trial)]
    assert "parcel P-A-1" in str(results[0]), results
    assert "Hamburg" in str(results[1]), results
    assert "Hamburg" in trial.transcript.reply, trial.transcript.reply
    assert all(call.error is None for call in _calls(trial)), _calls(trial)


def _times(contract: AgentContract) -> None:
    (trial,) = contract.play(Scenario(name="times", input="Where is order A-1?"))
    for call in _calls(trial):
        assert call.started_ms is not None, call
        assert call.duration_ms is not None, call


def _tool_error(contract: AgentContract) -> None:
    (trial,) = contract.play(Scenario(name="tool error", input="Please refund order B-2."))
    _require_no_error(trial)
    _require_calls(trial, [("refund_order", {"order_id": "B-2"})])
    (call,) = _calls(trial)
    assert call.error is not None, f"the tool failed, but no error is recorded: {call}"
    assert "paid in cash" in call.error, call
    assert "paid in cash" in trial.transcript.reply, trial.transcript.reply


def _unknown_tool(contract: AgentContract) -> None:
    (trial,) = contract.play(Scenario(name="unknown tool", input="Please teleport it."))
    _require_no_error(trial)
    _require_calls(trial, [("teleport_parcel", {"parcel_id": "P-A-1"})])
    assert _calls(trial)[0].error is not None, f"there is no such tool, but no error is recorded: {_calls(trial)[0]}"


def _model_error(contract: AgentContract) -> None:
    (trial,) = contract.play(Scenario(name="model error", input="Break down, please.", timeout_seconds=60))
    assert trial.error is not None, f"the model failed, but the trial has no error: {trial.transcript.reply}"
    assert trial.error.kind is ErrorKind.AGENT, trial.error
    assert "the model is overloaded" in trial.error.message, trial.error


def _parallel_calls(contract: AgentContract) -> None:
    """Calls in one message are told apart, though they are of one tool."""
    mocks = {"lookup_order": {"when": [{"args": {"order_id": "B-2"}, "returns": "two"}], "returns": "one"}}
    real, mocked = contract.play(
        Scenario(name="at once", input="Look up both orders."),
        Scenario(name="at once, mocked", input="Look up both orders.", mocks=mocks),
    )
    expected = [(call.name, call.arguments) for call in shop.BOTH]
    results = (["order A-1 is in parcel P-A-1", "order B-2 is in parcel P-B-2"], ["one", "two"])
    for trial, answers in zip((real, mocked), results, strict=True):
        _require_no_error(trial)
        calls = sorted(_calls(trial), key=lambda call: str(call.arguments))
        assert [(call.name, call.arguments) for call in calls] == expected, calls
        assert [call.result for call in calls] == answers, calls
        assert all(answer in trial.transcript.reply for answer in answers), trial.transcript.reply


def _remembers(contract: AgentContract) -> None:
    (trial,) = contract.play(_introduction("Ada"))
    _require_no_error(trial)
    assert trial.transcript.reply == "You are Ada.", trial.transcript.reply


def _keeps_turns_apart(contract: AgentContract) -> None:
    """The calls of the first turn are not repeated in the second."""
    turns = (Turn(user="Where is order A-1?"), Turn(user="Where is order C-3?"))
    (trial,) = contract.play(Scenario(name="calls by turn", turns=turns))
    _require_no_error(trial)
    seen = [[call.arguments for call in turn.tool_calls or ()] for turn in trial.transcript.turns]
    assert seen == [[{"order_id": o}, {"parcel_id": f"P-{o}"}] for o in ("A-1", "C-3")], seen


def _trials_apart(contract: AgentContract) -> None:
    names = [f"Person{number}" for number in range(PARALLEL)]
    trials = contract.play(*(_introduction(name) for name in names))
    seen = [trial.transcript.reply for trial in trials]
    assert seen == [f"You are {name}." for name in names], seen


def _overruns(contract: AgentContract) -> None:
    seconds = COURIER_SECONDS / 5
    (trial,) = contract.play(Scenario(name="timeout", input="Call the courier.", timeout_seconds=seconds))
    assert trial.error is not None, "the agent exceeded its timeout, but the trial has no error"
    assert trial.error.kind is ErrorKind.LIMIT, trial.error


def _usage(contract: AgentContract) -> None:
    short, long = contract.play(
        Scenario(name="short", input="Good morning!"), Scenario(name="long", input="Where is order A-1?")
    )
    few, many = short.transcript.usage, long.transcript.usage
    assert few is not None, "no usage is recorded"
    assert few.input_tokens, few
    assert few.output_tokens, few
    assert many is not None, "no usage is recorded"
    assert (many.total_tokens or 0) > (few.total_tokens or 0), f"three requests took {many}, one took {few}"


def _history(contract: AgentContract) -> None:
    before = ({"role": "user", "content": "My name is Grace."}, {"role": "assistant", "content": "Noted."})
    (trial,) = contract.play(Scenario(name="history", history=before, input="What is my name?"))
    _require_no_error(trial)
    assert trial.transcript.reply == "You are Grace.", trial.transcript.reply


def _history_calls(contract: AgentContract) -> None:
    """Calls in the history are not calls of the agent."""
    call = {
        "id": "call_old",
        "type": "function",
        "function": {"name": "lookup_order", "arguments": '{"order_id": "Z-9"}'},
    }
    before = (
        {"role": "system", "content": "You work in a shop."},
        {"role": "user", "content": "My name is Grace. Where is order Z-9?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_old", "content": "order Z-9 is lost"},
        {"role": "assistant", "content": "It is lost."},
    )
    (trial,) = contract.play(Scenario(name="calls in history", history=before, input="What is my name?"))
    _require_no_error(trial)
    assert trial.transcript.reply == "You are Grace.", trial.transcript.reply
    assert trial.transcript.tool_calls == (), trial.transcript.tool_calls


def _mocks(contract: AgentContract) -> None:
    """Concurrent trials have their own mocks; with passthrough, a tool without a mock runs."""
    orders = [f"M-{number}" for number in range(PARALLEL)]
    trials = contract.play(*(_mocked(order, {"returns": f"it is in parcel P-mock-{order}"}) for order in orders))
    for order, trial in zip(orders, trials, strict=True):
        _require_no_error(trial)
        calls = [("lookup_order", {"order_id": order}), ("track_parcel", {"parcel_id": f"P-mock-{order}"})]
        _require_calls(trial, calls)
        assert _calls(trial)[0].result == f"it is in parcel P-mock-{order}", _calls(trial)
        assert f"P-mock-{order} is in Hamburg" in trial.transcript.reply, trial.transcript.reply
        assert [call.real for call in _calls(trial)] == [False, True], _calls(trial)


def _unmocked(contract: AgentContract) -> None:
    """In a scenario with mocks, a tool without one never runs."""
    mocks = {"lookup_order": {"returns": "it is in parcel P-unmocked"}}
    (trial,) = contract.play(Scenario(name="unmocked", input="Where is order U-1?", mocks=mocks))
    assert "P-unmocked" not in shop.TRACKED, "the real tool ran, though it has no mock"
    assert trial.error is not None, "a tool without a mock was called, but the trial has no error"
    assert trial.error.kind is ErrorKind.TOOL, trial.error
    assert trial.error.message == "Tool 'track_parcel' was called but no mock is defined", trial.error
    assert "track_parcel: {returns: {}}" in (trial.error.hint or ""), trial.error
    names = [call.name for call in _calls(trial)]
    assert set(names) == {"lookup_order", "track_parcel"}, _calls(trial)
    assert not any(call.real for call in _calls(trial)), _calls(trial)


def _unmocked_and_none(contract: AgentContract) -> None:
    """With unmocked_tools: error, no tool runs even without mocks."""
    asked = Scenario(name="no mocks", input="Where is order U-2?", unmocked_tools="error")
    (trial,) = contract.play(asked)
    assert "P-U-2" not in shop.TRACKED, "the real tool ran, though it has no mock"
    assert trial.error is not None, "a tool without a mock was called, but the trial has no error"
    assert trial.error.message == "Tool 'lookup_order' was called but no mock is defined", trial.error


def _refuses_unknown_names(contract: AgentContract) -> None:
    asked = Scenario(name="misspelt", input="Where is order A-1?", mocks={"lookup_ordr": {"returns": "nothing"}})
    refusal = ""
    try:
        contract.play(asked)
    except UsageError as problem:
        refusal = str(problem)
    assert refusal, "a mock names an unknown tool, but the run was not refused"
    assert "no tool 'lookup_ordr'. Did you mean 'lookup_order'?" in refusal, refusal


def _mock_error(contract: AgentContract) -> None:
    mocks = {"refund_order": {"raises": "the till is locked"}}
    (trial,) = contract.play(Scenario(name="mocked error", input="Please refund order B-2.", mocks=mocks))
    _require_no_error(trial)
    _require_calls(trial, [("refund_order", {"order_id": "B-2"})])
    assert _calls(trial)[0].error == "the till is locked", _calls(trial)
    assert "the till is locked" in trial.transcript.reply, trial.transcript.reply


def _world(contract: AgentContract) -> None:
    def refund_order(state: dict[str, Any], order_id: str) -> str:
        state["refunds"].append(order_id)
        return "paid by the world"

    world = World(seed={"refunds": []}, tools=[refund_order])
    (trial,) = contract.play(Scenario(name="world", input="Please refund order B-2.", world=world))
    _require_no_error(trial)
    assert "paid by the world" in trial.transcript.reply, trial.transcript.reply
    assert trial.transcript.world is not None
    changes = [(change.path, change.value) for change in trial.transcript.world.changes]
    assert changes == [("/refunds/0", "B-2")], changes


def _refuses_mocks(contract: AgentContract) -> None:
    (trial,) = contract.play(_mocked("M-1", {"returns": "nowhere"}))
    _require_refusal(trial, "mocks cannot be used with this agent, and it ran without them")


def _refuses_history(contract: AgentContract) -> None:
    before = ({"role": "user", "content": "My name is Grace."},)
    (trial,) = contract.play(Scenario(name="history", history=before, input="What is my name?"))
    _require_refusal(trial, "the history cannot reach this agent, and it ran without it")


def _nested(contract: AgentContract) -> None:
    (trial,) = contract.play(Scenario(name="nested", input="Ask the expert."))
    _require_no_error(trial)
    names = {call.name for call in _calls(trial)}
    assert names == {contract.nested, "lookup_order", "track_parcel"}, _calls(trial)
    assert "P-E-5 is in Hamburg" in trial.transcript.reply, trial.transcript.reply


def _nested_mocks(contract: AgentContract) -> None:
    mocks = {"lookup_order": {"returns": "it is in parcel P-mock"}}
    asked = Scenario(name="nested mocks", input="Ask the expert.", mocks=mocks, unmocked_tools="passthrough")
    (trial,) = contract.play(asked)
    _require_no_error(trial)
    assert "P-mock is in Hamburg" in trial.transcript.reply, trial.transcript.reply


def _handoff(contract: AgentContract) -> None:
    turns = (Turn(user="Give me to billing."), Turn(user="Good morning!"))
    (trial,) = contract.play(Scenario(name="handoff", turns=turns))
    _require_no_error(trial)
    assert [call.name for call in _calls(trial)] == [contract.handoff], _calls(trial)
    assert trial.transcript.turns[0].reply == "Billing here.", trial.transcript.turns[0].reply


def _handoff_without_mock(contract: AgentContract) -> None:
    mocks = {"lookup_order": {"returns": "nowhere"}}
    (trial,) = contract.play(Scenario(name="handoff", input="Give me to billing.", mocks=mocks))
    _require_no_error(trial)
    assert [(call.name, call.real) for call in _calls(trial)] == [(contract.handoff, False)], _calls(trial)


def _attachments(contract: AgentContract) -> None:
    files = (Attachment.of(b"picture", name="hat.png"), Attachment.of(b"%PDF", name="receipt.pdf"))
    turns = (Turn(user="What is attached?", attach=files), Turn(user="Good morning!"))
    (trial,) = contract.play(Scenario(name="attachments", turns=turns))
    _require_no_error(trial)
    seen = trial.transcript.turns[0].reply
    assert seen == "I see [image/png, 7 bytes] and [application/pdf, 4 bytes].", seen
    assert trial.transcript.reply == "How can I help?", trial.transcript.reply


def _refuses_attachments(contract: AgentContract) -> None:
    asked = Scenario(name="attachments", input="What is this?", attach=(Attachment.of(b"picture", name="hat.png"),))
    refusal = ""
    try:
        contract.play(asked)
    except UsageError as problem:
        refusal = str(problem)
    assert "attaches images or files" in refusal, refusal or "the agent gets no attachments, but ran without them"


def _approves(contract: AgentContract) -> None:
    """A call waits, real or mocked, until a turn approves it; then it is made once."""
    orders, approval = ("A-1", "M-1"), Turn(approve=("cancel_order",))
    mocks = {"cancel_order": {"returns": "cancelled by the mock"}}
    trials = contract.play(
        _cancelling(orders[0], approval), _cancelling(orders[1], approval, mocks=mocks), agent=contract.waiting
    )
    for order, result, trial in zip(orders, ("order A-1 is cancelled", "cancelled by the mock"), trials, strict=True):
        _require_no_error(trial)
        asked, answered = trial.transcript.turns
        assert asked.tool_calls == (), f"the call waits, but recorded are {asked.tool_calls}"
        assert asked.reply == "(waits for approval: cancel_order)", asked.reply
        made = [(call.name, call.arguments, call.result) for call in answered.tool_calls or ()]
        assert made == [("cancel_order", {"order_id": order}, result)], made
        assert result in (answered.reply or ""), answered.reply
    assert "M-1" not in shop.CANCELLED, "the real tool ran, though it is mocked"


def _rejects(contract: AgentContract) -> None:
    turn = Turn(reject=("cancel_order",))
    (trial,) = contract.play(_cancelling("R-1", turn), agent=contract.waiting)
    _require_no_error(trial)
    assert "R-1" not in shop.CANCELLED, "the call was rejected, but the tool ran"
    asked, answered = trial.transcript.turns
    assert asked.tool_calls == (), asked.tool_calls
    (call,) = answered.tool_calls or ()
    assert (call.name, call.arguments) == ("cancel_order", {"order_id": "R-1"}), call
    assert call.error is not None, f"the call was rejected, but no error is recorded: {call}"
    assert not call.real, f"the call was rejected, but counts as one of the real tool: {call}"


def _waits(contract: AgentContract) -> None:
    (trial,) = contract.play(Scenario(name="undecided", input="Please cancel order W-1."), agent=contract.waiting)
    assert "W-1" not in shop.CANCELLED, "the tool ran without an approval"
    _require_refusal(trial, "the agent waits for a person, and no turn decides, but the trial has no error")


def _mocked_needs_no_approval(contract: AgentContract) -> None:
    mocks = {"cancel_order": {"returns": "cancelled by the mock"}}
    (trial,) = contract.play(
        Scenario(name="mocked", input="Please cancel order N-1.", mocks=mocks), agent=contract.waiting
    )
    _require_no_error(trial)
    assert [call.name for call in _calls(trial)] == ["cancel_order"], _calls(trial)
    assert "cancelled by the mock" in trial.transcript.reply, trial.transcript.reply


_CLAUSES: Mapping[str, tuple[Callable[[AgentContract], bool], Callable[[AgentContract], None]]] = {
    "a reply is recorded, without tool calls": (lambda _: True, _replies),
    "two calls are recorded with arguments and results": (lambda _: True, _calls_with_results),
    "calls have their times": (lambda _: True, _times),
    "a tool's error is recorded": (lambda _: True, _tool_error),
    "a call of an unknown tool is recorded": (lambda c: c.unknown_tools, _unknown_tool),
    "calls at once are all recorded, and mocks answer each": (lambda c: c.parallel and c.mocks, _parallel_calls),
    "an error of the model is the agent's": (lambda _: True, _model_error),
    "the second turn remembers the first": (lambda _: True, _remembers),
    "each turn has only its own calls": (lambda _: True, _keeps_turns_apart),
    "parallel trials do not mix": (lambda _: True, _trials_apart),
    "an agent that exceeds its timeout is errored": (lambda _: True, _overruns),
    "tokens are recorded": (lambda c: c.usage, _usage),
    "the scenario's history reaches the agent": (lambda c: c.history, _history),
    "calls in the history are not the agent's": (lambda c: c.history, _history_calls),
    "a history that cannot reach the agent is refused": (lambda c: not c.history, _refuses_history),
    "mocks answer, separately for each trial": (lambda c: c.mocks, _mocks),
    "a mock's error reaches the agent": (lambda c: c.mocks, _mock_error),
    "a world answers, and its end state is recorded": (lambda c: c.mocks, _world),
    "in a scenario with mocks, a tool without one never runs": (lambda c: c.mocks, _unmocked),
    "no real tool runs with unmocked_tools: error": (lambda c: c.mocks, _unmocked_and_none),
    "a mock of an unknown tool is refused": (lambda c: c.mocks and c.tells_tools, _refuses_unknown_names),
    "mocks that cannot be used are refused": (lambda c: not c.mocks, _refuses_mocks),
    "the calls of nested agents are recorded": (lambda c: c.nested is not None, _nested),
    "mocks answer nested agents": (lambda c: c.nested is not None and c.mocks, _nested_mocks),
    "a handoff is recorded": (lambda c: c.handoff is not None, _handoff),
    "a handoff needs no mock": (lambda c: c.handoff is not None and c.mocks, _handoff_without_mock),
    "images and files reach the model": (lambda c: c.attachments is True, _attachments),
    "images and files are refused": (lambda c: c.attachments is False, _refuses_attachments),
    "a call waits until a turn approves it": (lambda c: c.waiting is not None, _approves),
    "a rejected call does not run, and is recorded": (lambda c: c.waiting is not None, _rejects),
    "a call that no turn decides about is errored": (lambda c: c.waiting is not None, _waits),
    "a mocked tool needs no approval": (lambda c: c.waiting is not None and c.mocks, _mocked_needs_no_approval),
}
"""By name: whether the clause applies, and the check."""


def _cancelling(order: str, decision: Turn, *, mocks: Mapping[str, Any] | None = None) -> Scenario:
    turns = (Turn(user=f"Please cancel order {order}."), decision)
    return Scenario(name=f"cancel {order}", turns=turns, mocks=mocks or {})


def _introduction(name: str) -> Scenario:
    turns = (Turn(user=f"Hello, my name is {name}."), Turn(user="What is my name?"))
    return Scenario(name=f"introduction of {name}", turns=turns)


def _mocked(order: str, mock: Mapping[str, Any]) -> Scenario:
    return Scenario(
        name=f"mocked {order}",
        input=f"Where is order {order}?",
        mocks={"lookup_order": mock},
        unmocked_tools="passthrough",
    )


def _calls(trial: Trial) -> Sequence[ToolCall]:
    calls = trial.transcript.tool_calls
    assert calls is not None, "tool calls were not recorded"
    return calls


def _require_no_error(trial: Trial) -> None:
    assert trial.error is None, f"{trial.error}\n{trial.error.traceback if trial.error else ''}"


def _require_calls(trial: Trial, expected: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    seen = [(call.name, call.arguments) for call in _calls(trial)]
    assert seen == list(expected), f"expected {list(expected)}, recorded {seen}"


def _require_refusal(trial: Trial, otherwise: str) -> None:
    assert trial.error is not None, otherwise
    assert trial.error.kind is ErrorKind.CONFIG, trial.error
