"""`seatrial init`: whatever it writes passes at once, with `seatrial run`, with pytest and in CI."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.journeys.github_action import ACTION, ROOT, GitHub, Job

from seatrial.cli.init import REPOSITORY

LOCAL = ["function", "command"]
SERVED = ["openai", "http"]
PASSED = "3/3 scenarios passed\nPASS\n"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        assert isinstance(port, int)
        return port


def on_a_free_port(folder: Any) -> None:
    """The port that `init` writes may be taken on the machine that runs the tests."""
    port = str(free_port())
    for file in folder.path.rglob("*"):
        if file.is_file() and file.suffix in (".py", ".yaml", ".yml"):
            file.write_text(file.read_text("utf-8").replace("8123", port), "utf-8")


@pytest.fixture
def served(folder: Any) -> Iterator[Any]:
    """Starts what `init` said is to be started in another terminal."""
    servers = []

    def start() -> None:
        on_a_free_port(folder)
        server = subprocess.Popen([sys.executable, "server.py"], cwd=folder.path, stdout=subprocess.PIPE, text=True)
        servers.append(server)
        assert server.stdout is not None
        assert server.stdout.readline().startswith("listening at http://127.0.0.1:")

    yield start
    for server in servers:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("kind", LOCAL)
def test_what_is_written_for_an_agent_passes_at_once(folder: Any, kind: str) -> None:
    assert folder.seatrial("init", "--agent", kind).code == 0

    assert PASSED in folder.process("run").out


@pytest.mark.parametrize("kind", SERVED)
def test_what_is_written_for_an_endpoint_passes_once_it_is_started(folder: Any, served: Any, kind: str) -> None:
    begun = folder.seatrial("init", "--agent", kind)
    served()

    assert "python server.py" in begun.out
    assert PASSED in folder.process("run").out


@pytest.mark.parametrize("kind", SERVED)
def test_an_endpoint_that_nobody_started_is_errored_and_named(folder: Any, kind: str) -> None:
    folder.seatrial("init", "--agent", kind)
    on_a_free_port(folder)

    ended = folder.process("run")

    assert ended.code == 1
    assert "cannot connect to http://127.0.0.1:" in ended.out
    assert "0/3 scenarios passed" in ended.out


@pytest.mark.parametrize("kind", [*LOCAL, *SERVED])
def test_pytest_runs_the_scenarios_and_the_tests_beside_them(folder: Any, kind: str) -> None:
    begun = folder.seatrial("init", "--agent", kind, "--pytest")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], capture_output=True, text=True, check=False
    )

    assert "python -m pytest" in begun.out
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


def commands_of(ci: str, folder: Path) -> list[str]:
    """The commands of the job, in their order."""
    if ci == "gitlab":
        job = yaml.safe_load((folder / ".gitlab-ci.yml").read_text("utf-8"))["agent-trials"]
        return list(job["script"])
    return [line for line in (folder / "ci/seatrial.sh").read_text("utf-8").splitlines() if line and line[0] != "#"][1:]


@pytest.mark.skipif(sys.platform == "win32", reason="the jobs are written for bash")
@pytest.mark.parametrize(
    ("kind", "with_pytest", "ci"),
    [
        ("function", False, "shell"),
        ("function", True, "gitlab"),
        ("openai", False, "gitlab"),
        ("openai", True, "shell"),
    ],
)
def test_the_job_for_ci_passes_and_writes_its_report(folder: Any, kind: str, with_pytest: bool, ci: str) -> None:
    folder.seatrial("init", "--agent", kind, "--ci", ci, *(["--pytest"] if with_pytest else []))
    on_a_free_port(folder)
    install, own, project, *commands = commands_of(ci, folder.path)
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": tools}

    with (folder.path / "out").open("w") as out:
        job = subprocess.Popen(
            ["bash", "-e", "-c", "\n".join(commands)], env=environ, stdout=out, stderr=out, start_new_session=True
        )
        code = job.wait(timeout=60)
    if kind == "openai" and not with_pytest:
        os.killpg(job.pid, signal.SIGKILL)  # the server that the job left running

    assert code == 0, (folder.path / "out").read_text()
    assert "seatrial[http]" in install if kind == "openai" else install.startswith("pip install seatrial")
    assert ("pytest" in install) is with_pytest
    assert "<testcase" in (folder.path / "trials.xml").read_text("utf-8")
    assert "pip install -r requirements.txt" in own
    assert "pip install . ||" in project
    assert folder.exists("trials.html")


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are written for bash")
@pytest.mark.parametrize(("kind", "with_pytest"), [("function", False), ("openai", False), ("openai", True)])
def test_the_workflow_for_github_passes_with_the_action(folder: Any, kind: str, with_pytest: bool) -> None:
    folder.seatrial("init", "--agent", kind, "--ci", "github", *(["--pytest"] if with_pytest else []))
    on_a_free_port(folder)
    workflow = yaml.safe_load((folder.path / ".github/workflows/agent.yml").read_text("utf-8"))
    _, *serving, action = workflow["jobs"]["trials"]["steps"]
    servers = [subprocess.Popen(["bash", "-e", "-c", step["run"]], start_new_session=True) for step in serving]
    for server in servers:
        server.wait(timeout=60)  # the step ends when the server listens, and leaves it running

    with GitHub() as github:
        job = Job(folder.path, github, event="push", **action["with"])
        code = job.play()
    for server in servers:
        os.killpg(server.pid, signal.SIGKILL)

    assert code == 0, job.printed
    assert len(serving) == (kind == "openai" and not with_pytest)
    assert set(action["with"]) <= set(ACTION["inputs"])
    assert ("[http]" in action["with"]["version"]) is (kind == "openai")
    assert "<testcase" in (Path(job.outputs["reports"]) / "junit.xml").read_text("utf-8")


@pytest.mark.parametrize("ci", ["github", "gitlab", "shell"])
def test_a_project_with_scenarios_gets_only_the_job(folder: Any, ci: str) -> None:
    folder.write("agent.py", "mine = 1")
    folder.write("scenarios/mine.yaml", "scenarios: [{name: a, input: x}]")

    ended = folder.seatrial("init", "--ci", ci)

    assert (ended.code, ended.out.count("wrote ")) == (0, 1)
    assert (folder.path / "agent.py").read_text() == "mine = 1"
    assert not folder.exists("scenarios/first.yaml")


def test_the_docs_name_the_repository_of_the_workflow() -> None:
    docs = (ROOT / "docs/ci.md").read_text("utf-8")

    assert f"uses: {REPOSITORY}@main" in docs
    assert f"repo: https://github.com/{REPOSITORY} " in docs


def test_nothing_is_written_where_one_file_is_there(folder: Any) -> None:
    folder.write(".gitlab-ci.yml", "mine: {}")

    ended = folder.seatrial("init", "--ci", "gitlab")

    assert ended.code == 2
    assert ".gitlab-ci.yml is there already. Nothing was written" in ended.err
    assert not folder.exists("agent.py")


def test_an_unknown_kind_of_agent_is_refused_with_those_there_are(folder: Any) -> None:
    ended = folder.seatrial("init", "--agent", "langraph")

    assert ended.code == 2
    assert "'function', 'openai', 'http', 'command'" in ended.err


def test_a_missing_extra_is_part_of_what_to_do_next(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import seatrial.cli.init as init_command

    monkeypatch.setattr(init_command, "find_spec", lambda name: None)

    assert "  pip install 'seatrial[http]' pytest\n" in folder.seatrial("init", "--agent", "http", "--pytest").out


@pytest.mark.parametrize(("kind", "place"), [("claude", ".claude"), ("codex", ".agents"), ("cursor", ".cursor")])
def test_a_skill_demands_that_a_new_scenario_is_seen_to_fail(folder: Any, kind: str, place: str) -> None:
    ended = folder.seatrial("init", "--skill", kind)
    skill = (folder.path / place / "skills/seatrial/SKILL.md").read_text("utf-8")

    assert ended.code == 0
    assert "seatrial mcp" in ended.out or "mcpServers" in ended.out
    assert yaml.safe_load(skill.split("---\n")[1])["name"] == "seatrial"
    assert "**See it fail once.**" in skill
    assert "seen to fail once" in (folder.path / "AGENTS.md").read_text("utf-8")
    assert not folder.exists("agent.py"), "the project has an agent"


def test_the_example_in_the_skill_is_valid(folder: Any) -> None:
    folder.seatrial("init", "--skill", "claude")
    skill = (folder.path / ".claude/skills/seatrial/SKILL.md").read_text("utf-8")
    folder.write("one.yaml", skill.split("```yaml\n")[1].split("```")[0])

    assert folder.seatrial("validate", "one.yaml").code == 0


def test_a_section_in_agents_md_is_replaced_and_the_rest_stays(folder: Any) -> None:
    folder.write("AGENTS.md", "# Mine\n\n<!-- seatrial: begin -->\nold\n<!-- seatrial: end -->\n\n## More\n")

    assert folder.seatrial("init", "--agents-md").code == 0
    assert folder.seatrial("init", "--agents-md").code == 0

    text = (folder.path / "AGENTS.md").read_text("utf-8")
    assert text.startswith("# Mine\n\n<!-- seatrial: begin -->\n## Testing the agent\n")
    assert text.endswith("<!-- seatrial: end -->\n\n## More\n")
    assert (text.count("seatrial: begin"), "old" in text) == (1, False)


def test_a_skill_and_an_example_are_not_mixed(folder: Any) -> None:
    ended = folder.seatrial("init", "--skill", "claude", "--pytest")

    assert (ended.code, folder.exists(".claude")) == (2, False)
    assert "Run init without --pytest" in ended.err
