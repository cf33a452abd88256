"""Plays the user, where a real model would: chat completions on loopback, with nothing but the standard library."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def play(messages):
    """What the user does next. Roles are swapped: what the agent says comes as `user`."""
    heard = messages[-1]["content"]
    if "reference BK-" in heard:
        return {"message": "Thank you, bye.", "goal_met": True, "stop": True}
    if "09:45" in heard:
        return {"message": "09:45, I have a meeting before.", "goal_met": False, "stop": False}
    return {"message": "I need a haircut on Tuesday morning.", "goal_met": False, "stop": False}


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": json.dumps(play(request["messages"]))}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        completion = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [choice],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        body = json.dumps(completion).encode()
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
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8124), Endpoint)
    print(f"listening at http://127.0.0.1:{server.server_port}/v1  (Ctrl-C to stop)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
