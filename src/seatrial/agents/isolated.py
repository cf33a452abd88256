"""What a worker process and its parent write to each other, one JSON object per line.

It is the command protocol of docs/command-protocol.md and a little more, so that a Python agent in a worker is given
and gives exactly what it would in the parent: tool results as values, requested calls, foreign tracebacks.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from seatrial.clock import milliseconds
from seatrial.errors import UsageError
from seatrial.foreign.jsonl_process import LineProcess
from seatrial.model.conversation import ErrorKind, Message, ToolCall, Usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import Agent, AgentReply, AgentSession, ToolAnswer, TrialStart
from seatrial.model.results import AgentFailure, TrialError, mock_overran

from .call import overran
from .resolve import FRAMEWORK_KINDS, check_agent_spec, resolve_agent, serve_tools

if TYPE_CHECKING:
    import asyncio


_CALL = ("name", "arguments", "result", "error", "id", "started_ms", "duration_ms", "real")


def write_line(message: Mapping[str, Any]) -> bytes:
    """The message, of plain values, on a line of its own."""
    return json.dumps(message).encode() + b"\n"


def write_trial(start: TrialStart) -> dict[str, Any]:
    """What a worker is told when a trial begins."""
    return {
        "type": "trial",
        "trial_id": start.trial_id,
        "scenario": start.scenario,
        "index": start.index,
        "seed": start.seed,
        "tools": list(start.tool_schemas),
        "elapsed_ms": start.elapsed_ms(),
        "mcp_url": start.mcp_url,
    }


def write_call(call: ToolCall) -> dict[str, Any]:
    return {name: getattr(call, name) for name in _CALL}


def read_call(written: Mapping[str, Any]) -> ToolCall:
    parts: dict[str, Any] = {part: written.get(part) for part in _CALL}
    return ToolCall(**{**parts, "name": str(parts["name"]), "real": bool(parts["real"])})


def write_answer(answer: ToolAnswer) -> dict[str, Any]:
    """What a tool gave back."""
    return {"result": plain_value(answer.result), "error": answer.error}


def read_answer(written: Mapping[str, Any]) -> ToolAnswer:
    """The answer; raises the TrialError that came in its place."""
    if written.get("trial_error") is not None:
        raise read_error(written["trial_error"])
    return ToolAnswer(result=written.get("result"), error=written.get("error"))


def write_error(error: TrialError) -> dict[str, Any]:
    info = error.info
    return {
        "type": "error",
        "kind": info.kind.value,
        "message": info.message,
        "hint": info.hint,
        "traceback": info.traceback,
        "final": isinstance(error, AgentFailure) and error.final,
        "counts_as_failed": info.counts_as_failed,
    }


def read_error(written: Mapping[str, Any]) -> TrialError:
    kind, message = ErrorKind(written["kind"]), str(written["message"])
    hint, traceback = written.get("hint"), written.get("traceback")
    if kind is ErrorKind.AGENT:
        return AgentFailure(message, hint=hint, traceback=traceback, final=bool(written.get("final")))
    counts = bool(written.get("counts_as_failed"))
    return TrialError(kind, message, hint=hint, traceback=traceback, counts_as_failed=counts)


def write_reply(reply: AgentReply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "type": "reply",
        "content": reply.reply,
        "tool_calls": None if reply.tool_calls is None else [write_call(call) for call in reply.tool_calls],
        "hides_calls": reply.hides_calls,
        "requested": [write_call(call) for call in reply.requested],
        "messages": list(reply.messages),
        "usage": None if usage is None else [usage.input_tokens, usage.output_tokens],
        "cost_usd": reply.cost_usd,
    }


def read_reply(written: Mapping[str, Any]) -> AgentReply:
    calls, usage = written["tool_calls"], written["usage"]
    return AgentReply(
        reply=written["content"],
        tool_calls=None if calls is None else tuple(map(read_call, calls)),
        hides_calls=written["hides_calls"],
        requested=tuple(map(read_call, written["requested"])),
        messages=tuple(written["messages"]),
        usage=None if usage is None else Usage(input_tokens=usage[0], output_tokens=usage[1]),
        cost_usd=written["cost_usd"],
    )


CLOSE_SECONDS = 10.0
"""How long an agent may take to close, as in the parent's own process."""
START_SECONDS = 60.0
"""How long a worker may take to start, which is mostly the import of the agent."""


def resolve_isolated(spec: Any, *, name: str = "agent") -> Agent:
    """The agent for a spec, with Python agents in processes of their own. Python objects are refused."""
    if isinstance(spec, str):
        return IsolatedAgent({"target": spec})
    if not isinstance(spec, Mapping):
        raise _needs_a_path(getattr(spec, "__qualname__", None) or type(spec).__qualname__)
    kind = spec.get("type", "python")
    if kind not in ("python", *FRAMEWORK_KINDS):
        return resolve_agent(spec, name=name)
    problems = check_agent_spec(spec)
    if problems:
        raise UsageError("\n".join(f"agent {name!r}: {problem}" for problem in problems))
    target = spec["target"]
    if not isinstance(target, str):
        raise _needs_a_path(getattr(target, "__qualname__", None) or type(target).__qualname__)
    if kind != "python":
        from .frameworks.registry import mind_version

        mind_version(kind)
    agent = IsolatedAgent({key: value for key, value in spec.items() if key != "mcp"})
    return serve_tools(agent) if spec.get("mcp") else agent


def _needs_a_path(what: str) -> UsageError:
    return UsageError(
        f"isolation: process cannot run the Python object {what!r}, since another process does not have it; "
        "give the agent by its import path, 'package.module:attribute'"
    )


class IsolatedAgent:
    """A Python agent, or one of a framework, by its import path. It is never imported in this process."""

    answers_own_tools = True

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.name: str = spec["target"]
        self._argv = [sys.executable, "-m", "seatrial.agents.worker", json.dumps(dict(spec)), json.dumps(sys.path)]
        self._idle: list[LineProcess] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        about = self._describe()
        self.keeps_conversation = bool(about["keeps_conversation"])
        names = about.get("tool_names")
        self.tool_names = None if names is None else frozenset(names)

    def _describe(self) -> Mapping[str, Any]:
        """Ask a worker about the agent, so that mistakes show before the first trial."""
        try:
            asked = subprocess.run(
                [*self._argv, "describe"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=START_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UsageError(f"agent {self.name!r}: importing it took longer than {START_SECONDS:g} s") from None
        said: Mapping[str, Any] | None = json.loads(asked.stdout) if asked.stdout.strip() else None
        if said is None:
            words = asked.stderr.decode("utf-8", "replace").strip()[-500:]
            shown = f"; stderr ends: {words}" if words else ""
            raise UsageError(f"agent {self.name!r}: importing it ended the process with code {asked.returncode}{shown}")
        if said["type"] == "refused":
            raise UsageError(said["message"])
        return said

    def open(self, start: TrialStart) -> AgentSession:
        return _IsolatedSession(self, start)

    async def late_calls(self) -> list[str]:
        """Calls that belong to no trial, one sentence each, as far as its workers know of them."""
        return [call for worker in self._idle for call in await _late_calls(worker)]

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for worker in idle:
            await worker.stop(grace_seconds=CLOSE_SECONDS)

    def take_idle(self) -> LineProcess | None:
        """A worker that is free; None when there is none."""
        import asyncio

        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # processes belong to the loop that started them
            self._idle, self._loop = [], loop
        return self._idle.pop() if self._idle else None

    async def start_worker(self) -> LineProcess:
        return await LineProcess.start(self._argv)

    def give_back(self, worker: LineProcess) -> None:
        self._idle.append(worker)


async def _late_calls(worker: LineProcess) -> list[str]:
    """None where the worker has died or does not answer: then it can call nothing any more, or is ended soon."""
    import asyncio

    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await worker.send({"type": "late_calls"})
            while (said := await worker.receive()).get("type") != "late_calls":
                pass
    except (TimeoutError, AgentFailure):
        return []
    return list(said["calls"])


class _IsolatedSession:
    """A trial with an agent in a worker; after a failure it goes on with another worker."""

    def __init__(self, agent: IsolatedAgent, start: TrialStart) -> None:
        self._agent = agent
        self._start = start
        self._worker: LineProcess | None = None
        self._fatal: TrialError | None = None
        """What ends the trial even if the agent swallows it."""
        self.reaches: tuple[str, ...] | None = ()
        self._in_flight: dict[int, str] = {}
        """Calls that mocks have not answered, with the names of the tools."""

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        import asyncio

        try:
            asked = milliseconds()
            if self._worker is None:
                await self._begin()
            waited = milliseconds() - asked
            async with asyncio.timeout(timeout):
                answer = await self._talk({"type": "turn", "turn": self._start.turn(), "messages": list(messages)})
        except TimeoutError:
            await self._end_worker()
            waits_for = next(iter(self._in_flight.values()), None)
            raise overran(timeout) if waits_for is None else mock_overran(waits_for) from None
        except BaseException:
            await self._end_worker()
            raise
        if self._fatal is not None:
            raise self._fatal
        if answer["type"] == "error":
            raise read_error(answer)
        self.reaches = None if answer["reaches"] is None else tuple(answer["reaches"])
        return replace(read_reply(answer), waited_ms=waited)

    async def close(self) -> None:
        import asyncio

        if self._worker is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                ended = await self._talk({"type": "end"})
        except TimeoutError:
            await self._end_worker()
            raise overran(CLOSE_SECONDS) from None
        except BaseException:
            await self._end_worker()
            raise
        if ended["type"] == "error":
            await self._end_worker()
            raise read_error(ended)
        worker, self._worker = self._worker, None
        self._agent.give_back(worker)

    async def _begin(self) -> None:
        """Take a worker and tell it of the trial. Its start is not on the agent's clock."""
        import asyncio

        try:
            async with asyncio.timeout(START_SECONDS):
                while (idle := self._agent.take_idle()) is not None:
                    try:
                        return await self._tell_trial(idle)
                    except AgentFailure:
                        await self._end_worker()  # it died while nobody used it
                await self._tell_trial(await self._agent.start_worker())
        except TimeoutError:
            raise TrialError(ErrorKind.INFRA, f"no worker process was ready within {START_SECONDS:g} s") from None

    async def _tell_trial(self, worker: LineProcess) -> None:
        self._worker = worker
        answer = await self._talk(write_trial(self._start))
        if answer["type"] != "ready":
            raise TrialError(ErrorKind.CONFIG, f"no worker can be made for the agent: {answer.get('message')}")

    async def _talk(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Say something to the worker; its answer, once everything it asked for on the way is answered."""
        import asyncio

        worker = self._worker
        assert worker is not None
        await worker.send(message)
        self._in_flight.clear()
        # Calls may come side by side, and each may take its time.
        answering: set[asyncio.Task[None]] = set()
        try:
            while True:
                said = await worker.receive()
                match said.get("type"):
                    case "called":
                        # A thread that an earlier trial left behind may still be at work.
                        if said["trial_id"] == self._start.trial_id:
                            self._start.record(read_call(said))
                    case "about_tool":
                        tools, name = self._start.tools, said["name"]
                        about = {"is_mocked": tools.knows(name), "may_run": tools.lets_run(name)}
                        await worker.send({"number": said["number"], **about})
                    case "tool_call":
                        answering.add(asyncio.create_task(self._answer(worker, said)))
                    case _:
                        return said
        finally:
            for task in answering:
                task.cancel()
            await asyncio.gather(*answering, return_exceptions=True)

    async def _answer(self, worker: LineProcess, asked: Mapping[str, Any]) -> None:
        self._in_flight[asked["number"]] = asked["name"]
        try:
            given = await self._start.tools.call(asked["name"], asked["arguments"], turn=self._start.turn())
            answer = write_answer(given)
        except TrialError as failure:
            self._fatal = self._fatal or failure
            answer = {"trial_error": write_error(failure)}
        del self._in_flight[asked["number"]]
        await worker.send({"number": asked["number"], **answer})

    async def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop(grace_seconds=0)
