"""The turn loop: what is said, asked and answered until a trial ends, and what is kept of it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from seatrial.agents.context import AgentContext
from seatrial.agents.resolve import resolve_agent
from seatrial.engine.schedule import RateLimit
from seatrial.engine.trial import TrialSettings, run_trial
from seatrial.errors import ToolError
from seatrial.evaluators.matchers import matches
from seatrial.model.conversation import AgentResult, ErrorKind, Message, StopReason, ToolCall, Transcript, Usage
from seatrial.model.protocols import Agent, AgentReply, PreparedScenario, TrialStart
from seatrial.model.results import AgentFailure, TrialError
from seatrial.model.run import ScenarioEntry, ScenarioKey
from seatrial.model.scenario import Scenario
from seatrial.tools.tool_box import MockSet
from seatrial.users.scripted import FunctionUser, ScriptedUser


class ScriptedAgent:
    """Gives the answers in order, or raises them; keeps what it was sent."""

    name = "scripted"
    answers_own_tools = False
    keeps_conversation = True

    def __init__(self, *answers: AgentReply | BaseException | str) -> None:
        self._answers = list(answers)
        self.heard: list[list[Message]] = []
        self.timeouts: list[float] = []
        self.closed = 0

    def open(self, start: TrialStart) -> "ScriptedAgent":
        return self

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        self.heard.append([dict(message) for message in messages])
        self.timeouts.append(timeout)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return AgentReply(reply=answer, tool_calls=()) if isinstance(answer, str) else answer

    async def close(self) -> None:
        self.closed += 1


def asks_for(name: str, arguments: Any = None, *, id: str = "c1") -> AgentReply:
    call = ToolCall(name, {} if arguments is None else arguments, id=id)
    return AgentReply(tool_calls=(), requested=(call,), messages=({"role": "assistant", "tool_calls": [{"id": id}]},))


def a_scenario(
    agent: Any, *lines: str, mocks: Any = None, user: Callable[..., Any] | None = None, **fields: Any
) -> PreparedScenario:
    adapter: Agent = agent if isinstance(agent, ScriptedAgent) else resolve_agent(agent)
    scripted = lines or ("hello",)
    return PreparedScenario(
        entry=ScenarioEntry(key=ScenarioKey("suite", "scenario"), position=0, fingerprint="f", trials=1),
        scenario=Scenario(name="scenario", input="hello"),
        agent=adapter,
        make_user=lambda index, seed: ScriptedUser(scripted) if user is None else FunctionUser(user),
        make_tools=MockSet.parse(mocks, matches=matches).open,
        scripted=user is None,
        **fields,
    )


def play(prepared: PreparedScenario, *, rate_limit: RateLimit | None = None) -> Transcript:
    async def run() -> Transcript:
        try:
            return (await run_trial(prepared, 0, TrialSettings(rate_limit=rate_limit))).transcript
        finally:
            await prepared.agent.close()

    return asyncio.run(run())


# Turns and how they end.


def test_scripted_turns_are_played_in_order_and_the_script_ends() -> None:
    agent = ScriptedAgent("one", "two")
    transcript = play(a_scenario(agent, "first", "second"))
    assert [(turn.index, turn.user, turn.reply) for turn in transcript.turns] == [
        (0, "first", "one"),
        (1, "second", "two"),
    ]
    assert transcript.stop_reason is StopReason.SCRIPT_ENDED
    assert [message["content"] for message in agent.heard[1]] == ["first", "one", "second"]


def test_the_history_stands_before_the_first_turn() -> None:
    agent = ScriptedAgent("hi")
    history = ({"role": "system", "content": "be kind"}, {"role": "user", "content": "earlier"})
    transcript = play(a_scenario(agent, history=history))
    assert [message["content"] for message in agent.heard[0]] == ["be kind", "earlier", "hello"]
    assert transcript.history == history


def test_a_conversation_without_end_stops_at_max_turns_which_is_no_error() -> None:
    agent = ScriptedAgent(*["again"] * 3)
    transcript = play(a_scenario(agent, user=lambda conversation: "more", max_turns=3))
    assert (len(transcript.turns), transcript.stop_reason, transcript.error) == (3, StopReason.MAX_TURNS, None)


@pytest.mark.parametrize("max_turns", [2, 3])
def test_a_script_is_played_to_its_end_whatever_max_turns_is(max_turns: int) -> None:
    agent = ScriptedAgent("one", "two", "three")
    transcript = play(a_scenario(agent, "a", "b", "c", max_turns=max_turns))
    assert (len(transcript.turns), transcript.stop_reason) == (3, StopReason.SCRIPT_ENDED)


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ({"goal_met": True}, StopReason.GOAL_MET),
        ({"stop": True}, StopReason.USER_STOPPED),
        (None, StopReason.USER_STOPPED),
    ],
)
def test_a_user_ends_the_conversation(last: Any, reason: StopReason) -> None:
    transcript = play(a_scenario(ScriptedAgent("hi"), user=lambda said: last if said else "hello"))
    assert (len(transcript.turns), transcript.stop_reason) == (1, reason)


def test_a_user_that_breaks_ends_the_trial_as_a_simulator_error() -> None:
    def user(conversation: Any) -> Any:
        if conversation:
            raise ValueError("lost the thread")
        return "hello"

    transcript = play(a_scenario(ScriptedAgent("hi"), user=user))
    assert transcript.error is not None
    assert (transcript.error.kind, transcript.error.turn) == (ErrorKind.SIMULATOR, 1)
    assert (len(transcript.turns), transcript.stop_reason) == (1, StopReason.ERROR)


def test_what_was_said_before_an_error_is_kept() -> None:
    transcript = play(a_scenario(ScriptedAgent("fine", AgentFailure("boom")), "a", "b", "c"))
    assert [(turn.reply, turn.error is None) for turn in transcript.turns] == [("fine", True), (None, False)]
    assert transcript.error is not None
    assert (transcript.error.message, transcript.error.turn) == ("boom", 1)


def test_the_agent_is_closed_after_the_trial_and_after_a_failing_one() -> None:
    for answers in (["hi"], [AgentFailure("boom")]):
        agent = ScriptedAgent(*answers)
        asyncio.run(run_trial(a_scenario(agent), 0, TrialSettings()))
        assert agent.closed == 1


def test_an_agent_that_cannot_be_closed_makes_the_trial_errored() -> None:
    class Clinging(ScriptedAgent):
        async def close(self) -> None:
            raise AgentFailure("still busy")

    async def run() -> Transcript:
        return (await run_trial(a_scenario(Clinging("hi")), 0, TrialSettings())).transcript

    transcript = asyncio.run(run())
    assert transcript.error is not None
    assert transcript.error.message == "closing the agent failed: still busy"
    assert transcript.turns[0].reply == "hi"


# Retries.


def test_after_an_error_of_its_own_the_agent_is_asked_again_and_that_is_recorded() -> None:
    agent = ScriptedAgent(AgentFailure("once"), AgentFailure("twice"), "third time lucky")
    transcript = play(a_scenario(agent, retries=2))
    turn = transcript.turns[0]
    assert (turn.reply, turn.retries, transcript.error) == ("third time lucky", 2, None)


def test_retries_are_not_endless() -> None:
    transcript = play(a_scenario(ScriptedAgent(*[AgentFailure("boom")] * 3), retries=2))
    assert transcript.error is not None
    assert (transcript.error.message, transcript.turns[0].retries) == ("boom", 2)


@pytest.mark.parametrize(
    "failure",
    [
        AgentFailure("hopeless", final=True),
        TrialError(ErrorKind.LIMIT, "too slow"),
        TrialError(ErrorKind.TOOL, "no mock"),
        TrialError(ErrorKind.CONFIG, "wrong"),
    ],
    ids=["final", "limit", "tool", "config"],
)
def test_only_errors_of_the_agent_that_may_pass_are_retried(failure: TrialError) -> None:
    transcript = play(a_scenario(ScriptedAgent(failure, "never said"), retries=5))
    assert transcript.error is not None
    assert (transcript.error.kind, transcript.turns[0].retries) == (failure.info.kind, 0)


def test_a_retry_begins_with_the_conversation_as_it_was_but_keeps_the_calls_that_were_made() -> None:
    agent = ScriptedAgent(asks_for("lookup"), AgentFailure("lost it"), "found")
    transcript = play(a_scenario(agent, mocks={"lookup": {"returns": 1}}, retries=1))
    assert [message["role"] for message in agent.heard[2]] == ["user"]
    assert [call.name for call in transcript.turns[0].tool_calls or ()] == ["lookup"]


def test_a_python_agent_that_recovers_is_retried() -> None:
    tries: list[int] = []

    def agent(input: str) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("flaky")
        return "here"

    transcript = play(a_scenario(agent, retries=2))
    assert (transcript.turns[0].reply, transcript.turns[0].retries) == ("here", 2)


# Tool rounds.


def test_a_requested_call_is_answered_from_the_mock_and_told_to_the_agent() -> None:
    agent = ScriptedAgent(asks_for("lookup", {"id": 1}), "it was sent")
    transcript = play(a_scenario(agent, mocks={"lookup": {"returns": {"status": "sent"}}}))
    assert agent.heard[1][-1] == {"role": "tool", "tool_call_id": "c1", "content": '{"status": "sent"}'}
    assert transcript.turns[0].tool_calls == (ToolCall("lookup", {"id": 1}, {"status": "sent"}, id="c1"),)
    assert transcript.turns[0].reply == "it was sent"


def test_a_tool_error_is_told_to_the_agent() -> None:
    agent = ScriptedAgent(asks_for("pay"), "sorry")
    transcript = play(a_scenario(agent, mocks={"pay": {"raises": "card expired"}}))
    assert agent.heard[1][-1]["content"] == '{"error": "card expired"}'
    assert (transcript.tool_calls or ())[0].error == "card expired"


def test_a_tool_without_a_mock_ends_the_trial_with_the_snippet_to_add() -> None:
    transcript = play(a_scenario(ScriptedAgent(asks_for("send_email"), "never said")))
    assert transcript.error is not None
    assert transcript.error.kind is ErrorKind.TOOL
    assert transcript.error.message == "Tool 'send_email' was called but no mock is defined"
    assert "send_email: {returns: {}}" in (transcript.error.hint or "")
    assert [call.name for call in transcript.tool_calls or ()] == ["send_email"]


def test_a_bug_in_a_mock_is_a_tool_error_of_the_trial() -> None:
    def mock(args: Any, ctx: Any) -> Any:
        raise KeyError("id")

    transcript = play(a_scenario(ScriptedAgent(asks_for("lookup"), "x"), mocks={"lookup": mock}))
    assert transcript.error is not None
    assert transcript.error.kind is ErrorKind.TOOL


def test_fifty_rounds_of_tools_are_allowed() -> None:
    agent = ScriptedAgent(*[asks_for("next")] * 50, "done")
    transcript = play(a_scenario(agent, mocks={"next": {"returns": 1}}))
    assert (transcript.error, transcript.turns[0].reply) == (None, "done")


def test_the_fifty_first_round_of_tools_is_a_limit_error() -> None:
    agent = ScriptedAgent(*[asks_for("next")] * 51, "never said")
    transcript = play(a_scenario(agent, mocks={"next": {"returns": 1}}))
    assert transcript.error is not None
    assert (transcript.error.kind, transcript.stop_reason) == (ErrorKind.LIMIT, StopReason.LIMIT)
    assert "50 times in one turn" in transcript.error.message


def many_calls(count: int) -> AgentReply:
    return AgentReply(tool_calls=(), requested=tuple(ToolCall("next", {}, id=str(one)) for one in range(count)))


def test_five_thousand_calls_in_one_round_are_answered() -> None:
    transcript = play(a_scenario(ScriptedAgent(many_calls(5_000), "done"), mocks={"next": {"returns": 1}}))
    assert (transcript.error, len(transcript.tool_calls or ())) == (None, 5_000)


def test_more_than_five_thousand_calls_in_one_round_are_a_limit_error() -> None:
    transcript = play(a_scenario(ScriptedAgent(many_calls(5_001), "never said"), mocks={"next": {"returns": 1}}))
    assert transcript.error is not None
    assert (transcript.error.kind, transcript.stop_reason) == (ErrorKind.LIMIT, StopReason.LIMIT)
    assert transcript.error.message == "the agent asked for 5,001 tool calls at once; 5,000 are answered at most"


def test_other_trials_go_on_while_the_calls_of_one_are_answered() -> None:
    """A loop that is held stops the clock of every trial, so that no time limit would hold."""
    prepared = a_scenario(ScriptedAgent(many_calls(100), "done"), mocks={"next": {"returns": 1}})
    turns_of_others = 0

    async def count_turns() -> None:
        nonlocal turns_of_others
        while True:
            await asyncio.sleep(0)
            turns_of_others += 1

    async def run() -> None:
        other = asyncio.create_task(count_turns())
        await run_trial(prepared, 0, TrialSettings())
        other.cancel()

    asyncio.run(run())
    assert turns_of_others >= 99


@pytest.mark.parametrize("asked", [3600.0, 61.0])
def test_an_agent_that_asks_for_more_than_a_minute_is_not_waited_for(asked: float) -> None:
    failure = AgentFailure("endpoint returned 429: slow down", retry_after=asked)
    transcript = play(a_scenario(ScriptedAgent(failure, "never said"), retries=3))
    assert transcript.error is not None
    assert (transcript.error.kind, transcript.turns[0].retries) == (ErrorKind.AGENT, 0)
    expected = f"endpoint returned 429: slow down; it asks to wait {asked:g} s, and 60 s is the longest wait"
    assert transcript.error.message == expected


def test_an_agent_that_asks_for_more_than_the_trial_has_left_is_not_waited_for() -> None:
    failure = AgentFailure("endpoint returned 503: later", retry_after=50.0)
    transcript = play(a_scenario(ScriptedAgent(failure, "never said"), retries=3, trial_timeout_seconds=30.0))
    assert transcript.error is not None
    assert transcript.error.message.startswith("endpoint returned 503: later; it asks to wait 50 s, and the trial has ")


def test_a_mock_result_that_json_cannot_tell_is_told_and_kept_as_plain_data() -> None:
    agent = ScriptedAgent(asks_for("odd"), "x")
    transcript = play(a_scenario(agent, mocks={"odd": lambda a, c: {(1, 2): object()}}))
    (call,) = transcript.tool_calls or ()
    assert call.result == {"[1, 2]": "[object object]"}
    assert '{"[1, 2]": "[object object]"}' in str(agent.heard)


def test_tokens_and_cost_of_all_rounds_are_added_up() -> None:
    first = AgentReply(
        tool_calls=(),
        requested=(ToolCall("t", {}, id="1"),),
        usage=Usage(input_tokens=5, output_tokens=1),
        cost_usd=0.25,
    )
    last = AgentReply(reply="done", tool_calls=(), usage=Usage(input_tokens=7, output_tokens=2), cost_usd=0.5)
    transcript = play(a_scenario(ScriptedAgent(first, last), mocks={"t": {"returns": 1}}))
    assert (transcript.usage, transcript.cost_usd) == (Usage(input_tokens=12, output_tokens=3), 0.75)


@pytest.mark.parametrize("usage", [None, Usage(input_tokens=5)])
def test_tokens_that_one_round_does_not_tell_are_not_known(usage: Usage | None) -> None:
    first = AgentReply(tool_calls=(), requested=(ToolCall("t", {}, id="1"),), usage=usage)
    last = AgentReply(reply="done", tool_calls=(), usage=Usage(input_tokens=7, output_tokens=2))
    transcript = play(a_scenario(ScriptedAgent(first, last), mocks={"t": {"returns": 1}}))
    assert transcript.usage == (None if usage is None else Usage(input_tokens=12))


# Evidence.


def test_a_bare_text_records_nothing() -> None:
    assert play(a_scenario(lambda input: "hi")).tool_calls is None


def test_an_agent_that_used_its_tools_in_one_turn_recorded_none_in_the_other() -> None:
    def agent(messages: list[Any], ctx: AgentContext) -> str:
        if ctx.turn == 1:
            ctx.call_tool("lookup", {"id": 1})
        return "ok"

    transcript = play(a_scenario(agent, "a", "b", "c", mocks={"lookup": {"returns": 1}}))
    assert [len(turn.tool_calls or ()) for turn in transcript.turns] == [0, 1, 0]
    assert all(turn.tool_calls is not None for turn in transcript.turns)


def test_a_call_that_the_agent_also_lists_counts_once() -> None:
    def agent(ctx: AgentContext) -> tuple[str, list[Any]]:
        ctx.call_tool("lookup", {"id": 1})
        ctx.call_tool("lookup", {"id": 2})
        return "ok", ["lookup", ToolCall("lookup", {"id": 2})]

    transcript = play(a_scenario(agent, mocks={"lookup": {"returns": 1}}))
    assert [call.arguments for call in transcript.tool_calls or ()] == [{"id": 1}, {"id": 2}]


def test_calls_that_only_the_agent_knows_of_stand_where_it_lists_them() -> None:
    def agent(ctx: AgentContext) -> AgentResult:
        ctx.call_tool("b")
        return AgentResult("ok", ["a", "b", "c"])

    transcript = play(a_scenario(agent, mocks={"b": {"returns": 1}}))
    assert [call.name for call in transcript.tool_calls or ()] == ["a", "b", "c"]


def test_a_list_in_another_order_does_not_double_the_calls_we_saw() -> None:
    def agent(ctx: AgentContext) -> AgentResult:
        ctx.call_tool("a")
        ctx.call_tool("b")
        return AgentResult("ok", ["b", "a"])

    transcript = play(a_scenario(agent, mocks={"a": {"returns": 1}, "b": {"returns": 1}}))
    assert [call.name for call in transcript.tool_calls or ()] == ["a", "b"]


def test_calls_side_by_side_count_in_the_order_they_were_made() -> None:
    async def agent(ctx: AgentContext) -> str:
        slow = asyncio.ensure_future(ctx.call_tool("slow"))
        await asyncio.sleep(0.01)
        await ctx.call_tool("quick")
        await slow
        return "ok"

    mocks = {"slow": {"returns": 1, "delay_ms": 100}, "quick": {"returns": 1}}
    transcript = play(a_scenario(agent, mocks=mocks))
    assert [call.name for call in transcript.tool_calls or ()] == ["slow", "quick"]


def test_a_chat_message_from_a_python_agent_goes_through_the_mock_loop() -> None:
    def agent(messages: list[Any]) -> Any:
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": f"the tool said {messages[-1]['content']}"}
        call = {"id": "x", "type": "function", "function": {"name": "lookup", "arguments": '{"id": 1}'}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    transcript = play(a_scenario(agent, mocks={"lookup": {"returns": "sent"}}))
    assert transcript.turns[0].reply == "the tool said sent"
    assert transcript.tool_calls == (ToolCall("lookup", {"id": 1}, "sent", id="x"),)


def test_an_agent_may_append_to_its_messages_and_return_them_all() -> None:
    def agent(messages: list[Any]) -> list[Any]:
        number = sum(message["role"] == "user" for message in messages)
        call = {"id": f"c{number}", "function": {"name": "lookup", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "ok"})
        messages.append({"role": "assistant", "content": f"reply {number}"})
        return messages

    transcript = play(a_scenario(agent, "a", "b"))
    assert [(turn.reply, len(turn.tool_calls or ())) for turn in transcript.turns] == [("reply 1", 1), ("reply 2", 1)]


def test_a_call_counts_in_its_own_turn_alone_where_the_agent_returns_a_list_that_it_keeps() -> None:
    kept: list[Any] = [{"role": "system", "content": "You are a clerk."}]

    def agent(messages: list[Any]) -> list[Any]:
        kept.append(messages[-1])
        if len(kept) == 2:
            call = {"id": "c1", "function": {"name": "book", "arguments": "{}"}}
            kept.append({"role": "assistant", "content": None, "tool_calls": [call]})
            kept.append({"role": "tool", "tool_call_id": "c1", "content": "ok"})
        kept.append({"role": "assistant", "content": "done"})
        return list(kept)

    transcript = play(a_scenario(agent, "Book it.", "Thanks."))
    assert [[call.name for call in turn.tool_calls or ()] for turn in transcript.turns] == [["book"], []]


def test_the_state_of_the_mocks_is_kept_as_it_was_at_the_end() -> None:
    def book(args: Any, ctx: Any) -> Any:
        ctx.state.setdefault("booked", []).append(args["time"])
        return len(ctx.state["booked"])

    def agent(ctx: AgentContext) -> str:
        return str(ctx.call_tool("book", {"time": "10:00"}))

    prepared = a_scenario(agent, mocks={"book": book}, teardown=(lambda ctx: ctx.state["booked"].clear(),))
    assert play(prepared).state == {"booked": ["10:00"]}


def test_a_tool_error_raised_by_a_python_mock_is_seen_by_the_agent() -> None:
    def mock(args: Any, ctx: Any) -> Any:
        raise ToolError("full")

    def agent(ctx: AgentContext) -> str:
        try:
            return str(ctx.call_tool("book"))
        except ToolError as error:
            return f"sorry, {error}"

    assert play(a_scenario(agent, mocks={"book": mock})).turns[0].reply == "sorry, full"


# Limits.


def test_an_agent_that_overruns_is_named_with_the_limit_that_was_set() -> None:
    async def agent(input: str) -> str:
        await asyncio.Event().wait()
        return ""

    transcript = play(a_scenario(agent, timeout_seconds=0.05))
    assert transcript.error is not None
    assert transcript.error.message == "the agent did not answer within 0.05 s, its tool rounds included"
    assert transcript.stop_reason is StopReason.LIMIT


def test_a_trial_that_overruns_is_named_as_such_and_not_as_the_agents_timeout() -> None:
    async def agent(input: str) -> str:
        await asyncio.Event().wait()
        return ""

    transcript = play(a_scenario(agent, trial_timeout_seconds=0.05))
    assert transcript.error is not None
    assert transcript.error.message == "the trial took longer than 0.05 s"


def test_a_user_that_never_moves_ends_with_the_trials_time() -> None:
    async def user(conversation: Any) -> str:
        await asyncio.Event().wait()
        return ""

    transcript = play(a_scenario(ScriptedAgent("hi"), user=user, trial_timeout_seconds=0.05))
    assert transcript.error is not None
    assert (transcript.error.kind, transcript.error.message) == (ErrorKind.LIMIT, "the trial took longer than 0.05 s")


def test_a_mock_that_takes_longer_than_the_agent_may_is_a_limit_error() -> None:
    agent = ScriptedAgent(asks_for("slow"), "never said")
    transcript = play(a_scenario(agent, mocks={"slow": {"returns": 1, "delay_ms": 60_000}}, timeout_seconds=0.05))
    assert transcript.error is not None
    assert transcript.error.message == "the mock of 'slow' did not answer in time"
    assert [call.name for call in transcript.tool_calls or ()] == ["slow"]


def test_waiting_for_the_rate_limit_does_not_count_as_the_agents_time() -> None:
    class Slow(RateLimit):
        async def wait(self) -> float:
            await asyncio.sleep(0.6)
            return 0.6

    prepared = a_scenario(ScriptedAgent("done"), timeout_seconds=0.5, trial_timeout_seconds=0.5)
    transcript = play(prepared, rate_limit=Slow(60))
    assert (transcript.error, transcript.turns[0].reply) == (None, "done")
