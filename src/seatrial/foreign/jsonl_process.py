"""A process that exchanges JSON lines with us. `stop` ends it with all its children."""

import asyncio
import errno
import json
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.model.conversation import ErrorKind
from seatrial.model.results import AgentFailure, TrialError

MAX_LINE_BYTES = 10_000_000
STDERR_BYTES = 4_000
_SHOWN_CHARACTERS = 500
_LAST_WORDS_SECONDS = 1.0
_KILL_SECONDS = 5.0
"""How long to wait for the end of a killed process."""


class JsonLinesProcess:
    """A running process. Its errors become AgentFailures with the end of its stderr."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport) -> None:
        self._process = process
        self._transport = transport
        self._stderr = bytearray()
        self._reading_stderr = asyncio.create_task(self._keep_stderr())

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> "JsonLinesProcess":
        """Start it in its own process group. Raises TrialError(config) if there is no such program."""
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(limit=MAX_LINE_BYTES, loop=loop),
                *argv,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=cwd,
                env=None if env is None else {**os.environ, **env},
                start_new_session=True,
            )
        except OSError as error:
            raise _cannot_start(argv, cwd, error) from error
        return cls(Process(transport, protocol, loop), transport)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Write one line. Raises AgentFailure if the process has ended."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(message).encode() + b"\n")
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._ended("before it read what was sent") from None

    async def receive(self) -> Mapping[str, Any]:
        """The JSON object on the next line that is not blank."""
        stdout = self._process.stdout
        assert stdout is not None
        line = b"\n"
        while line and not line.strip():
            try:
                line = await stdout.readline()
            except ValueError:
                raise self._failure(f"wrote a line of more than {MAX_LINE_BYTES // 1_000_000} MB", final=True) from None
        if not line:
            raise await self._ended("before it replied")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise self._failure(
                f"wrote a line that is no JSON object: {shorten(line)}",
                hint="stdout is for the protocol alone; write logs to stderr",
            )
        return message

    async def stop(self, *, grace_seconds: float) -> bytes:
        """Close its stdin, and after the grace send SIGKILL to its process group.

        Returns the unread part of its stdout, up to the limit of a line."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdout is not None
        if stdin is not None:
            stdin.close()
        unread = bytearray()
        try:
            if grace_seconds > 0:
                async with asyncio.timeout(grace_seconds):
                    while chunk := await stdout.read(65_536):
                        unread += chunk[: MAX_LINE_BYTES - len(unread)]
                    await self._process.wait()
        except TimeoutError:
            pass
        finally:
            await self._kill()
        return bytes(unread)

    async def _kill(self) -> None:
        _kill_group(self._process.pid, self._transport)
        try:
            await asyncio.wait_for(self._process.wait(), _KILL_SECONDS)
        except TimeoutError:
            pass
        finally:
            # A child that left the group may keep the pipes open; do not wait for it.
            self._reading_stderr.cancel()
            self._transport.close()
            await asyncio.gather(self._reading_stderr, return_exceptions=True)

    async def _keep_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while chunk := await stderr.read(65_536):
            self._stderr += chunk
            del self._stderr[:-STDERR_BYTES]

    async def _ended(self, when: str) -> AgentFailure:
        """The failure of a process that closed its stdout, with its exit code if it ends soon."""
        try:
            await asyncio.wait_for(self._process.wait(), _LAST_WORDS_SECONDS)
            await asyncio.wait_for(asyncio.shield(self._reading_stderr), _LAST_WORDS_SECONDS)
        except TimeoutError:
            pass  # it still runs without stdout, or a child keeps stderr open
        code = self._process.returncode
        if code is None:
            return self._failure(f"closed its stdout {when}")
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        return self._failure(f"{how} {when}")

    def _failure(self, what: str, *, hint: str | None = None, final: bool = False) -> AgentFailure:
        stderr = bytes(self._stderr).decode("utf-8", "replace").strip()
        shown = f"; stderr ends: {stderr[-_SHOWN_CHARACTERS:]}" if stderr else ""
        return AgentFailure(f"the process {what}{shown}", hint=hint, traceback=stderr or None, final=final)


def _kill_group(pid: int, transport: asyncio.SubprocessTransport) -> None:
    if hasattr(os, "killpg"):
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended; on macOS a group of zombies gives EPERM
    elif transport.get_returncode() is None:
        transport.kill()


def _cannot_start(argv: Sequence[str], cwd: str | None, error: OSError) -> TrialError:
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM):
        hint = "lower --concurrency, or raise the limits: ulimit -n, ulimit -u"
        return TrialError(ErrorKind.INFRA, f"no process could be started: {error.strerror}", hint=hint)
    place = f" in {cwd!r}" if cwd is not None else ""
    return TrialError(
        ErrorKind.CONFIG,
        f"the agent's command {argv[0]!r} cannot be started{place}: {error.strerror}",
        hint="argv is the program and its arguments, such as [node, agent.js]",
    )


def shorten(line: bytes) -> str:
    text = line[: _SHOWN_CHARACTERS * 4].decode("utf-8", "replace").strip()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
