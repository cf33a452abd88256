"""A process of its own for a Python agent: `python -m seatrial.agents.worker SPEC PATH`.

It plays one trial after the other, as it is told on stdin, and passes every tool call on to its parent. Whatever the
agent does to its process, a trial or a verdict of the parent is out of its reach. What the agent prints goes to stderr.
"""

import asyncio
import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from time import perf_counter, sleep
from typing import Any, BinaryIO

from seatrial.errors import UsageError
from seatrial.model.protocols import ToolAnswer, TrialStart
from seatrial.model.results import TrialError

from .isolated import read_answer, write_call, write_error, write_line, write_reply
from .python import CLOSE_SECONDS, CallableAgent, CallableSession
from .resolve import resolve_agent

_NO_LIMIT = 1e7
"""Seconds; the parent keeps the time, and ends the process when it is over."""


class Pipes:
    """The way to the parent and back."""

    def __init__(self, reads: BinaryIO, writes: BinaryIO) -> None:
        self._reads = reads
        self._writes = writes
        self._parent = os.getppid()
        self._writing = threading.Lock()
        self._numbers = count(1)
        self._waiting: dict[int, Future[Mapping[str, Any]]] = {}

    def send(self, message: Mapping[str, Any]) -> None:
        """Written when it returns, so that nothing the agent does next can undo it."""
        with self._writing:
            self._writes.write(write_line(message))
            self._writes.flush()

    def ask(self, kind: str, **about: Any) -> "Future[Mapping[str, Any]]":
        """The parent's answer to a question of ours; may be waited for in any thread."""
        number = next(self._numbers)
        answer: Future[Mapping[str, Any]] = Future()
        self._waiting[number] = answer
        self.send({"type": kind, "number": number, **about})
        return answer

    def read_into(self, tasks: "asyncio.Queue[Any]", loop: asyncio.AbstractEventLoop) -> None:
        """Give answers to those who wait for them, and all else to the queue; None at the end."""
        with suppress(RuntimeError):  # the loop has closed: the process is about to end
            for line in self._reads:
                message = json.loads(line)
                waiting = self._waiting.pop(message.get("number"), None)
                if waiting is not None:
                    waiting.set_result(message)
                else:
                    loop.call_soon_threadsafe(tasks.put_nowait, message)
            loop.call_soon_threadsafe(tasks.put_nowait, None)
        _end_with(self._parent)


def _end_with(parent: int) -> None:
    """End the process once its parent has: an agent that is still at it has nobody to answer to."""
    over = perf_counter() + CLOSE_SECONDS
    while os.getppid() == parent and perf_counter() < over:
        sleep(0.05)
    os._exit(1)


class ToolsOfParent:
    """The trial's tools, which are with the parent."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes

    @property
    def state(self) -> dict[str, Any]:
        return {}

    def knows(self, name: str) -> bool:
        return bool(self._pipes.ask("about_tool", name=name).result()["is_mocked"])

    def lets_run(self, name: str) -> bool:
        return bool(self._pipes.ask("about_tool", name=name).result()["may_run"])

    def offered(self) -> Sequence[Mapping[str, Any]]:
        """Asked of the parent alone: it serves them."""
        return ()

    async def call(self, name: str, arguments: Any, *, turn: int) -> ToolAnswer:
        answer = await asyncio.wrap_future(self._pipes.ask("tool_call", name=name, arguments=arguments))
        return read_answer(answer)


class Worker:
    """Plays the agent's part in one trial at a time."""

    def __init__(self, agent: CallableAgent, pipes: Pipes) -> None:
        self._agent = agent
        self._pipes = pipes
        self._session: CallableSession | None = None
        self._turn = 0

    async def serve(self) -> None:
        tasks: asyncio.Queue[Any] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._pipes.read_into, args=(tasks, loop), daemon=True).start()
        while (message := await tasks.get()) is not None:
            try:
                self._pipes.send(await self._do(message))
            except TrialError as failure:
                self._pipes.send(write_error(failure))
        await self._agent.close()

    async def _do(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if message["type"] == "late_calls":
            return {"type": "late_calls", "calls": await self._agent.late_calls()}
        if message["type"] == "trial":
            self._session = self._agent.open(self._start(message))
            return {"type": "ready"}
        assert self._session is not None
        if message["type"] == "turn":
            self._turn = message["turn"]
            reply = await self._session.respond(message["messages"], timeout=_NO_LIMIT)
            return {**write_reply(reply), "reaches": self._session.reaches}
        session, self._session = self._session, None
        await session.close()
        return {"type": "ended"}

    def _start(self, trial: Mapping[str, Any]) -> TrialStart:
        began = perf_counter() * 1000 - trial["elapsed_ms"]
        return TrialStart(
            trial_id=trial["trial_id"],
            scenario=trial["scenario"],
            index=trial["index"],
            seed=trial["seed"],
            tools=ToolsOfParent(self._pipes),
            record=lambda call: self._pipes.send({"type": "called", "trial_id": trial["trial_id"], **write_call(call)}),
            turn=lambda: self._turn,
            elapsed_ms=lambda: perf_counter() * 1000 - began,
            tool_schemas=tuple(trial["tools"]),
            mcp_url=trial["mcp_url"],
        )


def main() -> None:
    spec, path, *describe = sys.argv[1:]
    pipes = Pipes(*_take_pipes())
    sys.path[:] = json.loads(path)
    try:
        agent = resolve_agent(json.loads(spec))
    except UsageError as problem:
        pipes.send({"type": "refused", "message": str(problem)})
        return
    if describe:
        names = getattr(agent, "tool_names", None)
        about = {"keeps_conversation": agent.keeps_conversation, "tool_names": None if names is None else sorted(names)}
        pipes.send({"type": "agent", **about})
        return
    assert isinstance(agent, CallableAgent)
    asyncio.run(Worker(agent, pipes).serve())


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Stdin and stdout for ourselves. Whoever prints, a library in C included, prints to stderr from now on."""
    reads, writes = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return os.fdopen(reads, "rb"), os.fdopen(writes, "wb")


if __name__ == "__main__":
    code = 1
    try:
        main()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):  # the agent may have closed them
            sys.stdout.flush()
            sys.stderr.flush()
        # Threads that the agent left behind, or its hooks for the end, must not keep the process.
        os._exit(code)
