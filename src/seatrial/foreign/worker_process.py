"""Python worker processes for user code: `WorkerPool` in our process, `run_worker` in the processes that it starts.

The two sides send each other JSON objects, one per line, over the worker's stdin and stdout. What user code prints
goes to stderr.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from time import perf_counter, sleep
from typing import Any, BinaryIO

from .jsonl_process import JsonLinesProcess, shorten

CLOSE_SECONDS = 10.0
"""How long user code may take to close."""


class WorkerPool:
    """Workers that run the same Python module with the same arguments. Idle workers are used again."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._argv = [sys.executable, "-m", module, json.dumps(sys.path), *arguments]
        self._loop: asyncio.AbstractEventLoop | None = None
        self.idle: list[JsonLinesProcess] = []

    def run_once(self, *arguments: str, timeout: float) -> Mapping[str, Any]:
        """The object that a worker prints when it is started with more arguments. Raises RuntimeError without one."""
        argv = [*self._argv, *arguments]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"took longer than {timeout:g} s") from None
        if done.stdout.strip():
            return dict(json.loads(done.stdout))
        stderr = shorten(done.stderr[-500:])
        shown = f"; stderr ends: {stderr}" if stderr else ""
        raise RuntimeError(f"ended the process with code {done.returncode}{shown}")

    def take_idle(self) -> JsonLinesProcess | None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # processes belong to the loop that started them
            self.idle, self._loop = [], loop
        return self.idle.pop() if self.idle else None

    async def start(self) -> JsonLinesProcess:
        return await JsonLinesProcess.start(self._argv)

    async def close(self) -> None:
        idle, self.idle = self.idle, []
        for worker in idle:
            await worker.stop(grace_seconds=CLOSE_SECONDS)


class ParentConnection:
    """The worker's connection to the process that started it."""

    def __init__(self, reads: BinaryIO, writes: BinaryIO) -> None:
        self._reads = reads
        self._writes = writes
        self._parent = os.getppid()
        self._writing = threading.Lock()
        self._numbers = count(1)
        self._waiting: dict[int, Future[Mapping[str, Any]]] = {}

    def send(self, message: Mapping[str, Any]) -> None:
        """Write and flush the message, so that nothing user code does next can lose it."""
        with self._writing:
            self._writes.write(json.dumps(message).encode() + b"\n")
            self._writes.flush()

    def ask(self, kind: str, **about: Any) -> "Future[Mapping[str, Any]]":
        """The parent's answer to a question. Any thread may wait for it."""
        number = next(self._numbers)
        answer: Future[Mapping[str, Any]] = Future()
        self._waiting[number] = answer
        self.send({"type": kind, "number": number, **about})
        return answer

    async def messages(self) -> AsyncIterator[Mapping[str, Any]]:
        """What the parent sends, without its answers to questions, until it closes the connection."""
        received: asyncio.Queue[Any] = asyncio.Queue()
        threading.Thread(target=self._read, args=(received, asyncio.get_running_loop()), daemon=True).start()
        while (message := await received.get()) is not None:
            yield message

    def _read(self, received: "asyncio.Queue[Any]", loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop has closed: the process is about to end
            for line in self._reads:
                message = json.loads(line)
                waiting = self._waiting.pop(message.get("number"), None)
                if waiting is not None:
                    waiting.set_result(message)
                else:
                    loop.call_soon_threadsafe(received.put_nowait, message)
            loop.call_soon_threadsafe(received.put_nowait, None)
        self._end_with_parent()

    def _end_with_parent(self) -> None:
        """End this process when the parent has ended, or at the latest after the time for closing."""
        deadline = perf_counter() + CLOSE_SECONDS
        while os.getppid() == self._parent and perf_counter() < deadline:
            sleep(0.05)
        os._exit(1)


def run_worker(main: Callable[[ParentConnection, list[str]], None]) -> None:
    """Run `main` with the connection to the parent and the worker's own arguments, then end the process."""
    code = 1
    try:
        connection = ParentConnection(*_take_pipes())
        sys.path[:] = json.loads(sys.argv[1])
        main(connection, sys.argv[2:])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):  # user code may have closed them
            sys.stdout.flush()
            sys.stderr.flush()
        # Threads and exit hooks of user code must not keep the process alive.
        os._exit(code)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Stdin and stdout for the connection. From now on prints go to stderr, those of C libraries too."""
    reads, writes = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return os.fdopen(reads, "rb"), os.fdopen(writes, "wb")
