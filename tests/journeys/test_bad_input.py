"""Mistakes that users make: each gets one clear line and the right exit code, never a traceback."""

import json
import sys
from typing import Any

import pytest

SUITE = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios:
      - name: returns
        input: How long can I take to return something?
        expected_output: 30 days
"""


def refused(folder: Any, *args: str) -> str:
    """What a command says that must fail as a mistake in files or flags."""
    ended = folder.seatrial(*args)
    assert ended.code == 2, ended.out + ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert ended.err.startswith("error: ")
    return str(ended.err).removeprefix("error: ").rstrip("\n")


def test_a_missing_file_is_named(folder: Any) -> None:
    assert (
        refused(folder, "run", "nope.yaml")
        == "nope.yaml: there is no such file, folder or module. See what is there: seatrial list"
    )


def test_a_folder_without_scenarios_says_what_is_looked_for(folder: Any) -> None:
    (folder.path / "empty").mkdir()

    said = refused(folder, "run", "empty")

    looked_for = "*.yaml, *.yml, *.jsonl, *.json of scenarios and *_trials.py"
    assert said == f"empty: no scenario file in this folder: {looked_for}. Make a first one: seatrial init"


def test_a_file_of_another_kind_is_refused(folder: Any) -> None:
    folder.write("notes.txt", "hello")

    assert refused(folder, "run", "notes.txt").startswith("notes.txt: expected a folder or a file of .yaml")


def test_a_suite_without_an_agent_says_where_to_name_one(folder: Any) -> None:
    folder.write("suite.yaml", "scenarios: [{name: a, input: hi}]")

    said = refused(folder, "run", "suite.yaml")

    assert said.startswith("suite.yaml: no agent to run. Add `agent: package.module:function` to the suite, or give")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("nowhere:answer", "agent 'nowhere:answer': there is no module 'nowhere'; it is looked for in the current"),
        ("agent:anwser", "agent 'agent:anwser': 'agent' has no attribute 'anwser'. Did you mean 'answer'?"),
        ("agent", "agent 'agent' is not of the form 'package.module:attribute'"),
        (
            "needy:answer",
            "agent 'needy:answer': importing 'needy' failed at needy.py:1, because it needs the module 'not_ins",
        ),
        ("quits:answer", "SystemExit: 0"),
    ],
)
def test_an_agent_that_cannot_be_imported_names_the_module_and_the_cause(folder: Any, agent: str, said: str) -> None:
    folder.write("agent.py", "def answer(input): return 'ok'")
    folder.write("needy.py", "import not_installed")
    folder.write("quits.py", "import sys\nsys.exit(0)")
    folder.write("suite.yaml", SUITE)

    assert said in refused(folder, "run", "suite.yaml", "--agent", agent)


def test_an_agent_with_a_mistake_in_its_module_shows_the_line(folder: Any) -> None:
    folder.write("agent.py", "import json\n\nTABLE = json.loads('{')\n")
    folder.write("suite.yaml", SUITE)

    said = refused(folder, "run", "suite.yaml")

    assert said.startswith("suite.yaml: agent 'agent:answer': importing 'agent' failed at ")
    assert "agent.py:3: JSONDecodeError: " in said


def test_an_agent_with_a_syntax_error_shows_file_and_line(folder: Any) -> None:
    folder.write("agent.py", "def answer(input):\n    return 'ok\n")
    folder.write("suite.yaml", SUITE)

    said = refused(folder, "run", "suite.yaml")

    assert "SyntaxError" in said
    assert "agent.py, line 2" in said


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("raise ValueError('the database is down')", "✗ returns  ERROR agent: ValueError: the database is down"),
        ("import sys; sys.exit(0)", "✗ returns  ERROR agent: the agent called sys.exit(0)"),
        ("return None", "    empty reply"),
        ("return 5", "✗ returns  ERROR agent: the agent returned 5 (int); return a str, an AgentResult"),
        ("return {'answer': 'x'}", "✗ returns  ERROR agent: the agent returned a dict with the keys ['answer']"),
        (
            "return {'output': 'x', 'tool_calls': [], 'token_usage': None}",
            "✗ returns  ERROR agent: the agent returned a result with token_usage, which is not one of Seatrial's; "
            "return seatrial.AgentResult(output, tool_calls=[...], usage=..., cost_usd=...)",
        ),
        ("import time; time.sleep(60)", "✗ returns  ERROR limit: "),
    ],
)
def test_an_agent_that_misbehaves_gets_a_clear_line(folder: Any, body: str, line: str) -> None:
    folder.write("agent.py", f"def answer(input): {body}")
    folder.write("suite.yaml", SUITE)

    ended = folder.process("run", "suite.yaml", "--set", "timeout_seconds=0.2")

    assert ended.code == 1
    assert any(said.startswith(line) for said in ended.out.splitlines()), ended.out
    assert "Traceback" not in ended.out + ended.err
    assert "seatrial show " in ended.out, "the command to look closer"


def test_an_async_agent_that_blocks_its_loop_still_ends(folder: Any) -> None:
    folder.write("agent.py", "import time\nasync def answer(input): time.sleep(60)")
    folder.write("suite.yaml", SUITE)

    ended = folder.process("run", "suite.yaml", "--set", "timeout_seconds=0.2")

    assert ended.code == 1
    assert "✗ returns  ERROR limit: " in ended.out


def test_what_an_agent_prints_does_not_reach_the_report_for_programs(folder: Any) -> None:
    folder.write("agent.py", "def answer(input):\n    print('chatter')\n    return 'Within 30 days.'")
    folder.write("suite.yaml", SUITE)

    ended = folder.process("run", "suite.yaml", "--report", "json=out.json")

    assert ended.code == 0
    assert json.loads((folder.path / "out.json").read_text("utf-8"))["passed"] is True


def test_text_of_an_agent_comes_out_as_text(folder: Any) -> None:
    folder.write("agent.py", r"def answer(input): return '[/red] \x1b[2J\r \ud800 ::error::owned'")
    folder.write("suite.yaml", SUITE)

    ended = folder.process("run", "suite.yaml", "--verbose")

    assert ended.code == 1
    assert r"agent: [/red] \x1b[2J\x0d \ud800 ::error::owned" in ended.out
    assert "\x1b" not in ended.out


def test_a_function_of_one_text_is_refused_for_several_turns(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'ok'")
    folder.write("suite.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, turns: [{user: x}, {user: y}]}]")

    said = refused(folder, "run", "suite.yaml")

    assert "suite.yaml:2: scenario 'a' has more than one message, but the agent 'agent:answer' takes only the" in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--trials", "many"], "--trials 'many': expected a number or auto"),
        (["--trials", "0"], "trials"),
        (["--shard", "3/2"], "--shard '3/2': expected i/n with i from 1 to n, such as 2/5"),
        (["--set", "limits"], "--set 'limits': expected path=value, such as limits.latency_ms=500"),
        (["--set", "tirals=3"], "Did you mean 'trials'?"),
        (["--report", "htlm"], "--report: unknown report 'htlm'. Did you mean 'html'?"),
        (["--resume", "nothing"], "no run is stored there yet"),
        (["--env-file", "missing.env"], "--env-file missing.env: No such file or directory"),
        (["--store", "mysql://x"], "store 'mysql://x': unknown kind. Use a path, sqlite:///path or postgresql://"),
    ],
)
def test_a_flag_that_makes_no_sense_says_what_would(folder: Any, flags: list[str], said: str) -> None:
    folder.write("agent.py", "def answer(input): return 'ok'")
    folder.write("suite.yaml", SUITE)

    assert said in refused(folder, "run", "suite.yaml", *flags)


def test_an_env_file_in_another_encoding_is_refused_without_a_traceback(folder: Any) -> None:
    (folder.path / "latin.env").write_bytes("GREETING=grüezi\n".encode("latin-1"))
    folder.write("suite.yaml", SUITE)

    said = refused(folder, "run", "suite.yaml", "--env-file", "latin.env")

    assert said == "--env-file latin.env: is not UTF-8 (byte 11). Save it as UTF-8."


def test_an_unknown_command_names_the_closest(folder: Any) -> None:
    assert refused(folder, "rnu") == "no such command 'rnu'. Did you mean 'run'? See: seatrial --help"


def test_an_unknown_flag_names_the_closest(folder: Any) -> None:
    ended = folder.seatrial("run", "--trails", "3")

    assert ended.code == 2
    assert "--trials" in ended.err


def test_a_mistake_in_the_project_file_is_placed(folder: Any) -> None:
    folder.write("pyproject.toml", '[tool.seatrial]\nstroe = "runs.db"\n')
    folder.write("suite.yaml", SUITE)

    said = refused(folder, "run", "suite.yaml")

    assert "pyproject.toml: [tool.seatrial] unknown key 'stroe'. Did you mean 'store'?" in said


def test_a_suite_report_of_unknown_kind_is_refused_before_the_run(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): open('called', 'w'); return 'ok'")
    folder.write("suite.yaml", "suite: {agent: 'agent:answer', reports: [pdf]}\nscenarios: [{name: a, input: x}]")

    folder.write("more.yaml", "suite: {agent: 'agent:answer', reports: [htm]}\nscenarios: [{name: b, input: x}]")

    for command in ("run", "validate"):
        assert refused(folder, command, "suite.yaml").startswith("suite.yaml: suite.reports: unknown report 'pdf'.")
    assert "more.yaml: suite.reports: unknown report 'htm'" in refused(folder, "validate", "suite.yaml", "more.yaml")
    assert not folder.exists("called")


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of open files here")
def test_too_many_open_files_are_an_error_that_says_what_to_do(folder: Any) -> None:
    folder.write(
        "agent.py",
        """
        import resource
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        held = []

        def greedy(input):
            resource.setrlimit(resource.RLIMIT_NOFILE, (32, most))
            try:
                while True: held.append(open("/dev/null"))
            except OSError: return "full"
        """,
    )
    folder.write("suite.yaml", "suite: {agent: 'agent:greedy'}\nscenarios: [{name: a, input: x}]\n")

    ended = folder.process("run", "suite.yaml")

    assert ended.code == 1
    assert "error: too many files are open" in ended.err
    assert "Lower --concurrency, or raise the limit: ulimit -n 8192" in ended.err
    assert "Traceback" not in ended.err
