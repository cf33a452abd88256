"""Agents of Google's Agent Development Kit.

A runner keeps the state of its agents in a session. Each trial has its own runner, with services in memory and a plugin
that sees the tool calls and model responses of all its agents.
"""

import inspect
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import zip_longest
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import BaseNode
from google.genai import types

from seatrial.agents.chat_messages import read_calls, text_of
from seatrial.agents.context import AgentContext
from seatrial.agents.message_parts import attachments_in
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import ErrorKind, Message, Usage, total_usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply, ToolAnswer
from seatrial.model.results import AgentFailure, TrialError
from seatrial.model.scenario import Decision

from .tool_recorder import decide, decision_in, seatrial_answers, waiting_reply

_USER = "seatrial"


class Adapter:
    """One trial with an agent or an app of the kit."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, App | BaseNode):
            raise UsageError(f"type 'google_adk' needs an agent or an App of google.adk, got {type(target).__name__}")
        _refuse_hidden(target.root_agent if isinstance(target, App) else target)
        self.tool_names = _names_of(target.root_agent if isinstance(target, App) else target)
        self._recorder = _RecorderPlugin()
        self._runner = Runner(
            app=_with_plugin(target, self._recorder),
            session_service=InMemorySessionService(),
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
        )
        self._session: Session | None = None
        self._waiting: Sequence[types.FunctionCall] = ()
        """The kit's questions whether a tool may run."""

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentReply:
        decision = decision_in(messages)
        said = _users_content(messages[-1]) if decision is None else _write_answers(self._waiting, decision)
        session = self._session or await self._begin(messages[:-1])
        # After an error the session ends in the middle of a turn: a repeated turn starts with a new one.
        self._session, self._waiting = None, ()
        self._recorder.begin(ctx)
        reply, waiting = await _read_reply(
            self._runner.run_async(user_id=_USER, session_id=session.id, new_message=said)
        )
        self._session, self._waiting = session, waiting
        names, usage = tuple(map(_name_of, waiting)), total_usage(self._recorder.spent)
        return AgentReply(reply=waiting_reply(names) if names else reply, tool_calls=(), usage=usage, awaits=names)

    async def _begin(self, messages: Sequence[Message]) -> Session:
        """A session with the scenario's `history`; its `system` is sent with every request."""
        instructions = ("system", "developer")
        self._recorder.instructions = [text_of(message) for message in messages if message["role"] in instructions]
        service = self._runner.session_service
        session = await service.create_session(app_name=self._runner.app_name, user_id=_USER)
        said = [message for message in messages if message["role"] not in instructions]
        for event in _events(said, author=self._runner.agent.name):
            await service.append_event(session, event)
        return session


def _refuse_hidden(agent: Any) -> None:
    """Refuse an agent behind a tool that plugins do not see: its calls could be neither recorded nor mocked."""
    for tool in getattr(agent, "tools", ()):
        if isinstance(tool, AgentTool):
            if not tool.include_plugins:
                raise UsageError(
                    f"the agent {tool.name!r} is an AgentTool with include_plugins=False, so that its tool calls can "
                    "neither be recorded nor mocked; leave that out for the trials"
                )
            _refuse_hidden(tool.agent)
    for below in getattr(agent, "sub_agents", ()):
        _refuse_hidden(below)


def _with_plugin(target: App | BaseNode, plugin: BasePlugin) -> App:
    if isinstance(target, App):
        # A mock answers before a plugin of the user.
        return target.model_copy(update={"plugins": [plugin, *target.plugins]})
    return App(name="seatrial", root_agent=target, plugins=[plugin])


_CONFIRMATION = "adk_request_confirmation"


def _name_of(question: types.FunctionCall) -> str:
    """The tool whose call waits."""
    return str((question.args or {})["originalFunctionCall"]["name"])


def _write_answers(waiting: Sequence[types.FunctionCall], decision: Decision) -> types.Content:
    if decision.resume is not None:
        raise TrialError(ErrorKind.CONFIG, "agents of type 'google_adk' wait for approvals; write approve or reject")
    verdicts = decide(list(map(_name_of, waiting)), decision)
    parts = [
        types.Part(
            function_response=types.FunctionResponse(id=each.id, name=_CONFIRMATION, response={"confirmed": approved})
        )
        for each, approved in zip(waiting, verdicts, strict=True)
    ]
    return types.Content(role="user", parts=parts)


async def _read_reply(events: AsyncGenerator[Event, None]) -> tuple[str | None, list[types.FunctionCall]]:
    """The last final response, and the questions whether a tool may run.

    Raises AgentFailure if there is none and a model reported an error.
    """
    reply, problem = None, None
    waiting: list[types.FunctionCall] = []
    async with aclosing(events) as stream:
        async for event in stream:
            if event.error_code:
                problem = f"{event.error_code}: {event.error_message}"
            waiting += [call for call in event.get_function_calls() if call.name == _CONFIRMATION]
            if event.is_final_response() and event.content and event.content.parts:
                reply = "".join(part.text for part in event.content.parts if part.text and not part.thought)
    if not reply and problem:
        raise AgentFailure(f"the model gave no answer: {problem}")
    return reply, waiting


class _RecorderPlugin(BasePlugin):
    """Sees every tool call and every model response of one trial."""

    def __init__(self) -> None:
        super().__init__(name="seatrial")
        self.instructions: list[str] = []
        self._started: dict[int, float] = {}
        """Start times of running calls, by the id of their tool context. Calls of mocks are recorded elsewhere."""

    def begin(self, ctx: AgentContext) -> None:
        """Start a turn."""
        self._ctx = ctx
        self.spent: list[Usage | None] = []
        self._started.clear()

    async def before_model_callback(self, *, llm_request: Any, **_: Any) -> None:
        if self.instructions:
            llm_request.append_instructions(self.instructions)
        for name in _native_tools(llm_request.config.tools or ()):
            if self._ctx.knows_tool(name):
                # The kit wraps exceptions of plugins.
                self._ctx.fatal = TrialError(
                    ErrorKind.CONFIG,
                    f"the model's provider runs the tool {name!r} by itself, where no mock can answer it",
                )
                raise self._ctx.fatal

    async def after_model_callback(self, *, llm_response: Any, **_: Any) -> None:
        if not llm_response.partial:
            self.spent.append(_read_usage(llm_response.usage_metadata))
            for name, arguments, result in _native_calls(llm_response):
                self._ctx.record(name, arguments, ToolAnswer(result=result), self._ctx.elapsed_ms())

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> Any:
        # The kit uses a bare BaseTool for an unknown tool: a mock must not hide that.
        ours = type(tool) is not BaseTool and seatrial_answers(self._ctx, tool.name, control=_is_control(tool))
        if not ours or (self._ctx.decides and await _needs_approval(tool, tool_args, tool_context)):
            self._ctx.require_open(tool.name)
            self._started[id(tool_context)] = self._ctx.elapsed_ms()
            return None
        try:
            result = await self._ctx.ask(tool.name, tool_args)
        except ToolError as error:
            return {"error": str(error)}
        return result if isinstance(result, dict) else {"result": result}

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> None:
        started = self._started.pop(id(tool_context), None)
        waits = tool_context.function_call_id in tool_context.actions.requested_tool_confirmations
        if started is not None and not waits:
            asked = tool_context.tool_confirmation
            ran = _is_real(tool) and (asked is None or asked.confirmed)
            self._ctx.record(tool.name, tool_args, _read_answer(result), started, real=ran)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> None:
        """An unknown tool is an error, too. Older versions of the kit call only this method for it."""
        started = self._started.pop(id(tool_context), self._ctx.elapsed_ms())
        answer = ToolAnswer(error=f"{type(error).__name__}: {error}")
        self._ctx.record(tool.name, tool_args, answer, started, real=_is_real(tool))


_CONTROL = frozenset(
    (
        *("transfer_to_agent", "exit_loop", "set_model_response", "finish_task"),
        *("adk_request_credential", "adk_request_confirmation", "adk_request_input"),
    )
)
"""Tools of the kit that only direct its agents."""


def _is_control(tool: Any) -> bool:
    """Whether the tool needs no mock. An agent behind a tool needs none: its own tools are recorded."""
    return isinstance(tool, AgentTool) or tool.name in _CONTROL


async def _needs_approval(tool: Any, arguments: dict[str, Any], tool_context: Any) -> bool:
    """Whether the call still waits for a person, or was rejected. The tool itself does not run then."""
    if tool_context.tool_confirmation is not None and tool_context.tool_confirmation.confirmed:
        return False
    check = getattr(tool, "check_require_confirmation", None)
    if check is None:  # as in older versions
        return getattr(tool, "_require_confirmation", False) is True
    return bool(await check(arguments, tool_context))


def _is_real(tool: Any) -> bool:
    """Whether the agent has such a tool, and it is not a control tool."""
    return type(tool) is not BaseTool and not _is_control(tool)


def _names_of(agent: Any) -> frozenset[str] | None:
    """The names of all tools of the agent and of its other agents; None if they are not known."""
    if not isinstance(agent, BaseAgent) or getattr(agent, "code_executor", None) is not None:
        return None
    names = {"transfer_to_agent"} if agent.sub_agents else set()
    for tool in getattr(agent, "tools", ()):
        if not isinstance(tool, BaseTool) and not inspect.isroutine(tool):
            return None
        names.add(tool.name if isinstance(tool, BaseTool) else tool.__name__)
    below = [tool.agent for tool in getattr(agent, "tools", ()) if isinstance(tool, AgentTool)]
    for other in (*below, *agent.sub_agents):
        more = _names_of(other)
        if more is None:
            return None
        names |= more
    return frozenset(names)


def _native_tools(tools: Iterable[Any]) -> Iterator[str]:
    """The names of tools that the model's provider runs by itself."""
    for tool in tools:
        if isinstance(tool, types.Tool):
            yield from (name for name, value in tool if value is not None and name != "function_declarations")


def _native_calls(response: Any) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Searches and code that the provider ran, as far as the response lists them."""
    queries = response.grounding_metadata and response.grounding_metadata.web_search_queries
    if queries:
        yield "google_search", {"queries": list(queries)}, None
    parts = (response.content and response.content.parts) or []
    results = [part.code_execution_result.output for part in parts if part.code_execution_result]
    codes = [part.executable_code.code for part in parts if part.executable_code]
    for code, result in zip_longest(codes, results[: len(codes)]):
        yield "code_execution", {"code": code}, result


def _read_answer(result: Any) -> ToolAnswer:
    """A tool of the kit reports an error to the model in a mapping with `error`."""
    error = result.get("error") if isinstance(result, dict) else None
    return ToolAnswer(result=plain_value(result), error=str(error) if error else None)


def _events(messages: Sequence[Message], *, author: str) -> Iterator[Event]:
    """The scenario's `history` as events of the kit."""
    names: dict[Any, str] = {}
    for message in messages:
        if message["role"] == "assistant":
            calls = read_calls(message.get("tool_calls") or ())
            names.update({call.id: call.name for call in calls})
            parts = [
                types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=dict(call.args or {})))
                for call in calls
            ]
            yield _event(author, _content("model", text_of(message), *parts))
        elif message["role"] == "tool":
            call_id = message.get("tool_call_id")
            response = types.FunctionResponse(
                id=call_id, name=names.get(call_id, "unknown"), response={"result": text_of(message)}
            )
            yield _event(author, _content("user", "", types.Part(function_response=response)))
        else:
            yield _event("user", _users_content(message))


def _read_usage(usage: Any) -> Usage | None:
    """The tokens of a model call; None if the response does not report them."""
    if usage is None:
        return None
    output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    return Usage(input_tokens=usage.prompt_token_count or 0, output_tokens=output)


def _event(author: str, content: types.Content) -> Event:
    return Event(invocation_id="history", author=author, content=content)


def _users_content(message: Message) -> types.Content:
    files = attachments_in(message.get("content"))
    parts = [types.Part.from_bytes(data=each.content, mime_type=each.media_type) for each in files]
    return _content("user", text_of(message), *parts)


def _content(role: str, text: str, *parts: types.Part) -> types.Content:
    return types.Content(role=role, parts=[*([types.Part(text=text)] if text else []), *parts])
