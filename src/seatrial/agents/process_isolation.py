"""Python agents in worker processes (`isolation: process`): the parent's side.

Messages are JSON objects. Replies, calls, tool answers and errors are sent as the fields of our own types, so an agent
in a worker receives and returns the same values as in this process.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from seatrial.clock import milliseconds
from seatrial.errors import UsageError
from seatrial.foreign.jsonl_process import JsonLinesProcess
from seatrial.foreign.worker_process import CLOSE_SECONDS, WorkerPool
from seatrial.model.conversation import ErrorInfo, ErrorKind, Message, ToolCall
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import Agent, AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure, TrialError, agent_timed_out, error_from, mock_timed_out

from .frameworks.registry import FRAMEWORKS, check_version
from .resolve import check_agent_spec, resolve_agent, serve_tools

START_SECONDS = 60.0
"""How long a worker may take to start, which is mostly the import of the agent."""


def write_error(error: TrialError) -> dict[str, Any]:
    return {"info": to_builtins(error.info), "final": isinstance(error, AgentFailure) and error.final}


def read_error(written: Mapping[str, Any]) -> TrialError:
    return error_from(convert(written["info"], ErrorInfo), final=written["final"])


def resolve_isolated(spec: Any, *, name: str = "agent") -> Agent:
    """The agent for a spec, with Python agents in worker processes. Refuses Python objects."""
    if isinstance(spec, str):
        return IsolatedAgent({"target": spec})
    if not isinstance(spec, Mapping):
        raise _needs_import_path(spec)
    kind = spec.get("type", "python")
    if kind not in ("python", *FRAMEWORKS):
        return resolve_agent(spec, name=name)
    problems = check_agent_spec(spec)
    if problems:
        raise UsageError("\n".join(f"agent {name!r}: {problem}" for problem in problems))
    if not isinstance(spec["target"], str):
        raise _needs_import_path(spec["target"])
    if kind != "python":
        check_version(kind)
    for key in FRAMEWORKS[kind].inputs if kind in FRAMEWORKS else ():
        if plain_value(spec.get(key)) != spec.get(key):
            raise _needs_import_path(spec[key])
    agent = IsolatedAgent({key: value for key, value in spec.items() if key != "mcp"})
    return serve_tools(agent) if spec.get("mcp") else agent


def _needs_import_path(target: Any) -> UsageError:
    what = getattr(target, "__qualname__", None) or type(target).__qualname__
    return UsageError(
        f"isolation: process cannot run the Python object {what!r}, since another process does not have it; "
        "give the agent by its import path, 'package.module:attribute'"
    )


class IsolatedAgent:
    """A Python agent, or one of a framework, by its import path. This process never imports it."""

    answers_own_tools = True

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.name: str = spec["target"]
        self.workers = WorkerPool("seatrial.agents.isolation_worker", json.dumps(dict(spec)))
        about = self._describe()
        self.keeps_conversation = bool(about["keeps_conversation"])
        self.takes_decisions = bool(about["takes_decisions"])
        self.takes_attachments = bool(about["takes_attachments"])
        self.continues = bool(about["continues"])
        names = about.get("tool_names")
        self.tool_names = None if names is None else frozenset(names)

    def _describe(self) -> Mapping[str, Any]:
        """What a worker says about the agent. Mistakes show here, before the first trial."""
        try:
            about = self.workers.run_once("describe", timeout=START_SECONDS)
        except RuntimeError as problem:
            raise UsageError(f"agent {self.name!r}: importing it {problem}") from None
        if about["type"] == "refused":
            raise UsageError(about["message"])
        return about

    def open(self, start: TrialStart) -> AgentSession:
        return _IsolatedSession(self, start)

    async def late_calls(self) -> list[str]:
        """Calls that belong to no trial, one sentence each, as far as the workers know."""
        return [call for worker in self.workers.idle for call in await _late_calls(worker)]

    async def close(self) -> None:
        await self.workers.close()


async def _late_calls(worker: JsonLinesProcess) -> list[str]:
    """Nothing for a worker that has ended or does not answer: it makes no calls, or is killed soon."""
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await worker.send({"type": "late_calls"})
            while (answer := await worker.receive()).get("type") != "late_calls":
                pass
    except (TimeoutError, AgentFailure):
        return []
    return list(answer["calls"])


class _IsolatedSession:
    """One trial with an agent in a worker. After a failure it continues with another worker."""

    def __init__(self, agent: IsolatedAgent, start: TrialStart) -> None:
        self._agent = agent
        self._start = start
        self._worker: JsonLinesProcess | None = None
        self._fatal: TrialError | None = None
        """Ends the trial even if the agent catches the exception."""
        self.reachable_tools: tuple[str, ...] | None = ()
        self._unanswered: dict[int, str] = {}
        """Tools that mocks have not answered yet, by the number of the call."""

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        try:
            asked = milliseconds()
            if self._worker is None:
                await self._begin()
            waited = milliseconds() - asked
            async with asyncio.timeout(timeout):
                answer = await self._exchange({"type": "turn", "turn": self._start.turn(), "messages": list(messages)})
        except TimeoutError:
            await self._kill_worker()
            tool = next(iter(self._unanswered.values()), None)
            raise agent_timed_out(timeout) if tool is None else mock_timed_out(tool) from None
        except BaseException:
            await self._kill_worker()
            raise
        if self._fatal is not None:
            raise self._fatal
        if answer["type"] == "error":
            raise read_error(answer)
        self.reachable_tools = None if answer["reachable_tools"] is None else tuple(answer["reachable_tools"])
        return replace(convert(answer["reply"], AgentReply), waited_ms=waited)

    async def close(self) -> None:
        if self._worker is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                ended = await self._exchange({"type": "end"})
            if ended["type"] == "error":
                raise read_error(ended)
        except BaseException as problem:
            await self._kill_worker()
            raise agent_timed_out(CLOSE_SECONDS) if isinstance(problem, TimeoutError) else problem from None
        self._agent.workers.idle.append(self._worker)
        self._worker = None

    async def _begin(self) -> None:
        """Tell an idle or a new worker about the trial. Its start does not count as the agent's time."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while (idle := self._agent.workers.take_idle()) is not None:
                    try:
                        return await self._send_trial(idle)
                    except AgentFailure:
                        await self._kill_worker()  # it ended while it was idle
                await self._send_trial(await self._agent.workers.start())
        except TimeoutError:
            raise TrialError(ErrorKind.INFRA, f"no worker process was ready within {START_SECONDS:g} s") from None

    async def _send_trial(self, worker: JsonLinesProcess) -> None:
        self._worker, start = worker, self._start
        trial = {name: getattr(start, name) for name in ("trial_id", "scenario", "index", "seed", "mcp_url", "decides")}
        elapsed, tools = start.elapsed_ms(), list(start.tool_schemas)
        answer = await self._exchange({"type": "trial", **trial, "elapsed_ms": elapsed, "tools": tools})
        if answer["type"] != "ready":
            raise TrialError(ErrorKind.CONFIG, f"no worker can be made for the agent: {answer.get('message')}")

    async def _exchange(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """The worker's answer to a message. Answers the worker's own questions on the way."""
        worker = self._worker
        assert worker is not None
        await worker.send(message)
        self._unanswered.clear()
        # Several calls may wait for their mocks at the same time.
        answering: set[asyncio.Task[None]] = set()
        try:
            while True:
                received = await worker.receive()
                match received.get("type"):
                    case "called":
                        # A thread that an earlier trial left behind may still make calls.
                        if received["trial_id"] == self._start.trial_id:
                            self._start.record(convert(received["call"], ToolCall))
                    case "about_tool":
                        tools, name = self._start.tools, received["name"]
                        about = {"is_mocked": tools.knows(name), "may_run": tools.lets_run(name)}
                        await worker.send({"number": received["number"], **about})
                    case "tool_call":
                        answering.add(asyncio.create_task(self._answer(worker, received)))
                    case _:
                        return received
        finally:
            for task in answering:
                task.cancel()
            await asyncio.gather(*answering, return_exceptions=True)

    async def _answer(self, worker: JsonLinesProcess, call: Mapping[str, Any]) -> None:
        number, name = call["number"], call["name"]
        self._unanswered[number] = name
        answer: dict[str, Any]
        try:
            given = await self._start.tools.call(name, call["arguments"], turn=self._start.turn())
            answer = {"answer": to_builtins(replace(given, result=plain_value(given.result)))}
        except TrialError as failure:
            self._fatal = self._fatal or failure
            answer = {"trial_error": write_error(failure)}
        del self._unanswered[number]
        await worker.send({"number": number, **answer})

    async def _kill_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop(grace_seconds=0)
