"""A local model server for tests: chat completions with scripted answers, and a record of every request."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReply:
    """A response of the server: a chat message with `content`, or the given `body`."""

    content: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    usage: tuple[int, int] | None = (10, 5)
    """Input and output tokens; None: not part of the response."""
    hold: threading.Event | None = None
    """Wait for this event before sending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    path: str
    headers: Mapping[str, str]
    """With names in lower case."""
    body: Mapping[str, Any]

    @property
    def messages(self) -> list[tuple[str, str]]:
        """(role, text) of each message."""
        return [(message["role"], message["content"]) for message in self.body["messages"]]


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    """With the default of 5, some of many concurrent connections are refused."""


Answers = Sequence[ServerReply | str] | Callable[[ReceivedRequest], ServerReply | str]


class ModelServer:
    """An OpenAI-compatible server with scripted answers, in order, the last one for all further requests."""

    def __init__(self, answers: Answers, *, model: str = "scripted") -> None:
        self._answers = answers
        self._model = model
        self._lock = threading.Lock()
        self._in_flight = 0
        self._closing = threading.Event()
        self.requests: list[ReceivedRequest] = []
        self.most_at_once = 0
        """The highest number of concurrent requests."""
        self._server = _Listener(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: ReceivedRequest) -> ServerReply:
        with self._lock:
            index = len(self.requests)
            self.requests.append(request)
            self._in_flight += 1
            self.most_at_once = max(self.most_at_once, self._in_flight)
        try:
            if callable(self._answers):
                answer = self._answers(request)
            else:
                answer = self._answers[min(index, len(self._answers) - 1)]
            reply = answer if isinstance(answer, ServerReply) else ServerReply(content=answer)
            while reply.hold is not None and not reply.hold.wait(0.02) and not self._closing.is_set():
                pass
            return reply
        finally:
            with self._lock:
                self._in_flight -= 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer, model = self._answer, self._model

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = json.loads(self.rfile.read(length))
                reply = answer(ReceivedRequest(path=self.path, headers=headers, body=body))
                text = reply.body if reply.body is not None else json.dumps(_completion(reply, model))
                try:
                    self._send(reply, text.encode())
                except ConnectionError:  # the client closed the connection
                    self.close_connection = True

            def _send(self, reply: ServerReply, payload: bytes) -> None:
                self.send_response(reply.status)
                headers = {"content-type": "application/json", **reply.headers, "content-length": str(len(payload))}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:
                return

        return Handler


def _completion(reply: ServerReply, model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.content}
    completion: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }
    if reply.usage is not None:
        given, made = reply.usage
        completion["usage"] = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    return completion
