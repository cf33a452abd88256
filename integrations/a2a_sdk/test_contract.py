"""Agents behind A2A's own Python server, in both versions of the protocol."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

import seatrial
from seatrial import Scenario, Turn
from seatrial.model.conversation import ErrorKind

MET: dict[str, str] = {}
"""By context: the name that the user gave."""


class Clerk(AgentExecutor):
    """Answers with a message, or with a task."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        said = context.get_user_input()
        if said.startswith("My name is "):
            MET[context.context_id] = said.removeprefix("My name is ")
        if "task" in said or context.current_task is not None:
            await self._work(context, event_queue, said)
            return
        name = MET.get(context.context_id, "somebody")
        await event_queue.enqueue_event(new_text_message(f"Hello, {name}!", context_id=context.context_id))

    async def _work(self, context: RequestContext, event_queue: EventQueue, said: str) -> None:
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        if "question" in said:
            await updater.requires_input(new_text_message("Which order?"))
        elif "fail" in said:
            await updater.failed(new_text_message("The till is locked."))
        else:
            if "slow" in said:
                await asyncio.sleep(1)
            await updater.add_artifact([new_text_part(f"Done: {said}")])
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@pytest.fixture(scope="module", params=["1.0", "0.3"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    old = request.param == "0.3"
    config = uvicorn.Config("", host="127.0.0.1", port=0, log_level="warning")
    socket = config.bind_socket()
    address = f"http://127.0.0.1:{socket.getsockname()[1]}"
    interface = AgentInterface(url=f"{address}/rpc", protocol_binding="JSONRPC", protocol_version=request.param)
    card = AgentCard(
        name="Clerk",
        description="Works in a shop.",
        version="1",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="help", name="Help", description="Helps customers.", tags=["shop"])],
    )
    requests = DefaultRequestHandler(Clerk(), InMemoryTaskStore(), card)
    config.app = Starlette(
        routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(requests, "/rpc", enable_v0_3_compat=old)]
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    yield address
    server.should_exit = True
    thread.join()


def play(url: str, *said: str, **more: Any) -> Any:
    turns = [Turn(user=text) for text in said]
    report = seatrial.run(Scenario(name="x", turns=turns, **more), agent={"type": "a2a", "url": url}, store=None)
    report.asserted = True
    (trial,) = report.trials()
    return trial


def test_a_message_is_the_reply(url: str) -> None:
    trial = play(url, "Good morning!")

    assert trial.error is None
    assert trial.transcript.reply == "Hello, somebody!"
    assert trial.transcript.tool_calls is None


def test_the_second_turn_remembers_the_first(url: str) -> None:
    assert play(url, "My name is Ada", "Hello again.").transcript.reply == "Hello, Ada!"
    assert play(url, "Hello again.").transcript.reply == "Hello, somebody!"


def test_the_artifact_of_a_task_is_the_reply(url: str) -> None:
    assert play(url, "A task, please.").transcript.reply == "Done: A task, please."


def test_a_task_that_asks_goes_on_in_the_next_turn(url: str) -> None:
    trial = play(url, "A task with a question.", "Order A-1.")

    assert [turn.reply for turn in trial.transcript.turns] == ["Which order?", "Done: Order A-1."]


def test_a_failed_task_is_an_error_of_the_agent(url: str) -> None:
    trial = play(url, "A task: fail.")

    assert trial.error.kind is ErrorKind.AGENT
    assert "the agent's task is failed: The till is locked." in trial.error.message


def test_a_slow_task_exceeds_the_timeout(url: str) -> None:
    assert play(url, "A slow task.", timeout_seconds=0.3).error.kind is ErrorKind.LIMIT


def test_a_history_is_refused(url: str) -> None:
    trial = play(url, "Good morning!", history=[{"role": "user", "content": "My name is Grace"}])

    assert trial.error.kind is ErrorKind.CONFIG
    assert "cannot send one" in trial.error.message
