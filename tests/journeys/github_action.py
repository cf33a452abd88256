"""Runs the steps of the GitHub Action as GitHub does, against a GitHub API on this machine.

Steps of other actions (checkout, cache, artifacts) are left out. The cache is the folder .seatrial, which stays.
"""

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))


class GitHub(ThreadingHTTPServer):
    """The comments of one pull request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.comments: list[dict[str, Any]] = [{"id": 1, "body": "Nice work!"}]
        self.writable = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: GitHub

    def _answer(self, code: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        assert self.path.startswith("/repos/me/shop/issues/7/comments?")
        self._answer(200, self.server.comments if self.path.endswith("page=1") else [])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.server.writable:
            return self._answer(403, {"message": "Resource not accessible by integration"})
        if self.command == "PATCH":
            place = int(self.path.removeprefix("/repos/me/shop/issues/comments/"))
            [comment] = [one for one in self.server.comments if one["id"] == place]
            comment |= body
        else:
            assert self.path == "/repos/me/shop/issues/7/comments"
            comment = {"id": len(self.server.comments) + 1, **body}
            self.server.comments.append(comment)
        return self._answer(200, {**comment, "html_url": f"https://github.com/me/shop/pull/7#{comment['id']}"})

    do_PATCH = do_POST

    def log_message(self, *_: Any) -> None: ...


class Job:
    """One job that uses the action in a folder."""

    def __init__(self, folder: Path, github: GitHub, *, event: str = "pull_request", **inputs: str) -> None:
        self._folder = folder
        self._inputs = {name: str(one["default"]) for name, one in ACTION["inputs"].items()}
        self._inputs |= {"github-token": "t", **{name.replace("_", "-"): value for name, value in inputs.items()}}
        self.temp = folder / "temp"
        self.temp.mkdir(exist_ok=True)
        pull_request = {"pull_request": {"number": 7}} if event == "pull_request" else {}
        repository = {"repository": {"default_branch": "main"}}
        (self.temp / "event.json").write_text(json.dumps({**pull_request, **repository}))
        self._environ = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            # Python takes old bytecode for a file that changed within the same second and kept its size.
            "PYTHONDONTWRITEBYTECODE": "1",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_API_URL": github.url,
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_OUTPUT": str(self.temp / "output"),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"),
            "GITHUB_REPOSITORY": "me/shop",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_RUN_ID": "42",
            "GITHUB_SHA": "0123456789abcdef",
            "GITHUB_REF_NAME": "7/merge" if event == "pull_request" else "main",
            "GITHUB_WORKSPACE": str(folder),
        }
        self.outputs: dict[str, str] = {}
        self.printed = ""

    def play(self) -> int:
        """Run every step but the installation. Returns the exit code of the first step that fails, or 0."""
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or step["name"] == "Install":
                continue
            (self.temp / "output").write_text("")
            environ = {**self._environ, **{name: self._filled(text) for name, text in step["env"].items()}}
            where = self._folder / self._filled(step.get("working-directory", "."))
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(command, cwd=where, env=environ, capture_output=True, text=True, check=False)
            self.printed += done.stdout + done.stderr
            written = (self.temp / "output").read_text().splitlines()
            self.outputs |= dict(line.split("=", 1) for line in written)
            if done.returncode:
                return done.returncode
        return 0

    def _filled(self, text: str) -> str:
        """The text with expressions of the forms that the action uses."""

        def value(match: re.Match[str]) -> str:
            kind, _, name = match[1].strip().partition(".")
            if kind == "inputs":
                return self._inputs[name]
            if kind == "steps":
                return self.outputs.get(name.removeprefix("run.outputs."), "")
            known = {"runner.temp": str(self.temp), "github.event.repository.default_branch": "main"}
            return known[match[1].strip()]

        return re.sub(r"\$\{\{(.*?)\}\}", value, text)
