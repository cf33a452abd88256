"""Servers with the APIs of model providers, whose model works in the shop of `seatrial.testing.shop`.

Requests are checked against, and responses are made with, the types of the providers' own packages where they exist.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from anthropic.types import Message, message_create_params
from openai.types.responses import Response, response_create_params
from pydantic import TypeAdapter

from seatrial.testing import shop

ANTHROPIC = TypeAdapter(message_create_params.MessageCreateParams)
RESPONSES = TypeAdapter(response_create_params.ResponseCreateParams)


def answer_messages(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Anthropic's Messages API: the response, and the events that stream it."""
    ANTHROPIC.validate_python(body)
    said = []
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else [message["content"]]
        for block in blocks:
            role = "tool" if block["type"] == "tool_result" else message["role"]
            said.append({"role": role, "content": str(block.get("text") or block.get("content") or "")})
    step = shop.next_steps(said)
    blocks = (
        [{"type": "text", "text": step}]
        if isinstance(step, str)
        else [
            {"type": "tool_use", "id": f"toolu_{len(said)}_{place}", "name": call.name, "input": call.arguments}
            for place, call in enumerate(step)
        ]
    )
    whole = Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": blocks,
            "stop_reason": "end_turn" if isinstance(step, str) else "tool_use",
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 1, "output_tokens": 5},
        }
    ).model_dump(mode="json")
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for index, block in enumerate(blocks):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        piece, kind = (
            (block["text"], "text") if block["type"] == "text" else (json.dumps(block["input"]), "partial_json")
        )
        name = "text_delta" if kind == "text" else "input_json_delta"
        for part in (piece[: len(piece) // 2], piece[len(piece) // 2 :]):
            events.append({"type": "content_block_delta", "index": index, "delta": {"type": name, kind: part}})
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [{"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
    return whole, events


def answer_responses(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """OpenAI's Responses API."""
    RESPONSES.validate_python(body)
    said = []
    for item in body["input"]:
        if item.get("type") == "function_call_output":
            said.append({"role": "tool", "content": item["output"]})
        elif "role" in item:
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            said.append({"role": item["role"], "content": text})
    step = shop.next_steps(said)
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    if isinstance(step, str):
        part = {"type": "output_text", "text": step, "annotations": []}
        output.append({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]})
    else:
        output += [
            {
                "type": "function_call",
                "call_id": f"call_{len(said)}_{place}",
                "name": call.name,
                "arguments": json.dumps(call.arguments),
            }
            for place, call in enumerate(step)
        ]
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 15,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    whole = Response.model_validate(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": body["model"],
            "output": output,
            "status": "completed",
            "tool_choice": "auto",
            "tools": [],
            "parallel_tool_calls": True,
            "usage": usage,
        }
    ).model_dump(mode="json", exclude_none=True)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}}
    ]
    for place, item in enumerate(whole["output"]):
        if item["type"] == "message":
            words = item["content"][0]["text"]
            events += [{"type": "response.output_text.delta", "delta": part} for part in (words[:3], words[3:])]
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return whole, events


def answer_converse(body: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Bedrock's Converse API, which AWS does not publish as Python types."""
    said = []
    for message in body["messages"]:
        for block in message["content"]:
            result = block.get("toolResult")
            content = next(iter(result["content"][0].values())) if result else block.get("text", "")
            said.append({"role": "tool" if result else message["role"], "content": str(content)})
    step = shop.next_steps(said)
    blocks = (
        [{"text": step}]
        if isinstance(step, str)
        else [
            {"toolUse": {"toolUseId": f"t_{len(said)}_{place}", "name": call.name, "input": call.arguments}}
            for place, call in enumerate(step)
        ]
    )
    whole = {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": "end_turn" if isinstance(step, str) else "tool_use",
        "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
    }
    return whole, []


Answer = Callable[[Mapping[str, Any]], Any]


class Api:
    """A running server, and the requests that it got."""

    def __init__(self) -> None:
        self.url = ""
        self.paths: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.bodies: list[dict[str, Any]] = []


@contextmanager
def serve(answer: Answer) -> Iterator[Api]:
    """Serve an API. An answer is a JSON value, a pair of it and the events that stream it, or the bytes of a stream."""
    api = Api()

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
            api.paths.append(self.path)
            api.headers.append({name.lower(): value for name, value in self.headers.items()})
            api.bodies.append(body)
            found = answer(body)
            whole, events = found if isinstance(found, tuple) else (found, [])
            streams = isinstance(whole, bytes) or (body.get("stream") and events)
            content = whole if isinstance(whole, bytes) else json.dumps(whole).encode()
            if streams and not isinstance(whole, bytes):
                content = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if streams else "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            with suppress(ConnectionError):  # the client may have given up
                self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
