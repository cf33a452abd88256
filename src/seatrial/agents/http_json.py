"""Agents of type `http`: any JSON API. The request is a template, JMESPath finds the reply."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import ErrorKind, Message
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure, TrialError

from .chat_messages import latest_user_text, read_amount, read_reported, read_usage
from .http_client import HttpConnections, HttpRequest, check_headers, check_url, not_json, show_body
from .placeholders import check_placeholders, fill, fill_url

if TYPE_CHECKING:
    import httpx2

_METHODS = ("GET", "POST", "PUT", "PATCH")
_DEFAULT_BODY = {"input": "{{input}}", "messages": "{{messages}}", "trial_id": "{{trial_id}}"}


@dataclass(kw_only=True, eq=False)
class HttpAgent:
    """A JSON API. The fields are the keys of the settings."""

    answers_own_tools: bool = field(default=True, init=False)
    keeps_conversation: bool = field(default=True, init=False)
    """Whether the API gets the conversation, or the id of the trial."""

    url: str
    """May have placeholders, which are percent-encoded: `?q={{input}}`."""
    method: str = "POST"
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    body: Any = None
    """None: `{input, messages, trial_id}`; nothing with GET."""
    output: str = "output"
    """JMESPath of the reply."""
    tool_calls: str | None = None
    """JMESPath of the agent's calls; None: not recorded."""
    usage: str | None = None
    """JMESPath of the tokens, by our names or those of chat completions; None: not known."""
    cost_usd: str | None = None
    """JMESPath of the cost in US dollars; None: not known."""
    name: str = "http"

    def __post_init__(self) -> None:
        where = f"agent {self.name!r}"
        if self.method not in _METHODS:
            raise UsageError(f"{where}.method: expected one of {', '.join(_METHODS)}, got {self.method!r}")
        found = check_placeholders(self.url, where=f"{where}.url")
        if self.body is None and self.method != "GET":
            self.body = _DEFAULT_BODY
        found |= check_placeholders(self.body, where=f"{where}.body")
        if not found & {"input", "messages"}:
            raise UsageError(f"{where}: nothing of the conversation is sent; put {{{{input}}}} into body or url")
        self.keeps_conversation = bool(found & {"messages", "trial_id"})
        sample = fill_url(self.url, {"input": "x", "messages": [], "trial_id": "x", "mcp_url": "x"})
        self._connections = HttpConnections(check_url(sample, where=f"{where}.url"))
        self._headers = _complete_headers(check_headers(self.headers, where=f"{where}.headers"))
        _check_json(self.body, where=f"{where}.body")
        self._output = compile_path(self.output, where=f"{where}.output")
        self._other_paths = {
            key: compile_path(path, where=f"{where}.{key}")
            for key in ("tool_calls", "usage", "cost_usd")
            if (path := getattr(self, key)) is not None
        }

    def open(self, start: TrialStart) -> AgentSession:
        return _HttpSession(self, start)

    async def close(self) -> None:
        await self._connections.close()

    async def ask(self, values: Mapping[str, Any], *, timeout: float, cookies: "httpx2.Cookies") -> AgentReply:
        """The API's reply to the request with these values."""
        content = None if self.body is None else json.dumps(fill(self.body, values)).encode()
        request = HttpRequest(
            method=self.method, url=fill_url(self.url, values), headers=self._headers, content=content
        )
        async with self._connections.exchange(request, timeout=timeout, cookies=cookies) as response:
            body = await response.read()
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise not_json(response.media_type, body) from None
        found = {key: path.find(answer) for key, path in self._other_paths.items()}
        calls = found.get("tool_calls")
        if calls == []:
            self._refuse_misspelt_calls(answer)
        return AgentReply(
            reply=self._read_reply(answer, body),
            tool_calls=None if calls is None else read_reported(calls),
            usage=read_usage(found.get("usage")),
            cost_usd=read_amount(found.get("cost_usd")),
        )

    def _refuse_misspelt_calls(self, answer: Any) -> None:
        """JMESPath skips missing fields, so a misspelt field would say that no tool was called."""
        misspelt = self._other_paths["tool_calls"].misspelt_in(answer)
        if misspelt is not None:
            field, meant = misspelt
            raise TrialError(
                ErrorKind.CONFIG,
                f"agent {self.name!r}.tool_calls: {self.tool_calls!r} found nothing in a list that is not empty: "
                f"none of its items has {field!r}",
                hint=f"did you mean {meant!r}?",
            )

    def _read_reply(self, answer: Any, body: bytes) -> str:
        found = self._output.find(answer)
        if found is None:
            hint = "set the agent's output to the JMESPath of the reply"
            raise AgentFailure(f"endpoint returned nothing at output {self.output!r}: {show_body(body)}", hint=hint)
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


class _HttpSession:
    """One trial, with its own cookies."""

    def __init__(self, agent: HttpAgent, start: TrialStart) -> None:
        self._agent = agent
        self._trial_values = {"trial_id": start.trial_id, "mcp_url": start.mcp_url}
        self._cookies: httpx2.Cookies | None = None

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        import httpx2

        if self._cookies is None:
            self._cookies = httpx2.Cookies()
        values = {"input": latest_user_text(messages), "messages": list(messages), **self._trial_values}
        return await self._agent.ask(values, timeout=timeout, cookies=self._cookies)

    async def close(self) -> None:
        """Connections belong to the agent."""


class JsonPath:
    """A compiled JMESPath."""

    def __init__(self, expression: str, compiled: Any) -> None:
        self._expression = expression
        self._compiled = compiled

    def find(self, answer: Any) -> Any:
        """The value at the path; None without one."""
        from jmespath.exceptions import JMESPathError

        try:
            return self._compiled.search(answer)
        except JMESPathError as error:
            raise AgentFailure(f"{self._expression!r} does not fit what the endpoint returned: {error}") from error

    def misspelt_in(self, answer: Any) -> tuple[str, str] | None:
        """The field that the path takes from each item of a list, and a similar field that the items have instead.

        None if an item has the field, or if no item has a similar one."""
        from difflib import get_close_matches

        from jmespath.visitor import TreeInterpreter

        node = self._compiled.parsed
        if node["type"] not in ("projection", "filter_projection"):
            return None
        items, field, *condition = node["children"]
        while field["type"] == "subexpression":
            field = field["children"][0]
        whole = {**node, "children": [items, {"type": "identity", "children": []}, *condition]}
        found = [item for item in TreeInterpreter().visit(whole, answer) or () if isinstance(item, Mapping)]
        if field["type"] != "field" or any(field["value"] in item for item in found):
            return None
        filled = {key for item in found for key, value in item.items() if value}
        close = get_close_matches(field["value"], filled, n=1, cutoff=0.8)
        return (field["value"], close[0]) if close else None


def compile_path(expression: Any, *, where: str) -> JsonPath:
    """The path, if it is valid JMESPath."""
    try:
        import jmespath
        from jmespath.exceptions import JMESPathError
    except ImportError:
        raise MissingExtra("http", needed_for="an agent of type http") from None
    if not isinstance(expression, str) or not expression.strip():
        raise UsageError(f"{where}: expected a JMESPath such as choices[0].text, got {expression!r}")
    try:
        return JsonPath(expression, jmespath.compile(expression))
    except JMESPathError as error:
        raise UsageError(f"{where}: {expression!r} is no JMESPath: {str(error).splitlines()[0]}") from None


def _complete_headers(headers: dict[str, str]) -> dict[str, str]:
    given = {name.lower() for name in headers}
    defaults = {"content-type": "application/json", "accept": "application/json"}
    return {**{name: value for name, value in defaults.items() if name not in given}, **headers}


def _check_json(body: Any, *, where: str) -> None:
    try:
        json.dumps(body, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: cannot be sent as JSON: {error}") from None
