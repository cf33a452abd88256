"""The booking agent as a chat-completions endpoint: the same rules, behind HTTP, with nothing but the standard library.

    python examples/booking/server.py 8123
    seatrial run examples/booking/scenarios.yaml --agent '{type: openai, base_url: "http://127.0.0.1:8123/v1"}'

It asks for tools as a model would, and Seatrial answers the calls from the scenarios' mocks.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.booking.agent_v1 import find_reference, find_time


def complete(messages):
    """The assistant's next message: a tool call, or the reply to the user."""
    place = max(index for index, message in enumerate(messages) if message["role"] == "user")
    text = messages[place]["content"].lower()
    results = [json.loads(message["content"]) for message in messages[place:] if message["role"] == "tool"]
    time = find_time(text)
    said = [message for message in messages[:place] if message.get("content")]
    earlier = find_reference(said)
    if "cancel" in text:
        return say(f"Your booking {earlier} is cancelled.") if results else call("cancel_booking", reference=earlier)
    if time is None:
        return say("At what time would you like to come?")
    if not results:
        return call("check_availability")
    if time not in results[0]["free"]:
        return say(f"I am sorry, {time} is not free.")
    if len(results) == 1:
        return call("change_booking", reference=earlier, time=time) if earlier else call("create_booking", time=time)
    if earlier:
        return say(f"Your table is booked for {results[1]['time']} now. Your reference is still {earlier}.")
    return say(f"Your table is booked for {time}. Your reference is {results[1]['reference']}.")


def say(text):
    return {"role": "assistant", "content": text}


def call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps({"choices": [{"message": complete(request["messages"])}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Not a line for every request."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # many trials may knock at once


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8123), Endpoint)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()
