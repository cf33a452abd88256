"""A help desk as a chat-completions endpoint: nothing but the standard library, and rules where yours has a model."""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TRIES = 3
SENT = "If there is an account with this address, we have sent it a link."


def complete(messages):
    """The assistant's next message: a tool call, or the reply to the user."""
    place = max(index for index, message in enumerate(messages) if message["role"] == "user")
    address = re.search(r"\S+@\S+\w", messages[place]["content"])
    if address is None:
        return say("Which address is your account registered with?")
    results = [message["content"] for message in messages[place:] if message["role"] == "tool"]
    if not results:
        return call("find_account", len(messages), email=address.group())
    account = json.loads(results[0])
    if account["id"] is None:
        return say(SENT)
    sent = results[1:]
    if any('"sent"' in result for result in sent):
        return say(SENT)
    if len(sent) == TRIES:
        return say("I am sorry, our mail does not work at the moment. A colleague will call you.")
    return call("send_reset_link", len(messages), account=account["id"])


def say(text):
    return {"role": "assistant", "content": text}


def call(name, number, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    made = {"id": f"call-{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


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
    print(f"listening at http://127.0.0.1:{server.server_port}/v1  (Ctrl-C to stop)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
