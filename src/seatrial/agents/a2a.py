"""Agents of type `a2a`: agents with the Agent2Agent protocol, over JSON-RPC, in its versions 1.0 and 0.3."""

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from seatrial.clock import milliseconds
from seatrial.model.conversation import ErrorKind, Message
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure, TrialError, agent_timed_out

from .endpoint import read_object
from .http_client import HttpConnections, HttpRequest, check_headers, check_url, not_an_answer
from .message_parts import a2a_parts

CARD_PATH = "/.well-known/agent-card.json"
_WORKING = ("submitted", "working")
_FAILED = ("failed", "canceled", "rejected", "auth-required")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between questions about a task that is not finished."""


@dataclass(kw_only=True, eq=False)
class A2AAgent:
    """An agent that is found by its card. The fields are the keys of the settings."""

    answers_own_tools: bool = field(default=True, init=False)
    keeps_conversation: bool = field(default=True, init=False)
    takes_attachments: bool = field(default=True, init=False)

    url: str
    """The address of the agent, or of its card."""
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    name: str = "a2a"

    def __post_init__(self) -> None:
        where = f"agent {self.name!r}"
        check_url(self.url, where=f"{where}.url")
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json",
            **check_headers(self.headers, where=f"{where}.headers"),
        }
        self._connections = HttpConnections(self.url)
        self._service: tuple[str, str] | None = None

    def open(self, start: TrialStart) -> AgentSession:
        return _A2ASession(self)

    async def close(self) -> None:
        self._service = None
        await self._connections.close()

    async def find_service(self, *, timeout: float) -> tuple[str, str]:
        """The address for JSON-RPC and the protocol's version, from the agent's card."""
        if self._service is None:
            card_url = self.url if self.url.endswith(".json") else self.url.rstrip("/") + CARD_PATH
            request = HttpRequest(method="GET", url=card_url, headers=self._headers)
            async with self._connections.exchange(request, timeout=timeout) as response:
                body = await response.read()
            self._service = _read_card(read_object(body, media_type=response.media_type), card_url, body)
        return self._service

    async def call(self, method: str, params: Mapping[str, Any], *, timeout: float) -> Any:
        """The result of a method of JSON-RPC; `method` has the name of version 1.0."""
        deadline = milliseconds() + 1000 * timeout
        url, version = await self.find_service(timeout=timeout)
        old = version.startswith("0.")
        request = {
            "jsonrpc": "2.0",
            "id": str(uuid.uuid4()),
            "method": _OLD_METHODS[method] if old else method,
            "params": params,
        }
        headers = {**self._headers, "a2a-version": "0.3" if old else "1.0"}
        content = json.dumps(request).encode()
        posted = HttpRequest(method="POST", url=url, headers=headers, content=content)
        left = max(0.001, (deadline - milliseconds()) / 1000)
        async with self._connections.exchange(posted, timeout=left) as response:
            body = await response.read()
        answer = read_object(body, media_type=response.media_type)
        if answer.get("error") is not None:
            raise not_an_answer("returned an error", body)
        result = answer.get("result")
        if not isinstance(result, Mapping):
            raise not_an_answer("returned an answer without a result", body)
        return result


_OLD_METHODS = {"SendMessage": "message/send", "GetTask": "tasks/get"}


def _read_card(card: Mapping[str, Any], card_url: str, body: bytes) -> tuple[str, str]:
    """The address and version of the first JSON-RPC interface."""
    interfaces = card.get("supportedInterfaces") or card.get("additionalInterfaces") or []
    given = [each for each in interfaces if isinstance(each, Mapping) and isinstance(each.get("url"), str)]
    for each in given:
        if each.get("protocolBinding", each.get("transport")) == "JSONRPC":
            return urljoin(card_url, each["url"]), str(
                each.get("protocolVersion") or card.get("protocolVersion") or "1.0"
            )
    if isinstance(card.get("url"), str) and card.get("preferredTransport", "JSONRPC") == "JSONRPC":
        return urljoin(card_url, card["url"]), str(card.get("protocolVersion") or "0.3")
    raise not_an_answer("has an agent card without a JSON-RPC address, which Seatrial needs", body)


class _A2ASession:
    """One trial: one context of the agent."""

    def __init__(self, agent: A2AAgent) -> None:
        self._agent = agent
        self._context: str | None = None
        self._task: str | None = None
        """The task that waits for the user."""

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        deadline = milliseconds() + 1000 * timeout
        if self._context is None and len(messages) > 1:
            raise TrialError(
                ErrorKind.CONFIG,
                "the scenario has a history or a system prompt, and the Agent2Agent protocol cannot send one",
                hint="say it in the first user message",
            )
        _, version = await self._agent.find_service(timeout=timeout)
        message = self._write(messages[-1].get("content"), old=version.startswith("0."))
        result = await self._agent.call("SendMessage", {"message": message}, timeout=_left(deadline, timeout))
        pause = _FIRST_PAUSE
        while _state(task := _task_in(result)) in _WORKING:
            await asyncio.sleep(min(pause, _left(deadline, timeout)))
            pause = min(2 * pause, _LONGEST_PAUSE)
            result = await self._agent.call("GetTask", {"id": task["id"]}, timeout=_left(deadline, timeout))
        return self._read(result)

    def _write(self, content: Any, *, old: bool) -> dict[str, Any]:
        message: dict[str, Any] = {
            "messageId": str(uuid.uuid4()),
            "role": "user" if old else "ROLE_USER",
            "parts": list(a2a_parts(content, old=old)),
        }
        if old:
            message["kind"] = "message"
        known = {"contextId": self._context, "taskId": self._task}
        return message | {name: value for name, value in known.items() if value is not None}

    def _read(self, result: Mapping[str, Any]) -> AgentReply:
        task = _task_in(result)
        said = result.get("message") if isinstance(result.get("message"), Mapping) else result
        found = task or (said if isinstance(said, Mapping) else {})
        self._context = found.get("contextId") or self._context or ""
        state = _state(task)
        if state in _FAILED:
            raise AgentFailure(f"the agent's task is {state}: {_status_text(task) or 'it gives no reason'}")
        self._task = task.get("id") if state == "input-required" else None
        texts = _task_texts(task) if task else _texts(found.get("parts"))
        reply = "\n".join(texts)
        return AgentReply(reply=reply, tool_calls=None)

    async def close(self) -> None:
        """Connections belong to the agent."""


def _left(deadline: float, timeout: float) -> float:
    left = (deadline - milliseconds()) / 1000
    if left <= 0:
        raise agent_timed_out(timeout)
    return left


def _task_in(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The task in a result; empty if the agent answered with a message."""
    task = result.get("task", result if "status" in result else None)
    return task if isinstance(task, Mapping) else {}


def _state(task: Mapping[str, Any]) -> str | None:
    """The state in the words of version 0.3: "input-required" for TASK_STATE_INPUT_REQUIRED."""
    status = task.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    return None if state is None else str(state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def _task_texts(task: Mapping[str, Any]) -> list[str]:
    """What a task produced: its artifacts, otherwise its status message, otherwise the agent's last message."""
    artifacts = [each for each in task.get("artifacts") or () if isinstance(each, Mapping)]
    made = [text for artifact in artifacts for text in _texts(artifact.get("parts"))]
    status = _status_text(task)
    if _state(task) == "input-required" and status:
        return [status]
    if made or status:
        return made or [status]
    history = [each for each in task.get("history") or () if isinstance(each, Mapping)]
    answers = [each for each in history if each.get("role") in ("agent", "ROLE_AGENT")]
    return list(_texts(answers[-1].get("parts"))) if answers else []


def _status_text(task: Mapping[str, Any]) -> str:
    status = task.get("status")
    message = status.get("message") if isinstance(status, Mapping) else None
    return "\n".join(_texts(message.get("parts"))) if isinstance(message, Mapping) else ""


def _texts(parts: Any) -> Iterator[str]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
        elif isinstance(part, Mapping) and "data" in part:
            yield json.dumps(part["data"], ensure_ascii=False)
