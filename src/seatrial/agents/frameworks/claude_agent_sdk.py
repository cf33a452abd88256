"""Agents of the Claude Agent SDK: options, with which a client starts Claude Code.

Each trial has its own client. Tools of servers in this process (`create_sdk_mcp_server`) are called through
`SdkMcpBridge.handle`, which we replace. Claude Code runs all other tools itself: they are recorded from its messages,
and a hook denies those that must not run.
"""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    SystemMessage,
)
from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge
from claude_agent_sdk.types import CanUseToolShadowedWarning

from seatrial.agents.chat_messages import text_of
from seatrial.agents.context import AgentContext, current_trial
from seatrial.agents.message_parts import anthropic_blocks
from seatrial.agents.sdk_results import read_claude_messages
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import ErrorKind, Message, ToolCall
from seatrial.model.protocols import AgentReply, ToolAnswer
from seatrial.model.results import AgentFailure, TrialError
from seatrial.model.scenario import Decision
from seatrial.model.struct import Struct

from .tool_recorder import (
    as_text,
    decide,
    decision_in,
    not_waiting,
    record_call,
    replace_method,
    seatrial_answers,
    waiting_reply,
)

_CONTROL = frozenset(
    (
        *("Agent", "Task", "Skill", "TodoWrite", "ToolSearch", "StructuredOutput"),
        *("EnterPlanMode", "ExitPlanMode"),
    )
)
"""Tools of Claude Code that only direct it."""


class Adapter:
    """One trial with a client of the SDK."""

    tool_names = None

    def __init__(self, target: Any) -> None:
        if not isinstance(target, ClaudeAgentOptions):
            raise UsageError(f"type 'claude_agent_sdk' needs ClaudeAgentOptions, got {type(target).__name__}")
        replace_method(SdkMcpBridge, "handle", _watched)
        self._options = target
        self._client: ClaudeSDKClient | None = None
        self._ctx: AgentContext | None = None
        self._cost_usd = 0.0
        """The cost of earlier turns: the SDK reports that of the whole session."""
        self._permissions = _Permissions()
        self._said: list[Any] = []
        """The messages since the user's last one."""
        self._listed = 0
        """The number of calls in these messages that earlier turns have."""
        self._working = False
        """Whether a subagent works in the background."""
        self._messages: AsyncIterator[Any]
        """All messages of the session."""
        self._next: asyncio.Future[Any] | None = None

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentReply:
        self._ctx, decision = ctx, decision_in(messages)
        client = await self._begin(messages) if decision is None else self._go_on(decision)
        before = len(_calls_by_trial.setdefault(id(ctx), []))
        try:
            if decision is None:
                await client.query(_write_prompt(messages[-1]))
            complete = await self._read()
            self._permissions.require_used()
            reply = read_claude_messages(self._said)
        except BaseException:
            await self._disconnect(client)  # a repeated turn starts a new session
            raise
        self._client = client
        self._record_others(reply.tool_calls or (), _calls_by_trial[id(ctx)][before:])
        if not complete:
            names = (self._permissions.waiting[0].name,)
            return AgentReply(reply=waiting_reply(names), tool_calls=(), awaits=names)
        total = reply.cost_usd
        spent = None if total is None else max(total - self._cost_usd, 0.0)
        self._cost_usd = self._cost_usd if total is None else total
        return AgentReply(reply=reply.reply, tool_calls=(), usage=reply.usage, cost_usd=spent)

    async def aclose(self) -> None:
        if self._ctx is not None:
            _calls_by_trial.pop(id(self._ctx), None)
        if self._client is not None:
            await self._disconnect(self._client)

    async def _begin(self, messages: Sequence[Message]) -> ClaudeSDKClient:
        """The client for a message of the user."""
        client, self._client = self._client or await self._connect(messages[:-1]), None
        self._said, self._listed = [], 0
        return client

    def _go_on(self, decision: Decision) -> ClaudeSDKClient:
        """The client whose calls waited, after a person's decision."""
        if decision.resume is not None:
            raise TrialError(
                ErrorKind.CONFIG, "agents of type 'claude_agent_sdk' wait for approvals; write approve or reject"
            )
        client, self._client = self._client, None
        if client is None or not self._permissions.waiting:
            decide([], decision)
            raise AgentFailure("a person decides, but the agent waits for nothing", final=True)
        self._permissions.decide(decision)
        return client

    async def _read(self) -> bool:
        """Read until the response is complete. False: a call waits for a person.

        While a subagent works in the background, Claude Code answers at once, and again when the subagent is done.
        """
        while True:
            self._next = self._next or asyncio.ensure_future(anext(self._messages))
            asked = asyncio.ensure_future(self._permissions.asked.wait())
            await asyncio.wait((self._next, asked), return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            # Messages from before the question are on their way.
            await asyncio.wait((self._next,), timeout=_QUIET_SECONDS)
            if not self._next.done():
                if self._permissions.waiting:
                    return False
                continue
            message, self._next = self._next.result(), None
            self._said.append(message)
            if isinstance(message, SystemMessage) and message.subtype == "background_tasks_changed":
                self._working = any(task.get("task_type") == "local_agent" for task in message.data.get("tasks") or ())
            if isinstance(message, ResultMessage) and not self._working:
                return True

    async def _disconnect(self, client: ClaudeSDKClient) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._permissions, self._working = _Permissions(), False
        await client.disconnect()

    async def _connect(self, messages: Sequence[Message]) -> ClaudeSDKClient:
        instructions = [text_of(message) for message in messages if message["role"] in ("system", "developer")]
        if len(instructions) < len(messages):
            raise TrialError(
                ErrorKind.CONFIG,
                "earlier messages cannot be given to an agent of type 'claude_agent_sdk': a session starts empty",
                hint="write the earlier messages as turns",
            )
        hooks = dict(self._options.hooks or {})
        hooks["PreToolUse"] = [HookMatcher(hooks=[self._before_tool]), *hooks.get("PreToolUse", ())]
        options = replace(self._options, hooks=hooks, system_prompt=_with(self._options.system_prompt, instructions))
        if self._ctx is not None and self._ctx.decides:
            # The SDK warns that it does not ask for tools which the options allow: that is meant.
            warnings.filterwarnings("ignore", category=CanUseToolShadowedWarning)
            options = replace(options, can_use_tool=self._ask_person, permission_prompt_tool_name=None)
        client = ClaudeSDKClient(options=options)
        await client.connect()
        self._messages = client.receive_messages()
        return client

    async def _before_tool(self, event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Deny tools that Claude Code would run though they must not run. Tools of this process are ours to answer."""
        name, ctx = str(event["tool_name"]), self._ctx
        if ctx is None or not seatrial_answers(ctx, name, control=name in _CONTROL):
            return {}
        if self._is_own(name):
            # Mocked tools need no approval in a scenario without decisions.
            allowed = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
            return {} if ctx.decides else {"hookSpecificOutput": allowed}
        if ctx.knows_tool(name):
            message = f"Claude Code runs the tool {name!r} by itself, where no mock can answer it"
            hint = "offer the tool with create_sdk_mcp_server, or leave out the mock"
            ctx.fatal = ctx.fatal or TrialError(ErrorKind.CONFIG, message, hint=hint)
        else:
            try:
                await ctx.ask(name, event["tool_input"])
            except TrialError:
                pass  # it ends the trial, as `ctx.fatal`
        denied = {"permissionDecision": "deny", "permissionDecisionReason": str(ctx.fatal)}
        return {"continue_": False, "hookSpecificOutput": {"hookEventName": "PreToolUse", **denied}}

    def _is_own(self, name: str) -> bool:
        servers = self._options.mcp_servers
        own = [key for key, server in servers.items() if server["type"] == "sdk"] if isinstance(servers, dict) else []
        return any(name.startswith(f"mcp__{key}__") for key in own)

    async def _ask_person(
        self, name: str, given: dict[str, Any], context: Any
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Wait until a turn approves or rejects the call."""
        if await self._permissions.ask(name):
            return PermissionResultAllow()
        ctx, rejected = self._ctx, "rejected by the user"
        if ctx is not None:
            ctx.record(name, given, ToolAnswer(error=rejected), ctx.elapsed_ms())
            _calls_by_trial.setdefault(id(ctx), []).append((name, given))
        return PermissionResultDeny(message=rejected)

    def _record_others(self, listed: Sequence[ToolCall], recorded: Sequence[tuple[str, Any]]) -> None:
        """Record the calls that only Claude Code's messages show. A call without a result has not ended."""
        assert self._ctx is not None
        left = list(recorded)
        ended = [call for call in listed if call.result_known or call.error is not None]
        for call in ended[self._listed :]:
            if (call.name, call.arguments) in left:
                left.remove((call.name, call.arguments))
            elif not any(name == call.name for name, _ in left):
                answer = ToolAnswer(result=call.result, error=call.error)
                ran = not self._is_own(call.name)  # of our own servers, Claude Code lists here only what it denied
                self._ctx.record(call.name, call.arguments, answer, self._ctx.elapsed_ms(), real=ran)
        self._listed = len(ended)


_QUIET_SECONDS = 0.05


class _Question(Struct, frozen=True, eq=False):
    name: str
    answer: asyncio.Future[bool]


class _Permissions:
    """Claude Code's questions whether a tool may run. It asks for one call after the other."""

    def __init__(self) -> None:
        self.waiting: list[_Question] = []
        self.asked = asyncio.Event()
        """Set while a question waits."""
        self._decision = Decision()
        self._used: set[str] = set()

    async def ask(self, name: str) -> bool:
        """Whether a person approves the call: as the turn says, or a later one."""
        question = _Question(name, asyncio.get_running_loop().create_future())
        self.waiting.append(question)
        self._answer()
        return await question.answer

    def decide(self, decision: Decision) -> None:
        """Answer the questions about these tools: those that wait, and those of the rest of the turn."""
        self._decision, self._used = decision, set()
        self._answer()

    def require_used(self) -> None:
        """End the decision's turn. Refuse a decision about a tool that Claude Code did not ask about."""
        decision, self._decision = self._decision, Decision()
        for name in (*decision.approve, *decision.reject):
            if name not in self._used:
                raise not_waiting(name, [*self._used, *(each.name for each in self.waiting)])

    def _answer(self) -> None:
        decided = {name: name in self._decision.approve for name in (*self._decision.approve, *self._decision.reject)}
        for question in [each for each in self.waiting if each.name in decided]:
            self.waiting.remove(question)
            self._used.add(question.name)
            question.answer.set_result(decided[question.name])
        (self.asked.set if self.waiting else self.asked.clear)()


_calls_by_trial: dict[int, list[tuple[str, Any]]] = {}
"""By the id of a trial's context: the calls of tools in this process."""


def _write_prompt(message: Message) -> Any:
    """The user's message: a text, or blocks if something is attached."""
    if not isinstance(message.get("content"), list):
        return text_of(message)
    content = list(anthropic_blocks(message["content"]))

    async def prompt() -> AsyncIterator[dict[str, Any]]:
        yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}

    return prompt()


def _with(prompt: Any, instructions: Sequence[str]) -> Any:
    """The system prompt with the scenario's `system`."""
    more = "\n\n".join(instructions)
    if not more:
        return prompt
    if prompt is None or isinstance(prompt, str):
        return f"{prompt}\n\n{more}" if prompt else more
    key = {"preset": "append", "custom": "prompt"}.get(prompt.get("type"))
    if key is None:
        raise TrialError(ErrorKind.CONFIG, "a system prompt in a file cannot be combined with the scenario's `system`")
    return {**prompt, key: f"{prompt[key]}\n\n{more}" if prompt.get(key) else more}


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    async def handle(self: Any, message: dict[str, Any]) -> Any:
        ctx = current_trial.get()
        if ctx is None or message.get("method") != "tools/call":
            return await original(self, message)
        asked = message["params"]
        name, arguments = f"mcp__{self.name}__{asked['name']}", asked.get("arguments") or {}
        _calls_by_trial.setdefault(id(ctx), []).append((name, arguments))
        try:
            answer = await record_call(ctx, name, arguments, lambda: original(self, message), read=_read_answer)
        except ToolError as error:
            return _result(message, str(error), failed=True)
        except TrialError as error:
            return _result(message, str(error), failed=True)  # it ends the trial, as `ctx.fatal`
        if isinstance(answer, dict) and answer.get("jsonrpc") and answer.get("id") == message.get("id"):
            return answer
        return _result(message, as_text(answer) or "")

    return handle


def _result(message: dict[str, Any], text: str, *, failed: bool = False) -> dict[str, Any]:
    result = {"content": [{"type": "text", "text": text}], "isError": failed}
    return {"jsonrpc": "2.0", "id": message.get("id"), "result": result}


def _read_answer(response: Any) -> ToolAnswer:
    result = response.get("result") or {}
    blocks = [block.get("text", block) for block in result.get("content") or ()]
    value = blocks[0] if len(blocks) == 1 else blocks
    failed = result.get("isError") or "error" in response
    return ToolAnswer(error=str(response.get("error") or value)) if failed else ToolAnswer(result=value)
