"""Agents of the Claude Agent SDK: options, with which a client starts Claude Code.

Each trial has its own client. Tools of servers in this process (`create_sdk_mcp_server`) are called through
`SdkMcpBridge.handle`, which we replace. Claude Code runs all other tools itself: they are recorded from its messages,
and a hook denies those that must not run.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher
from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge

from seatrial.agents.chat_messages import text_of
from seatrial.agents.context import AgentContext, current_trial
from seatrial.agents.sdk_results import read_claude_messages
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import AgentResult, ErrorKind, Message, ToolCall
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError

from .tool_recorder import as_text, record_call, replace_method, seatrial_answers

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

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        self._ctx = ctx
        client, self._client = self._client or await self._connect(messages[:-1]), None
        before = len(_calls_by_trial.setdefault(id(ctx), []))
        try:
            await client.query(ctx.input)
            said = [message async for message in client.receive_response()]
            reply = read_claude_messages(said)
        except BaseException:
            await client.disconnect()  # a repeated turn starts a new session
            raise
        self._client = client
        self._record_others(reply.tool_calls or (), _calls_by_trial[id(ctx)][before:])
        total = reply.cost_usd
        spent = None if total is None else max(total - self._cost_usd, 0.0)
        self._cost_usd = self._cost_usd if total is None else total
        return AgentResult(reply.reply, [], reply.usage, spent)

    async def aclose(self) -> None:
        if self._ctx is not None:
            _calls_by_trial.pop(id(self._ctx), None)
        if self._client is not None:
            await self._client.disconnect()

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
        client = ClaudeSDKClient(options=options)
        await client.connect()
        return client

    async def _before_tool(self, event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Deny tools that Claude Code would run though they must not run. Tools of this process are ours to answer."""
        name, ctx = str(event["tool_name"]), self._ctx
        if ctx is None or self._is_own(name) or not seatrial_answers(ctx, name, control=name in _CONTROL):
            return {}
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

    def _record_others(self, listed: Sequence[ToolCall], recorded: Sequence[tuple[str, Any]]) -> None:
        """Record the calls that only Claude Code's messages show."""
        assert self._ctx is not None
        left = list(recorded)
        for call in listed:
            if (call.name, call.arguments) in left:
                left.remove((call.name, call.arguments))
            elif not any(name == call.name for name, _ in left):
                answer = ToolAnswer(result=call.result, error=call.error)
                self._ctx.record(call.name, call.arguments, answer, self._ctx.elapsed_ms(), real=True)


_calls_by_trial: dict[int, list[tuple[str, Any]]] = {}
"""By the id of a trial's context: the calls of tools in this process."""


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
