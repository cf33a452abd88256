"""A shop agent made with the Claude Agent SDK, and a server with the API of its model on this machine.

Claude Code itself runs: the package brings it.
"""

import asyncio
import atexit
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, create_sdk_mcp_server, tool

from seatrial.testing import shop

PREFIX = "mcp__shop__"


class Api(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        decided = decide(body["messages"])
        events = stream(decided if isinstance(decided, list) else [decided], len(body["messages"]))
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


def decide(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The next step of the shop as blocks of the API. "Run it." calls a tool of Claude Code."""
    said = []
    for message in messages:
        content = [] if message["role"] == "system" else message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_result":
                said.append({"role": "tool", "content": str(block["content"])})
            elif block["type"] in ("image", "document"):
                shown = shop.show_attachment(block["source"]["media_type"], block["source"]["data"])
                said.append({"role": message["role"], "content": shown})
            elif block["type"] == "text" and not block["text"].startswith("<system-reminder>"):
                said.append({"role": message["role"], "content": block["text"]})
    last = max(place for place, each in enumerate(said) if each["role"] == "user")
    results = [each for each in said[last:] if each["role"] == "tool"]
    request = said[last]["content"]
    if "Run it" in request and not results:
        return [{"type": "tool_use", "id": "toolu_run", "name": "Bash", "input": {"command": "echo ran"}}]
    if "Run it." in request:
        return [{"type": "text", "text": "It ran."}]
    if "then cancel" in request:
        said = [each for place, each in enumerate(said) if place <= last or each is not results[0]]
    step = shop.next_steps(said)
    if isinstance(step, str):
        return [{"type": "text", "text": step}]
    if step[0].name == "ask_expert":
        asked = {"description": "Ask", "prompt": step[0].arguments["question"], "subagent_type": "expert"}
        asked |= {} if "background" in request else {"run_in_background": False}
        return [{"type": "tool_use", "id": f"toolu_{len(messages)}", "name": "Agent", "input": asked}]
    return [
        {
            "type": "tool_use",
            "id": f"toolu_{len(messages)}_{place}",
            "name": PREFIX + call.name,
            "input": call.arguments,
        }
        for place, call in enumerate(step)
    ]


def stream(blocks: list[dict[str, Any]], size: int) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 10 * size, "output_tokens": 1}
    message = {"id": "msg", "type": "message", "role": "assistant", "model": "scripted", "content": [], "usage": usage}
    yield {"type": "message_start", "message": {**message, "stop_reason": None}}
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        yield {
            "type": "content_block_start",
            "index": index,
            "content_block": {**block, "text": ""} if is_text else {**block, "input": {}},
        }
        text = block["text"] if is_text else json.dumps(block["input"])
        for piece in (text[:3], text[3:]):
            delta = (
                {"type": "text_delta", "text": piece}
                if is_text
                else {"type": "input_json_delta", "partial_json": piece}
            )
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": "end_turn" if blocks[-1]["type"] == "text" else "tool_use"}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


api = ThreadingHTTPServer(("127.0.0.1", 0), Api)
threading.Thread(target=api.serve_forever, daemon=True).start()
home = tempfile.mkdtemp()
atexit.register(shutil.rmtree, home, ignore_errors=True)


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


@tool("lookup_order", "Find the parcel of an order.", {"order_id": str})
async def lookup_order(args: dict[str, Any]) -> dict[str, Any]:
    return text(shop.lookup_order(**args))


@tool("track_parcel", "Find the place where a parcel is.", {"parcel_id": str})
async def track_parcel(args: dict[str, Any]) -> dict[str, Any]:
    return text(shop.track_parcel(**args))


@tool("refund_order", "Pay an order back.", {"order_id": str})
async def refund_order(args: dict[str, Any]) -> dict[str, Any]:
    return text(shop.refund_order(**args))


@tool("cancel_order", "Cancel an order.", {"order_id": str})
async def cancel_order(args: dict[str, Any]) -> dict[str, Any]:
    return text(shop.cancel_order(**args))


@tool("wait_for_courier", "Wait until the courier is here.", {})
async def wait_for_courier(args: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(shop.COURIER_SECONDS)
    return text("here")


tools = [lookup_order, track_parcel, refund_order, wait_for_courier, cancel_order]
options = ClaudeAgentOptions(
    tools=["Bash"],
    allowed_tools=["Bash", "mcp__shop"],
    mcp_servers={"shop": create_sdk_mcp_server("shop", tools=tools)},
    strict_mcp_config=True,
    setting_sources=[],
    cwd=home,
    env={
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server_port}",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": home,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
)
guarded = replace(options, allowed_tools=["Bash", "mcp__shop__lookup_order"])
expert = AgentDefinition(description="Knows where parcels are.", prompt="You know parcels.", background=False)
nested = replace(options, tools=["Bash", "Agent"], allowed_tools=["Agent", "mcp__shop"], agents={"expert": expert})
