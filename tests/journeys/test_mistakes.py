"""The likeliest mistakes of the first day, made on purpose: each is answered in one text that says what to do."""

import errno
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

LOOKED_FOR = "it is looked for in the current folder and on the Python path"
AGENTS = [
    ("agnet:answer", f"agent 'agnet:answer': there is no module 'agnet'; {LOOKED_FOR}. Did you mean 'agent'?"),
    ("agent:anwser", "agent 'agent:anwser': 'agent' has no attribute 'anwser'. Did you mean 'answer'?"),
    (
        "agent",
        "agent 'agent' is not of the form 'package.module:attribute'. "
        "Name what is in the module as well: 'agent:answer'",
    ),
    (
        "agent.answer",
        "agent 'agent.answer' is not of the form 'package.module:attribute'. Did you mean 'agent:answer'?",
    ),
    (
        "./agent.py",
        "agent './agent.py' is not of the form 'package.module:attribute'. "
        "Name what is in the file as well: 'agent:answer'",
    ),
    ("openai", "agent 'openai' is a type, and needs its settings: {type: openai, base_url: …}"),
    (
        "http://127.0.0.1:8000/v1",
        "agent 'http://127.0.0.1:8000/v1' is not of the form 'package.module:attribute'. "
        "An address stands in settings: {type: openai, base_url: …}, or {type: http, url: …}",
    ),
    (
        "./agent.py:answer",
        "agent './agent.py:answer' is not of the form 'package.module:attribute'. Did you mean 'agent:answer'?",
    ),
]
FILES = [
    (
        "  - {name: a, input: x, expected_tool: [lookup_order]}",
        "mine.yaml:3:25: scenarios[0].expected_tool: unknown key 'expected_tool'. Did you mean 'expected_tools'?",
    ),
    (
        "\t- name: a",
        "mine.yaml:3:1: not YAML: found character that cannot start any token. Indent with spaces, not tabs",
    ),
    (
        "  - name: a\n    input: Note: this fails",
        "mine.yaml:4:16: not YAML: mapping values are not allowed in this context. "
        'A text that has ": " in it needs quotes around it; a line that is indented too far looks the same',
    ),
    (
        "  - {name: a, input: x, expected_outcomes: [It is true.]}",
        "mine.yaml:3: scenario 'a' needs a model for the judge. Give --judge-model openai:gpt-5-mini, "
        "or set judge_model in [tool.seatrial], or models: {judge: …} in the file.",
    ),
]


@pytest.fixture
def project(folder: Any) -> Any:
    folder.seatrial("init")
    return folder


def refused(folder: Any, *args: str) -> str:
    """What a command says that must fail as a mistake in files or flags."""
    ended = folder.seatrial(*args)
    assert (ended.code, ended.out) == (2, ""), ended.out + ended.err
    return str(ended.err).removeprefix("error: ").rstrip("\n")


@pytest.mark.parametrize(("agent", "said"), AGENTS)
def test_an_agent_that_is_not_there(project: Any, agent: str, said: str) -> None:
    assert refused(project, "run", "--agent", agent) == said


@pytest.mark.parametrize(("scenario", "said"), FILES)
def test_a_slip_in_a_scenario_file(project: Any, scenario: str, said: str) -> None:
    (project.path / "mine.yaml").write_text(f"suite: {{agent: 'agent:answer'}}\nscenarios:\n{scenario}\n")

    assert refused(project, "run", "mine.yaml") == said


def test_the_wrong_folder(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.path / "docs").mkdir()
    monkeypatch.chdir(project.path / "docs")

    assert refused(project, "run") == (
        ".: no scenario file in this folder: *.yaml, *.yml, *.jsonl, *.json of scenarios and *_trials.py. "
        "There is a folder of scenarios in ..; go there first: cd .."
    )


@pytest.mark.parametrize(("given", "meant"), [("docs", "scenarios"), ("docs/more", "scenarios")])
def test_another_folder_of_the_project(project: Any, given: str, meant: str) -> None:
    (project.path / given).mkdir(parents=True)

    assert refused(project, "validate", given).endswith(f"and *_trials.py. Did you mean {meant!r}?")


def test_another_folder_of_the_project_named_from_within_it(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.path / "docs/more").mkdir(parents=True)
    monkeypatch.chdir(project.path / "docs")
    above = os.path.join("..", "scenarios")

    assert refused(project, "validate", "more").endswith(f"Did you mean {above!r}?")


def test_the_right_scenarios_from_the_wrong_folder(project: Any) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "seatrial", "run", "first.yaml"],
        cwd=project.path / "scenarios",
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert ended.stderr == (
        f"error: first.yaml: agent 'agent:answer': there is no module 'agent'; {LOOKED_FOR}. "
        "There is one in ..; go there first: cd ..\n"
    )


def test_a_path_with_a_slip(project: Any) -> None:
    said = "scenario: there is no such file, folder or module. Did you mean 'scenarios'?"

    assert refused(project, "run", "scenario") == said


def test_a_model_without_its_key(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    project.write("mine.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x, metrics: [default]}]")

    assert refused(project, "run", "mine.yaml", "--judge-model", "openai:gpt-5-mini") == (
        "model 'openai:gpt-5-mini': no API key, the environment variable OPENAI_API_KEY is not set. "
        "Set it: export OPENAI_API_KEY=…"
    )


def test_a_missing_extra(project: Any) -> None:
    work = "import sys; sys.modules['httpx2'] = None; from seatrial.cli import main; main(sys.argv[1:])"
    spec = "{type: openai, base_url: 'http://127.0.0.1:9/v1'}"

    done = subprocess.run(
        [sys.executable, "-c", work, "run", "--agent", spec], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stderr == (
        "error: an agent of type 'openai' needs an optional package. Install it: pip install 'seatrial[http]'\n"
    )


def test_similarity_without_its_extra_is_found_before_the_agent_is_asked(project: Any) -> None:
    work = "import sys; sys.modules['tokenizers'] = None; from seatrial.cli import main; main(sys.argv[1:])"
    project.write("asked.py", "def answer(input): open('asked', 'w'); return input")
    project.write("mine.yaml", "scenarios: [{name: a, input: x, scorers: [similarity], expected_output: y}]")
    args = [sys.executable, "-c", work, "run", "mine.yaml", "--agent", "asked:answer"]

    done = subprocess.run(args, capture_output=True, text=True, check=False)

    assert (done.returncode, project.exists("asked")) == (2, False)
    assert done.stderr.endswith("Install it: pip install 'seatrial[similarity]'\n")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            "input: x, mocks: {t: {python: 'agent:nope'}}",
            "mine.yaml:2: mocks.t: mock 'agent:nope': 'agent' has no attr",
        ),
        ("input: x, setup: 'agent:nope'", "mine.yaml:2: setup 'agent:nope': 'agent' has no attribute 'nope'"),
        ("user: 'agent:nope', expected_output: x", "mine.yaml:2: user 'agent:nope': 'agent' has no attribute 'nope'"),
    ],
)
def test_a_function_that_is_not_there_is_named_with_its_place(project: Any, keys: str, said: str) -> None:
    project.write("mine.yaml", f"scenarios:\n  - {{name: a, {keys}}}")

    assert refused(project, "run", "mine.yaml", "--agent", "agent:answer").startswith(said)


def test_an_endpoint_that_is_not_running(project: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        ended = project.seatrial("run", "--scenario", "policy", "--agent", f"{{type: openai, base_url: '{address}'}}")

    assert ended.code == 1
    assert ended.out.startswith(
        f"✗ explains the return policy  ERROR infra: cannot connect to {address}/chat/completions: Connection refused\n"
        "    in turn 1\n    is the agent running at this address?\n"
    ), ended.out


def test_an_expectation_of_tools_that_nobody_recorded(project: Any) -> None:
    project.write("plain.py", "def answer(input): return 'It was shipped.'")

    ended = project.seatrial("run", "--scenario", "looks up", "--agent", "plain:answer")

    assert ended.code == 1
    assert ended.out.startswith(
        "✗ looks up the order  ERROR config: expected_tools: the agent's tool calls were not recorded\n"
        "    Record them: return AgentResult(output, tool_calls=[...]) from the agent, "
        "where [] says that it called none; or call all its tools through ctx.call_tool or @seatrial.tool, "
        "and say so in its settings: {type: python, target: ..., tools: all_wrapped}.\n"
    ), ended.out


def test_a_tag_that_nothing_has(project: Any) -> None:
    ended = project.seatrial("run", "--tag", "tool")

    assert ended.code == 1, "nothing was run, and that is no pass"
    assert ended.err == "error: no scenario fits --tag 'tool'; nothing was run. The tags are: policy, tools\n"


def test_a_port_that_is_in_use(project: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        said = refused(project, "serve", "--port", port)

    assert said == f"127.0.0.1:{port}: cannot listen there: {os.strerror(errno.EADDRINUSE)}. Try --port 0."


def test_a_store_that_is_somewhere_else(project: Any) -> None:
    assert refused(project, "show", "--store", "old/runs.db") == (
        "old/runs.db: no run is stored there yet. Run something first: seatrial run"
    )


def test_pytest_without_an_agent(project: Any) -> None:
    project.write("test_it.py", "def test_it(seatrial):\n    assert seatrial.run('hello').passed\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert (
        """
test_it.py::test_it: no agent to run. Supply one in any of these ways:
    a fixture in conftest.py:
        @pytest.fixture
        def seatrial_agent():
            return my_agent
    agent: package.module:attribute   in the suite of the scenario file
    agent = "package.module:attribute"   in [tool.seatrial] of pyproject.toml
    --seatrial-agent package.module:attribute   on the command line
"""
        in done.stdout
    )


def test_a_command_with_a_slip(project: Any) -> None:
    assert refused(project, "rnu") == "no such command 'rnu'. Did you mean 'run'? See: seatrial --help"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("run", "--drop", "5"),
            "run: no such option '--drop'. It is an option of `seatrial plan`. See: seatrial run --help",
        ),
        (("run", "--trails", "5"), "run: no such option '--trails'. Did you mean '--trials'? See: seatrial run --help"),
        (
            ("run", "--seed", "x"),
            "run: invalid value for '--seed': 'x' is not a valid integer. See: seatrial run --help",
        ),
        (("import",), "import: missing argument 'FILES...'. See: seatrial import --help"),
        (
            ("init", "--ci"),
            "init: option '--ci' requires an argument. Give one of: github, gitlab, shell. See: seatrial init --help",
        ),
        (("baseline", "set", "--no"), "baseline set: no such option '--no'. See: seatrial baseline set --help"),
    ],
)
def test_flags_that_a_command_does_not_take(folder: Any, args: tuple[str, ...], said: str) -> None:
    assert refused(folder, *args) == f"seatrial {said}"


def test_no_command_at_all_shows_those_there_are(folder: Any) -> None:
    ended = folder.seatrial()

    assert ended.code == 2
    assert "Run scenarios against an agent." in ended.err


def test_a_run_that_is_not_stored(project: Any) -> None:
    project.seatrial("run")

    assert refused(project, "show", "20250101-000000-aaaaaa") == (
        ".seatrial/runs.db: no run has the id or name '20250101-000000-aaaaaa'. See: seatrial list runs"
    )


def test_a_report_says_where_it_was_written(project: Any) -> None:
    ended = project.seatrial("run", "--report", "html", "--report", "json=found.json")

    assert ended.err.endswith("wrote .seatrial/report.html\nwrote found.json\n")
