"""Agents of type `http`: any JSON API. The request is a template, JMESPath finds the reply."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seatrial.errors import MissingExtra, UsageError
from seatrial.model.conversation import ErrorKind, Message
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure, TrialError

from .chat_messages import latest_user_text, parse_json, read_amount, read_reported, read_usage
from .http_client import HttpConnections, HttpRequest, check_headers, check_url, not_an_answer, not_json, show_body
from .placeholders import PLACEHOLDERS, check_placeholders, fill, fill_url
from .server_events import EventReader

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
    continues: bool = field(default=False, init=False)
    takes_attachments: bool = field(default=False, init=False)
    """Whether the API gets the messages, which have the attachments."""

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
    remember: Mapping[str, str] | None = None
    """Placeholder -> JMESPath of its value in an answer. The next requests of the trial have it; the first has null."""
    stream: str | None = None
    """"sse": the answer is a stream of server-sent events, and the paths are those of each event."""
    name: str = "http"

    def __post_init__(self) -> None:
        where = f"agent {self.name!r}"
        if self.method not in _METHODS:
            raise UsageError(f"{where}.method: expected one of {', '.join(_METHODS)}, got {self.method!r}")
        self._remembered = self._check_remember(where)
        if self.stream not in (None, "sse"):
            raise UsageError(f"{where}.stream: expected sse, got {self.stream!r}")
        found = check_placeholders(self.url, where=f"{where}.url", more=self._remembered)
        if self.body is None and self.method != "GET":
            self.body = _DEFAULT_BODY
        found |= check_placeholders(self.body, where=f"{where}.body", more=self._remembered)
        if not found & {"input", "messages"}:
            raise UsageError(f"{where}: nothing of the conversation is sent; put {{{{input}}}} into body or url")
        self.keeps_conversation = bool(found & {"messages", "trial_id", *self._remembered})
        self.takes_attachments = self.continues = "messages" in found
        unused = sorted(self._remembered.keys() - found)
        if unused:
            raise UsageError(f"{where}.remember: {unused[0]!r} is not used; put {{{{{unused[0]}}}}} into body or url")
        sample = fill_url(self.url, dict.fromkeys((*PLACEHOLDERS, *self._remembered), "x"))
        self._connections = HttpConnections(check_url(sample, where=f"{where}.url"))
        self._headers = _complete_headers(check_headers(self.headers, where=f"{where}.headers"), self.stream)
        _check_json(self.body, where=f"{where}.body")
        self._output = compile_path(self.output, where=f"{where}.output")
        self._other_paths = {
            key: compile_path(path, where=f"{where}.{key}")
            for key in ("tool_calls", "usage", "cost_usd")
            if (path := getattr(self, key)) is not None
        }

    def _check_remember(self, where: str) -> "dict[str, JsonPath]":
        remember: Any = self.remember or {}
        if not isinstance(remember, Mapping):
            raise UsageError(f"{where}.remember: expected a mapping of names to JMESPaths, got {remember!r}")
        for name in remember:
            if name in PLACEHOLDERS or not str(name).isidentifier():
                raise UsageError(f"{where}.remember: {name!r} cannot be the name of a placeholder; choose another")
        return {name: compile_path(path, where=f"{where}.remember.{name}") for name, path in remember.items()}

    def open(self, start: TrialStart) -> AgentSession:
        return _HttpSession(self, start)

    async def close(self) -> None:
        await self._connections.close()

    async def ask(
        self, values: dict[str, Any], *, timeout: float, cookies: "httpx2.Cookies"
    ) -> tuple[AgentReply, dict[str, Any]]:
        """The API's reply to the request with these values, and the values to remember."""
        known = {**dict.fromkeys(self._remembered), **values}
        content = None if self.body is None else json.dumps(fill(self.body, known)).encode()
        request = HttpRequest(method=self.method, url=fill_url(self.url, known), headers=self._headers, content=content)
        async with self._connections.exchange(request, timeout=timeout, cookies=cookies) as response:
            body = await response.read()
        if self.stream == "sse" and response.media_type == "text/event-stream":
            answers = list(_read_events(body))
        else:
            answers = [_read_json(body, response.media_type)]
        remembered = {name: _last(path, answers) for name, path in self._remembered.items()}
        return self._read(answers, body), {name: value for name, value in remembered.items() if value is not None}

    def _read(self, answers: Sequence[Any], body: bytes) -> AgentReply:
        """The reply in an answer, or in the events of a stream: their texts and calls are joined."""
        calls = self._find_calls(answers)
        return AgentReply(
            reply=self._read_reply(answers, body),
            tool_calls=None if calls is None else read_reported(calls),
            usage=read_usage(_last(self._other_paths.get("usage"), answers)),
            cost_usd=read_amount(_last(self._other_paths.get("cost_usd"), answers)),
        )

    def _find_calls(self, answers: Sequence[Any]) -> Any:
        path = self._other_paths.get("tool_calls")
        if path is None:
            return None
        for answer in answers:
            if path.find(answer) == []:
                self._refuse_misspelt_calls(answer)
        found = [calls for calls in map(path.find, answers) if calls is not None]
        if len(found) < 2:
            return found[0] if found else None
        return [call for calls in found for call in (calls if isinstance(calls, list) else [calls])]

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

    def _read_reply(self, answers: Sequence[Any], body: bytes) -> str:
        found = [piece for piece in map(self._output.find, answers) if piece is not None]
        if not found:
            hint = "set the agent's output to the JMESPath of the reply"
            raise AgentFailure(f"endpoint returned nothing at output {self.output!r}: {show_body(body)}", hint=hint)
        return "".join(piece if isinstance(piece, str) else json.dumps(piece, ensure_ascii=False) for piece in found)


class _HttpSession:
    """One trial, with its own cookies."""

    def __init__(self, agent: HttpAgent, start: TrialStart) -> None:
        self._agent = agent
        self._trial_values = {"trial_id": start.trial_id, "mcp_url": start.mcp_url}
        self._cookies: httpx2.Cookies | None = None
        self._remembered: dict[str, Any] = {}

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        import httpx2

        if self._cookies is None:
            self._cookies = httpx2.Cookies()
        said = {"input": latest_user_text(messages), "messages": list(messages)}
        values = {**said, **self._trial_values, **self._remembered}
        reply, remembered = await self._agent.ask(values, timeout=timeout, cookies=self._cookies)
        self._remembered |= remembered
        return reply

    async def close(self) -> None:
        """Connections belong to the agent."""


def _read_json(body: bytes, media_type: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise not_json(media_type, body) from None


def _read_events(body: bytes) -> Iterator[Any]:
    """The data of each event: a JSON value, or a text that is none."""
    reader = EventReader()
    for event in (*reader.feed(body), *reader.finish()):
        if event.name == "error":
            raise not_an_answer("streamed an error", event.data)
        if event.data.strip() == "[DONE]":
            return
        yield parse_json(event.data)


def _last(path: "JsonPath | None", answers: Sequence[Any]) -> Any:
    """The last value at the path; None without one."""
    found = [] if path is None else [path.find(answer) for answer in answers]
    return next((value for value in reversed(found) if value is not None), None)


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


def _complete_headers(headers: dict[str, str], stream: str | None) -> dict[str, str]:
    given = {name.lower() for name in headers}
    accepted = "text/event-stream, application/json" if stream == "sse" else "application/json"
    defaults = {"content-type": "application/json", "accept": accepted}
    return {**{name: value for name, value in defaults.items() if name not in given}, **headers}


def _check_json(body: Any, *, where: str) -> None:
    try:
        json.dumps(body, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: cannot be sent as JSON: {error}") from None
