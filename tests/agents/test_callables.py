"""Python agents in every form: how they are entered, made, closed, and what of their conversation they get."""

import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from seatrial.agents.context import AgentContext
from seatrial.agents.resolve import resolve_agent
from seatrial.errors import UsageError
from seatrial.evaluators.matchers import matches
from seatrial.model.conversation import ErrorKind, ToolCall
from seatrial.model.protocols import Agent, AgentReply, TrialStart
from seatrial.model.results import AgentFailure, TrialError
from seatrial.tools.tool_box import MockSet


def a_start(*, turn: int = 0, calls: list[ToolCall] | None = None, mocks: dict[str, Any] | None = None) -> TrialStart:
    kept: list[ToolCall] = [] if calls is None else calls
    return TrialStart(
        trial_id="r-0-1",
        scenario="a scenario",
        index=0,
        seed=7,
        tools=MockSet.parse(mocks, matches=matches).open("r-0-1", 7),
        record=kept.append,
        turn=lambda: turn,
        elapsed_ms=lambda: 1.0,
    )


def said(*texts: str) -> list[dict[str, Any]]:
    """A conversation: user, assistant, user, …"""
    return [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]


async def asked(agent: Agent, *texts: str, timeout: float = 5.0) -> AgentReply:
    session = agent.open(a_start())
    try:
        return await session.respond(said(*(texts or ("hello",))), timeout=timeout)
    finally:
        await session.close()


def ask(target: Any, *texts: str, timeout: float = 5.0) -> AgentReply:
    async def play() -> AgentReply:
        agent = resolve_agent(target)
        try:
            return await asked(agent, *texts, timeout=timeout)
        finally:
            await agent.close()

    return asyncio.run(play())


def reply_of(target: Any, *texts: str) -> str | None:
    return ask(target, *texts).reply


# Functions.


def test_a_function_gets_the_latest_user_text() -> None:
    assert reply_of(lambda input: f"you said {input}", "first", "reply", "second") == "you said second"


def test_a_function_gets_the_whole_conversation_as_messages() -> None:
    def agent(messages: list[dict[str, Any]]) -> str:
        return " / ".join(f"{m['role']}: {m['content']}" for m in messages)

    assert reply_of(agent, "one", "two", "three") == "user: one / assistant: two / user: three"


def test_a_function_gets_the_context_of_its_trial() -> None:
    def agent(ctx: AgentContext) -> str:
        return f"{ctx.trial_id} {ctx.scenario} {ctx.seed} {ctx.turn} {ctx.input}"

    assert reply_of(agent, "hi") == "r-0-1 a scenario 7 0 hi"


def test_a_function_may_take_several_of_what_is_offered() -> None:
    def agent(ctx: AgentContext, messages: list[Any], input: str, temperature: float = 0.5) -> str:
        return f"{input} {len(messages)} {ctx.turn} {temperature}"

    assert reply_of(agent, "hi") == "hi 1 0 0.5"


@pytest.mark.parametrize("name", ["input", "prompt", "text", "question", "query", "message", "user_input"])
def test_the_usual_names_for_the_input_are_known(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def agent({name}): return {name}", namespace)
    assert reply_of(namespace["agent"], "hi") == "hi"


def test_an_async_function_is_awaited() -> None:
    async def agent(input: str) -> str:
        await asyncio.sleep(0)
        return input.upper()

    assert reply_of(agent, "hi") == "HI"


def test_a_plain_function_that_returns_an_awaitable_is_awaited() -> None:
    async def inner(text: str) -> str:
        return text.upper()

    assert reply_of(lambda input: inner(input), "hi") == "HI"


def test_a_partial_is_entered_by_what_it_leaves_open() -> None:
    def agent(greeting: str, input: str) -> str:
        return f"{greeting} {input}"

    assert reply_of(functools.partial(agent, "hey"), "you") == "hey you"


def test_a_partial_of_an_async_function_is_awaited() -> None:
    async def agent(input: str, *, mark: str) -> str:
        return input + mark

    assert reply_of(functools.partial(agent, mark="!"), "hi") == "hi!"


def test_a_generator_streams_its_reply() -> None:
    def agent(input: str) -> Iterator[str]:
        yield from ("he", "llo ", input)

    assert reply_of(agent, "you") == "hello you"


def test_an_async_generator_streams_its_reply() -> None:
    async def agent(input: str) -> AsyncIterator[str]:
        for piece in ("he", "llo ", input):
            await asyncio.sleep(0)
            yield piece

    assert reply_of(agent, "you") == "hello you"


def test_a_plain_function_may_return_an_async_generator() -> None:
    async def stream() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    assert reply_of(lambda input: stream()) == "ab"


def test_a_stream_of_anything_but_text_is_an_agent_failure() -> None:
    def agent(input: str) -> Iterator[Any]:
        yield "a"
        yield 5

    with pytest.raises(AgentFailure, match=r"yielded 5 \(int\).*each a str"):
        ask(agent)


# Objects.


class Shouter:
    def run(self, input: str, context: Any = None) -> str:
        return f"{input}!"


class AsyncCaller:
    async def __call__(self, messages: list[Any]) -> str:
        return f"{len(messages)} messages"


class Bound:
    def chat(self, input: str) -> str:
        return f"bound {input}"


def test_an_object_with_run_is_asked_through_run() -> None:
    assert reply_of(Shouter(), "hi") == "hi!"


def test_a_callable_object_is_called() -> None:
    assert reply_of(AsyncCaller(), "a", "b", "c") == "3 messages"


def test_a_bound_method_is_called() -> None:
    assert reply_of(Bound().chat, "hi") == "bound hi"


def test_an_object_that_streams_from_run_is_joined() -> None:
    class Streamer:
        async def run(self, input: str) -> AsyncIterator[str]:
            yield input
            yield "!"

    assert reply_of(Streamer(), "hi") == "hi!"


def test_a_class_with_a_static_run_is_asked() -> None:
    class Static:
        @staticmethod
        def run(input: str) -> str:
            return f"static {input}"

    assert reply_of(Static, "hi") == "static hi"


def test_a_class_with_a_class_method_run_is_asked() -> None:
    class Classy:
        @classmethod
        def run(cls, input: str) -> str:
            return f"{cls.__name__} {input}"

    assert reply_of(Classy, "hi") == "Classy hi"


# Made anew.


class Counter:
    made = 0
    closed = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.seen: list[str] = []

    def run(self, input: str) -> str:
        self.seen.append(input)
        return " ".join(self.seen)

    def close(self) -> None:
        type(self).closed += 1


def play_trials(target: Any, *, trials: int, turns: int = 1) -> list[list[str | None]]:
    """So many trials at once, each of so many turns; the replies by trial."""

    async def one(agent: Agent) -> list[str | None]:
        turn = 0
        start = a_start()
        session = agent.open(replace(start, turn=lambda: turn))
        replies = []
        for turn in range(turns):
            replies.append((await session.respond(said(f"m{turn}"), timeout=5.0)).reply)
        await session.close()
        return replies

    async def play() -> list[list[str | None]]:
        agent = resolve_agent(target)
        try:
            return list(await asyncio.gather(*(one(agent) for _ in range(trials))))
        finally:
            await agent.close()

    return asyncio.run(play())


def test_a_class_is_made_and_closed_for_each_trial() -> None:
    class Mine(Counter):
        made = 0
        closed = 0

    assert play_trials(Mine, trials=3, turns=2) == [["m0", "m0 m1"]] * 3
    assert (Mine.made, Mine.closed) == (3, 3)


def test_a_factory_is_asked_for_an_agent_in_each_trial() -> None:
    class Mine(Counter):
        made = 0
        closed = 0

    def make(verbose: bool = False) -> Mine:
        return Mine()

    assert play_trials(make, trials=2, turns=2) == [["m0", "m0 m1"]] * 2
    assert (Mine.made, Mine.closed) == (2, 2)


def test_an_async_factory_is_awaited_and_its_agent_closed_with_aclose() -> None:
    ended = []

    class Mine:
        async def run(self, input: str) -> str:
            return input

        async def aclose(self) -> None:
            ended.append("aclose")

        def close(self) -> None:
            ended.append("close")

    async def make() -> Mine:
        await asyncio.sleep(0)
        return Mine()

    assert play_trials(make, trials=1) == [["m0"]]
    assert ended == ["aclose"]


def test_scope_run_makes_one_instance_for_trials_that_begin_at_once() -> None:
    class Mine(Counter):
        made = 0
        closed = 0

        def run(self, messages: list[Any]) -> str:  # type: ignore[override]
            return f"{len(messages)}"

    assert play_trials({"target": Mine, "scope": "run"}, trials=5) == [["1"]] * 5
    assert (Mine.made, Mine.closed) == (1, 1)


def test_an_async_class_is_made_where_its_loop_runs() -> None:
    class Mine:
        def __init__(self) -> None:
            self.loop = asyncio.get_running_loop()

        async def run(self, input: str) -> str:
            return str(self.loop is asyncio.get_running_loop())

    assert play_trials(Mine, trials=1) == [["True"]]


def test_an_object_that_was_given_is_not_closed() -> None:
    class Mine(Counter):
        made = 0
        closed = 0

    play_trials(Mine(), trials=2)
    assert Mine.closed == 0


def test_a_factory_that_returns_a_reply_is_told_that_it_was_taken_for_one() -> None:
    with pytest.raises(AgentFailure, match="taken as a factory, but it returned str; give the agent a parameter"):
        ask(lambda: "hello")


def test_a_factory_that_makes_nothing_callable_is_a_mistake_in_the_set_up() -> None:
    with pytest.raises(TrialError, match="neither callable nor has a run") as caught:
        ask(lambda: object())
    assert caught.value.info.kind is ErrorKind.CONFIG


def test_an_agent_that_fails_while_it_is_made_is_an_agent_failure() -> None:
    class Broken:
        def __init__(self) -> None:
            raise ConnectionError("no database")

        def run(self, input: str) -> str:
            return input

    with pytest.raises(AgentFailure, match="ConnectionError: no database"):
        ask(Broken)


def test_an_agent_that_fails_to_close_after_a_trial_says_so() -> None:
    class Mine:
        def run(self, input: str) -> str:
            return input

        def close(self) -> None:
            raise OSError("still busy")

    with pytest.raises(AgentFailure, match="OSError: still busy"):
        ask(Mine)


def test_a_shared_agent_that_fails_to_close_is_warned_of() -> None:
    class Mine:
        def run(self, input: str) -> str:
            return input

        def close(self) -> None:
            raise OSError("still busy")

    with pytest.warns(RuntimeWarning, match="OSError: still busy"):
        assert play_trials({"target": Mine, "scope": "run"}, trials=1) == [["m0"]]


def test_an_agent_can_be_run_again_after_it_was_closed() -> None:
    agent = resolve_agent(lambda input: threading.current_thread().name)

    async def play() -> str | None:
        try:
            return (await asked(agent)).reply
        finally:
            await agent.close()

    for _ in range(2):
        assert (asyncio.run(play()) or "").startswith("seatrial-agent-")


# Memory.


@pytest.mark.parametrize(
    ("target", "keeps"),
    [
        (lambda input: "", False),
        (lambda messages: "", True),
        (lambda ctx: "", True),
        (Shouter(), False),
        (Shouter, True),
        (lambda: Shouter(), True),
        ({"target": Shouter, "scope": "run"}, False),
        ({"target": Shouter, "scope": "trial"}, True),
    ],
)
def test_an_agent_keeps_a_conversation_when_it_is_given_or_made_for_it(target: Any, keeps: bool) -> None:
    assert resolve_agent(target).keeps_conversation is keeps


def test_a_shared_product_of_a_factory_that_cannot_remember_is_refused_a_second_turn() -> None:
    with pytest.raises(TrialError, match=r"takes only the latest message.*cannot know what was said before"):
        play_trials({"target": lambda: Shouter(), "scope": "run"}, trials=1, turns=2)


def test_what_an_agent_does_to_its_messages_does_not_reach_the_conversation() -> None:
    def agent(messages: list[dict[str, Any]]) -> str:
        messages[0]["content"] = "forged"
        messages.append({"role": "user", "content": "more"})
        return "done"

    async def play() -> list[dict[str, Any]]:
        conversation = said("hello")
        adapter = resolve_agent(agent)
        await adapter.open(a_start()).respond(conversation, timeout=5.0)
        await adapter.close()
        return conversation

    assert asyncio.run(play()) == said("hello")


# Refused.


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (42, "neither callable nor has a run"),
        (lambda x: x, "cannot fill its parameter 'x'; name it input"),
        (lambda input, other: input, "cannot fill its parameter 'other'"),
        (lambda input, context: input, "'context'; give it a default of None, or name it ctx"),
        (lambda *args, **kwargs: "", "takes none of input, messages, ctx"),
        (type("Empty", (), {}), "neither callable nor has a run"),
        (type("Needy", (), {"__init__": lambda self, key: None, "run": lambda self, input: ""}), "without arguments"),
    ],
)
def test_what_cannot_be_an_agent_is_refused_before_the_run(target: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        resolve_agent(target)


def test_a_parameter_that_cannot_be_given_by_name_is_refused() -> None:
    def agent(input: str, /) -> str:
        return input

    with pytest.raises(UsageError, match="remove the `/`"):
        resolve_agent(agent)


def test_an_agent_that_blocks_and_has_an_async_close_is_too_slow() -> None:
    class Blocks:
        async def run(self, input: str) -> str:
            time.sleep(2)
            return "late"

        async def close(self) -> None: ...

    with pytest.raises(TrialError) as raised:
        ask(Blocks, timeout=0.2)
    assert raised.value.info.kind is ErrorKind.LIMIT
