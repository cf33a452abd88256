"""Clients of a server that stands alone: each has tools of its own, and everything it called is kept."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import IO, Any

from seatrial.clock import milliseconds, now
from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer, ToolBox
from seatrial.model.results import TrialError

OpenTools = Callable[[str], ToolBox]
"""Session -> its tools, with counters and a state of their own."""


class CallLog:
    """Calls as lines of JSON, each written out before its answer is given, so that nothing is lost."""

    def __init__(self, file: str | None, *, scenario: str) -> None:
        self._scenario = scenario
        self._writing = Lock()
        self._stream: IO[str] | None = None
        if file is not None:
            try:
                self._stream = Path(file).open("a", encoding="utf-8")  # noqa: SIM115 - it stays open
            except OSError as error:
                raise UsageError(f"--record {file}: cannot be written: {error.strerror}") from None

    def write(self, session: str, call: ToolCall) -> None:
        if self._stream is None:
            return
        line = {
            "session": session,
            "scenario": self._scenario,
            "at": now().isoformat(timespec="milliseconds"),
            "name": call.name,
            "arguments": call.arguments,
            "result": call.result,
            "error": call.error,
            "duration_ms": call.duration_ms,
        }
        with self._writing:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


class SessionDesk:
    """The tools of one client."""

    def __init__(self, session: str, tools: ToolBox, log: CallLog) -> None:
        self.session = session
        self.tools = tools
        self.calls: list[ToolCall] = []
        self.broken: TrialError | None = None
        """The first call that had no answer: an unknown tool, a bug in a mock."""
        self._log = log
        self._began = milliseconds()

    def offered(self) -> Sequence[Mapping[str, Any]]:
        return self.tools.offered()

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        started = milliseconds()
        try:
            answer = await self.tools.call(name, arguments, turn=0)
        except TrialError as failure:
            self.broken = self.broken or failure
            self._keep(name, arguments, ToolAnswer(error=str(failure)), started)
            raise
        self._keep(name, arguments, answer, started)
        return answer

    def _keep(self, name: str, arguments: Any, answer: ToolAnswer, started: float) -> None:
        call = ToolCall(
            name,
            plain_value(arguments),
            plain_value(answer.result),
            answer.error,
            started_ms=started - self._began,
            duration_ms=milliseconds() - started,
        )
        self.calls.append(call)
        self._log.write(self.session, call)


class Sessions:
    """All clients there were. An address is made by asking for it, a session by the handshake."""

    gives_sessions = True

    def __init__(self, open_tools: OpenTools, log: CallLog) -> None:
        self._open_tools = open_tools
        self._log = log
        self._opening = Lock()
        self.desks: dict[str, SessionDesk] = {}

    def at(self, place: str) -> SessionDesk:
        return self._desk(place)

    def of_session(self, session: str) -> SessionDesk:
        return self._desk(session)

    def _desk(self, session: str) -> SessionDesk:
        with self._opening:
            desk = self.desks.get(session)
            if desk is None:
                desk = self.desks[session] = SessionDesk(session, self._open_tools(session), self._log)
            return desk
