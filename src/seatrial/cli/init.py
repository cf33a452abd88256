"""`seatrial init`: a small project for each kind of agent."""

import re
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent
from typing import Final

import click
from click.core import ParameterSource

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

from .output import write_file

TEMPLATES: Final = Path(__file__).parent / "templates"
SUITE: Final = "scenarios/first.yaml"
SUITE_FOR_PYTEST: Final = "scenarios/first.trial.yaml"
REPOSITORY: Final = "seatrial/seatrial"
"""Owner and name of Seatrial's repository on GitHub. The workflow of `--ci github` uses the action in it."""
_CI: Final = {"github": ".github/workflows/agent.yml", "gitlab": ".gitlab-ci.yml", "shell": "ci/seatrial.sh"}
_OWN_REQUIREMENTS: Final = (
    "if [ -f requirements.txt ]; then pip install -r requirements.txt; fi",
    # A project of uv may have several folders and no build system, so that it is no package.
    "if grep -qs '^.project]' pyproject.toml; then pip install . || python -c \"import tomllib; "
    "print(*tomllib.load(open('pyproject.toml', 'rb'))['project'].get('dependencies', []), sep='\\n')\" "
    "| pip install -r /dev/stdin; fi",
)
"""Without them an agent that imports a package fails."""
_SKILLS: Final = {
    "claude": ".claude/skills/seatrial/SKILL.md",
    "codex": ".agents/skills/seatrial/SKILL.md",
    "cursor": ".cursor/skills/seatrial/SKILL.md",
}
_REGISTER: Final = {
    "claude": "claude mcp add seatrial -- seatrial mcp",
    "codex": "codex mcp add seatrial -- seatrial mcp",
    "cursor": """put {"mcpServers": {"seatrial": {"command": "seatrial", "args": ["mcp"]}}} into .cursor/mcp.json""",
}
_SECTION: Final = re.compile(r"<!-- seatrial: begin -->.*?<!-- seatrial: end -->\n?", re.DOTALL)
_SERVE: Final = "python server.py > server.log & until grep -q listening server.log; do sleep 0.1; done"
_SERVE_STEP: Final = f"      - run: {_SERVE}\n"


class Starter(Struct, frozen=True, kw_only=True):
    """The example for one kind of agent."""

    agent: str
    """The value of `seatrial_agent` in Python."""
    files: tuple[str, ...] = ("agent.py",)
    """The files beside the suite. The first contains the agent."""
    extra: str | None = None
    """The extra of Seatrial that it needs."""
    modules: tuple[str, ...] = ()
    """Modules of the extra. If one is missing, `init` says what to install."""
    suite: str | None = None
    """The kind whose suite file it uses. Default: its own."""
    served: bool = False
    """A server must be started first."""


_CHAT = '{"type": "openai", "base_url": f"{address}/v1"}'
_JSON = """{
        "type": "http",
        "url": f"{address}/chat",
        "body": {"history": "{{messages}}"},
        "output": "answer",
        "tool_calls": "steps[].{name: tool, arguments: input, result: output}",
    }"""
_HTTP = ("httpx2", "jmespath")


def _made_with(framework: str, module: str) -> Starter:
    spec = f'{{"type": "{framework}", "target": "agent:agent"}}'
    return Starter(agent=spec, extra=framework.replace("_", "-"), modules=(module,), suite="framework")


STARTERS: Final[Mapping[str, Starter]] = {
    "function": Starter(agent='"agent:answer"'),
    "openai": Starter(agent=_CHAT, files=("server.py",), extra="http", modules=_HTTP, served=True),
    "http": Starter(agent=_JSON, files=("server.py",), extra="http", modules=_HTTP, served=True),
    "command": Starter(agent='{"type": "command", "argv": ["@python@", "agent.py"]}'),
    "langchain": _made_with("langchain", "langchain"),
    "langgraph": _made_with("langgraph", "langgraph"),
    "openai_agents": _made_with("openai_agents", "agents"),
    "pydantic_ai": _made_with("pydantic_ai", "pydantic_ai"),
    "smolagents": _made_with("smolagents", "smolagents"),
    "crewai": _made_with("crewai", "crewai"),
    "google_adk": _made_with("google_adk", "google.adk"),
    "llama_index": _made_with("llama_index", "llama_index.core"),
    "strands": _made_with("strands", "strands"),
    "agent_framework": _made_with("agent_framework", "agent_framework"),
}


def compose(kind: str, *, pytest: bool, ci: str | None) -> dict[str, str]:
    """Path -> text of every file of the project."""
    starter = STARTERS[kind]
    sources = {file: f"{kind}/{file}" for file in starter.files}
    sources[SUITE_FOR_PYTEST if pytest else SUITE] = f"{starter.suite or kind}/{SUITE}"
    if pytest:
        sources["conftest.py"] = f"pytest/conftest{'_server' if starter.served else ''}.py"
        sources["tests/test_agent.py"] = "pytest/tests/test_agent.py"
    if ci is not None:
        sources[_CI[ci]] = f"ci/{ci}"
    words = {
        "@action@": f"{REPOSITORY}@main",
        "@agent@": starter.agent,
        "@type@": kind,
        "@install@": " ".join([requirement(starter), *(["pytest"] if pytest else [])]),
        "@requirement@": requirement(starter).strip("'"),
        "@requirements@": ("\n    - " if ci == "gitlab" else "\n").join(_OWN_REQUIREMENTS),
        "@runner@": "pytest" if pytest else "seatrial",
        "@serve@": _SERVE_STEP if starter.served and not pytest else "",
        "@run@": indent("\n".join(_ci_commands(starter, pytest)), " " * 6 if ci == "gitlab" else ""),
        "@python@": "python" if sys.platform == "win32" else "python3",
    }
    return {path: _fill(_read(source), words) for path, source in sources.items()}


def requirement(starter: Starter) -> str:
    """The argument of `pip install`."""
    return "seatrial" if starter.extra is None else f"'seatrial[{starter.extra}]'"


def _ci_commands(starter: Starter, pytest: bool) -> list[str]:
    if pytest:
        return [
            "python -m pytest --seatrial-against baseline --junit-xml trials.xml --seatrial-report html=trials.html"
        ]
    run = "seatrial run --against baseline --report junit=trials.xml --report html=trials.html"
    return [*([_SERVE] if starter.served else []), run]


def _read(source: str) -> str:
    return (TEMPLATES / f"{source}.template").read_text(encoding="utf-8")


def _fill(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".")
@click.option(
    "--agent",
    "kind",
    type=click.Choice(list(STARTERS)),
    default="function",
    show_default=True,
    help="Kind of your agent. A small agent of that kind is written.",
)
@click.option("--pytest", "with_pytest", is_flag=True, help="Write a pytest project: pytest runs the scenarios too.")
@click.option("--ci", type=click.Choice(list(_CI)), help="Also write a CI job that runs the scenarios.")
@click.option("--skill", type=click.Choice(list(_SKILLS)), help="Write a skill for a coding agent, and AGENTS.md.")
@click.option("--agents-md", is_flag=True, help="Write a section about testing into AGENTS.md.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(
    folder: str, kind: str, with_pytest: bool, ci: str | None, skill: str | None, agents_md: bool, force: bool
) -> int:
    """Write a small example suite and agent that pass, without any key.

    With --skill or --agents-md, write only what coding agents need, into a project that exists. With --ci, write only
    the job if the project has a folder of scenarios.
    """
    place = Path(folder)
    if skill is not None or agents_md:
        return _write_for_coding_agents(place, skill, force=force)
    files = compose(kind, pytest=with_pytest, ci=ci)
    if ci is not None and (place / "scenarios").is_dir() and not _given(("kind", "with_pytest")):
        _write(place, {_CI[ci]: files[_CI[ci]]}, force=force)
        click.echo(
            "\nThere are scenarios, so no example was written. Look at what the job installs, and commit the file."
        )
        return 0
    _write(place, files, force=force)
    _print_next_steps(
        place, STARTERS[kind], with_pytest=with_pytest, suite=next(name for name in files if "first" in name)
    )
    return 0


def _write_for_coding_agents(place: Path, skill: str | None, *, force: bool) -> int:
    _refuse_other_options()
    if skill is not None:
        _write(place, {_SKILLS[skill]: _read("coding_agents/SKILL.md")}, force=force)
    file = place / "AGENTS.md"
    there = file.read_text(encoding="utf-8") if file.exists() else ""
    section = _read("coding_agents/AGENTS.md")
    # A section that was written before is replaced. Everything else in the file stays.
    joined = (
        _SECTION.sub(lambda _: section, there) if _SECTION.search(there) else "\n".join(filter(None, (there, section)))
    )
    write_file(file, joined)
    click.echo(f"wrote {file}")
    if skill is not None:
        click.echo(f"\nConnect the MCP server (pip install 'seatrial[mcp]'): {_REGISTER[skill]}")
    return 0


def _refuse_other_options() -> None:
    """Options of the example have no effect here."""
    options = {"kind": "--agent", "with_pytest": "--pytest", "ci": "--ci"}
    if given := [options[name] for name in _given(options)]:
        raise UsageError(f"--skill and --agents-md write into an existing project. Run init without {', '.join(given)}")


def _given(names: Iterable[str]) -> list[str]:
    """The parameters that the user gave."""
    ctx = click.get_current_context()
    return [name for name in names if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT]


def _write(place: Path, files: Mapping[str, str], *, force: bool) -> None:
    there = [str(place / name) for name in files if (place / name).exists()]
    if there and not force:
        raise UsageError(
            f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already. Nothing was written. "
            "Choose another folder (seatrial init DIR), or overwrite with --force"
        )
    for name, text in files.items():
        write_file(place / name, text)
        click.echo(f"wrote {place / name}")


def _print_next_steps(place: Path, starter: Starter, *, with_pytest: bool, suite: str) -> None:
    steps = []
    if place.resolve() != Path.cwd():
        steps.append((f"cd {place}", ""))
    missing = [name for name in starter.modules if not _is_installed(name)]
    missing_pytest = with_pytest and find_spec("pytest") is None
    if missing or missing_pytest:
        wanted = [requirement(starter)] if missing else []
        steps.append((f"pip install {' '.join([*wanted, *(['pytest'] if missing_pytest else [])])}", ""))
    if with_pytest:
        steps.append(("python -m pytest", "passes"))
    if starter.served:
        steps.append(("python server.py", "in another terminal; replace it with your endpoint later"))
    steps += [("seatrial run", "passes"), ("seatrial show", "shows the stored run")]
    click.echo("\nNext:")
    for step, remark in steps:
        click.echo(f"  {step:<20}  # {remark}" if remark else f"  {step}")
    if starter.served:
        click.echo(f"Then edit {suite}: the address of your endpoint, and what it must do.")
    else:
        click.echo(f"Then put your agent into {starter.files[0]}, and what it must do into {suite}.")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent of a dotted name is not installed
        return False
