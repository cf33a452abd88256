"""A folder as a user has it, and `seatrial` run in it: in this process, or as one of its own.

`play` runs scenarios whose agent and judge say what a test writes down for each trial.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

import seatrial
from seatrial.cli import main
from seatrial.testing.model_server import ModelServer, ReceivedRequest


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str


class Folder:
    """A user's project."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys

    def write(self, name: str, text: str) -> Path:
        """Write a file; the text may be indented as the test is."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return file

    def seatrial(self, *args: str) -> Ended:
        """Run a command in this process, as the console script would."""
        self._capsys.readouterr()
        importlib.invalidate_caches()
        with pytest.raises(SystemExit) as ended:
            main(args)
        captured = self._capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, captured.out, captured.err)

    def process(self, *args: str) -> Ended:
        """Run a command in a process of its own."""
        with self.start(*args) as process:
            out, err = process.communicate(timeout=60)
        return Ended(process.returncode, out, err)

    def start(self, *args: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "seatrial", *args],
            cwd=self.path,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def play(self, way: str, *files: str) -> bool:
        """Whether the suite passes when it is played in this way (see `way`). `results` has what is stored of it."""
        if way == "command":
            return self.seatrial("run", *files).code == 0
        if way == "regrade":
            self.seatrial("run", *files)
            return self.seatrial("regrade", "latest").code == 0
        if way == "python":
            importlib.invalidate_caches()
            sys.path.insert(0, str(self.path))
            return seatrial.run(files).exit_code == 0
        return self._pytest(*files).returncode == 0

    def _pytest(self, *files: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
        ended = subprocess.run(argv, cwd=self.path, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode in (0, 1), ended.stdout + ended.stderr
        return ended

    def results(self) -> Any:
        """What is stored of the last run."""
        return json.loads(self.seatrial("show", "latest", "--json").out)

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Folder]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in os.environ if name.startswith("SEATRIAL_")]:
        monkeypatch.delenv(name)
    known = set(sys.modules)
    yield Folder(tmp_path, capsys)
    # Every test has an `agent` module of its own.
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


SCRIPTED_AGENT = """
    import json
    from pathlib import Path

    from seatrial import AgentResult, ToolCall, ToolError

    def answer(messages, ctx):
        script = json.loads(Path("script.json").read_text(encoding="utf-8"))
        said = script[messages[-1]["content"]]
        said = said[(int(ctx.trial_id.rpartition("-")[2]) - 1) % len(said)]
        if "raises" in said: raise RuntimeError(said["raises"])
        if "asks" not in said:
            return AgentResult(said["reply"], tool_calls=[ToolCall(*call) for call in said.get("calls", ())])
        for name, arguments in said["asks"]:
            try: ctx.call_tool(name, arguments)
            except ToolError: pass
        return said["reply"]
"""


def judgement(request: ReceivedRequest) -> str:
    """The judge says what stands behind `graded:` in the agent's replies, and gives the best grade for the rest."""
    instructions, transcript = request.messages[0][1], request.messages[1][1]
    schema = json.loads(instructions.rpartition("JSON Schema:\n")[2])
    lines = [json.loads(line) for line in transcript.splitlines() if line.startswith('{"turn"')]
    turns = [parse_qs(line["agent"].partition("graded:")[2]) for line in lines if "agent" in line]
    return json.dumps(_judged(schema, schema.get("$defs", {}), turns))


def _judged(schema: Any, defs: Any, turns: list[dict[str, list[str]]]) -> dict[str, Any]:
    last, asked = turns[-1], schema["properties"]
    if "passed" in asked:
        return {"passed": last.get("passed", ["1"]) == ["1"], "reasoning": "so it is"}
    answer: dict[str, Any] = {"summary": "s"}
    if "metrics" in asked:
        answer["metrics"] = {}
        for name, kind in defs["Metrics"]["properties"].items():
            kind = defs[kind["$ref"].rpartition("/")[2]]["properties"]
            per_turn = [_grade(turn.get(name, ["5"])[0], kind) for turn in turns]
            by_turn = {f"turn_{index}": grade for index, grade in enumerate(per_turn, 1)}
            answer["metrics"][name] = by_turn if "turn_1" in kind else per_turn[-1]
    if "outcomes" in asked and last.get("outcomes") != ["none"]:
        said = dict(zip(defs["Outcomes"]["properties"], last.get("outcomes", ["1" * 99])[0], strict=False))
        answer["outcomes"] = {one: {"passed": passed == "1", "justification": "j"} for one, passed in said.items()}
    if "failures" in asked:
        found = [(number, *one.split("|")) for number, turn in enumerate(turns, 1) for one in turn.get("failure", ())]
        answer["failures"] = [
            {"turn": number, "category": category, "label": label, "explanation": f"It is about {label}."}
            for number, category, label in found
        ]
    return answer


def _grade(value: str, kind: Any) -> dict[str, Any]:
    return {"reason": "r", **({"passed": value != "0"} if "passed" in kind else {"score": int(value)})}


@dataclass(frozen=True)
class Played:
    """How a run ended, and what is stored of it."""

    code: int
    out: str
    results: Any

    def scenario(self, name: str = "one") -> Any:
        return next(each for each in self.results["scenarios"] if each["name"] == name)

    def trial(self, name: str = "one", index: int = 0) -> Any:
        return self.scenario(name)["trials"][index]


@pytest.fixture
def play(folder: Folder) -> Iterator[Any]:
    """Run scenarios against a script: by what the user says, what the agent does in each trial.

    An entry is a reply, or a mapping: `reply`, `calls` (that it made), `asks` (calls through ctx), `raises`, and
    `graded`, which the judge takes over: metrics by name, `outcomes` as "10", `failure` as ["category|label"].
    """
    with ModelServer(judgement) as server:

        def run(scenarios: Any, script: dict[str, Any], *flags: str, **config: Any) -> Played:
            listed = [scenarios] if isinstance(scenarios, dict) else scenarios
            said = {user: [_entry(one) for one in _by_trial(entries)] for user, entries in script.items()}
            folder.write("agent.py", SCRIPTED_AGENT)
            folder.write("script.json", json.dumps(said))
            models = {"judge": f"openai:judge@{server.base_url}", **config.pop("models", {})}
            suite = {"name": "played", "agent": config.pop("agent", "agent:answer")}
            suite["config"] = {"models": models, **config}
            written = [{"name": "one", **scenario} for scenario in listed]
            folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": written}))
            ended = folder.seatrial("run", "suite.yaml", *flags)
            assert ended.code in (0, 1), ended.err
            return Played(ended.code, ended.out, folder.results())

        yield run


def _by_trial(entries: Any) -> list[Any]:
    return entries if isinstance(entries, list) else [entries]


def _entry(entry: Any) -> dict[str, Any]:
    made = {"reply": entry} if isinstance(entry, str) else {"reply": "Done.", **entry}
    if "graded" in made:
        made["reply"] += f" graded:{urlencode(made.pop('graded'), doseq=True)}"
    return made


@pytest.fixture(params=["command", "pytest", "python", "regrade"])
def way(request: pytest.FixtureRequest) -> str:
    """Each way to play a suite, for `Folder.play`: a rule about verdicts holds in all of them."""
    chosen: str = request.param
    return chosen
