"""`seatrial doctor`: checks of the installation, extras, keys, settings, store, suites and agents."""

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click
from msgspec.structs import replace

from seatrial.errors import SeatrialError, UsageError
from seatrial.model.run import Trial
from seatrial.model.scenario import Scenario, Suite, SuiteConfig, User
from seatrial.reports.terminal import one_line, safe_text
from seatrial.reports.texts import counted
from seatrial.runs.execute_run import execute
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.settings import SETTINGS, read_settings
from seatrial.version import __version__

from .options import (
    DEFAULT_FOLDER,
    env_file_option,
    make_request,
    read_agent,
    read_environment,
    store_option,
    store_url,
)

_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?(?P<limits>[^;]*);.*extra == ['\"](?P<extra>[\w-]+)")
_OTHER_VARIABLES: Final = ("SEATRIAL_TOKEN", "SEATRIAL_NOTIFY", "SEATRIAL_NOTIFY_SECRET", "SEATRIAL_REQUIRE_BROWSER")
_LOOKED_THROUGH: Final = 200
"""The number of newest runs whose trials are read."""


class Finding(NamedTuple):
    """One line of the output."""

    state: Literal["ok", "warning", "problem"]
    text: str
    remedy: str = ""


def check_installation() -> Iterator[Finding]:
    python = f"Python {platform.python_version()} at {sys.executable}"
    yield Finding(
        "ok", f"seatrial {__version__}, {python}, {platform.system()} {platform.release()} {platform.machine()}"
    )
    found = shutil.which("seatrial")
    if found is not None and Path(found).resolve().parent != Path(sys.executable).absolute().parent:
        yield Finding(
            "warning",
            f"the command `seatrial` is {found}, which belongs to another Python",
            f"activate the right environment, or run: {sys.executable} -m seatrial",
        )


def check_extras() -> Iterator[Finding]:
    """The installed packages of each extra. A missing extra is not a problem."""
    try:
        required = metadata.requires("seatrial") or []
    except metadata.PackageNotFoundError:
        yield Finding("warning", "seatrial runs from its sources, not as a package", "pip install seatrial")
        return
    absent = []
    for extra, packages in _packages_by_extra(required).items():
        versions = {name: _version(name) for name in packages}
        here = {name: version for name, version in versions.items() if version is not None}
        if len(here) < len(versions):
            absent.append(extra)
            continue
        shown = f"extra {extra}: {', '.join(f'{name} {version}' for name, version in here.items())}"
        old = [f"{name}{limits}" for name, limits in packages.items() if _is_below(here[name], limits)]
        if old:
            yield Finding(
                "warning", f"{shown}; it needs {', '.join(old)}", f"pip install --upgrade 'seatrial[{extra}]'"
            )
        else:
            yield Finding("ok", shown)
    if absent:
        yield Finding("ok", f"extras not installed: {', '.join(absent)} (pip install 'seatrial[NAME]')")


def _packages_by_extra(required: list[str]) -> dict[str, dict[str, str]]:
    """Extra -> package -> allowed versions. `all` contains only other extras."""
    extras: dict[str, dict[str, str]] = {}
    for line in required:
        found = _REQUIREMENT.match(line)
        if found and found["name"] != "seatrial" and found["extra"] != "all":
            extras.setdefault(found["extra"], {})[found["name"]] = found["limits"].strip()
    return extras


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _is_below(version: str, limits: str) -> bool:
    least = re.search(r">=\s*([\d.]+)", limits)
    return least is not None and _numbers(version) < _numbers(least[1])


def _numbers(version: str) -> list[int]:
    leading = re.match(r"[\d.]*", version)
    return [int(part) for part in (leading[0] if leading else "").split(".") if part]


def check_agent_types() -> Iterator[Finding]:
    """The agent types that installed packages add; nothing if there are none."""
    from seatrial.agents.resolve import installed_types

    found = [f"{name} ({point.value})" for name, point in installed_types().items()]
    if found:
        yield Finding("ok", f"agent types of installed packages: {', '.join(found)}")


def check_keys(environ: Mapping[str, str]) -> Iterator[Finding]:
    """The names of the model keys that are set, never their values."""
    from seatrial.llm.providers import PROVIDERS

    known = dict.fromkeys(name for provider in PROVIDERS.values() for name in provider.keys)
    there = [name for name in known if environ.get(name)]
    empty = [name for name in known if environ.get(name) == ""]
    yield Finding("ok", f"model keys: {', '.join(there) or 'none set; only judges and simulated users need one'}")
    for name in empty:
        yield Finding("warning", f"{name} is set, but empty", f"export {name}=…, or unset it")


def check_settings(folder: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The sources of the settings."""
    try:
        read_settings(folder, environ)
    except UsageError as error:
        yield Finding("problem", str(error))
        return
    file = next((place / "pyproject.toml" for place in (folder, *folder.parents) if _has_table(place)), None)
    yield Finding("ok", f"settings: {file or 'defaults; no pyproject.toml here or above has [tool.seatrial]'}")
    variables = [setting.variable for setting in SETTINGS.values() if setting.variable]
    there = [name for name in variables if environ.get(name)]
    if there:
        yield Finding("ok", f"settings from the environment: {', '.join(there)}")
    for name in environ:
        if name.startswith("SEATRIAL_") and name not in variables and name not in _OTHER_VARIABLES:
            close = get_close_matches(name, variables, n=1)
            yield Finding(
                "warning",
                f"nothing reads the variable {name}",
                f"did you mean {close[0]}?" if close else f"known: {', '.join(variables)}",
            )


def _has_table(folder: Path) -> bool:
    file = folder / "pyproject.toml"
    return file.is_file() and "[tool.seatrial" in file.read_text(encoding="utf-8", errors="replace")


def check_store(url: str) -> Iterator[Finding]:
    """Whether runs can be stored, and what is stored already. The check creates no store."""
    from seatrial.runs.report import find_damaged
    from seatrial.store.schema import VERSION
    from seatrial.store.store import open_store

    file = (
        None if url.startswith(("postgres://", "postgresql://")) else Path(url.removeprefix("sqlite:///")).expanduser()
    )
    if file is not None and not file.exists() and "://" not in str(file):
        yield _check_place(file)
        return
    try:
        with open_store(url) as store:
            newest = store.runs(1)
            last = f"last run {newest[0].id}" if newest else "no run yet"
            size = "" if file is None else f", {_size(file)}"
            yield Finding("ok", f"store {store.name}: schema {VERSION}{size}, {last}")
            for _, text in find_damaged(store, _LOOKED_THROUGH):
                yield Finding("problem", text)
    except SeatrialError as error:
        yield Finding("problem", str(error))


def _check_place(file: Path) -> Finding:
    nearest = next(place for place in file.absolute().parents if place.exists())
    if nearest.is_dir() and os.access(nearest, os.W_OK):
        return Finding("ok", f"store {file}: does not exist yet; the first run creates it")
    return Finding(
        "problem",
        f"store {file}: cannot be created: {nearest} is {'read-only' if nearest.is_dir() else 'not a folder'}",
        "give --store a writable path, or set `store` in [tool.seatrial]",
    )


def _size(file: Path) -> str:
    """The size of the file with its write-ahead log."""
    parts = [file, file.with_name(f"{file.name}-wal")]
    total = float(sum(part.stat().st_size for part in parts if part.exists()))
    for unit in ("B", "kB", "MB"):
        if total < 1000:
            return f"{total:.0f} {unit}"
        total /= 1000
    return f"{total:.1f} GB"


_SHOWN = 60
_GREETING = "Hello!"
_KEPT = ("mocks", "tools", "unmocked_tools", "timeout_seconds", "trial_timeout_seconds", "setup", "teardown")
"""The settings of a scenario that a call of the agent needs."""


def check_suites(request: RunRequest, *, ask: bool) -> Iterator[Finding]:
    """One line for each suite and, with `ask`, for each of its agents."""
    try:
        plan = RunPlan(request)
    except SeatrialError as error:
        yield from (Finding("problem", line) for line in str(error).splitlines())
        return
    for loaded in plan.suites:
        yield Finding("ok", f"suite {loaded.path}: {counted(loaded.count, 'scenario')}")
        if ask:
            yield from _ask_agents(loaded, request)


def _ask_agents(loaded: LoadedSuite, request: RunRequest) -> Iterator[Finding]:
    probe = _probe(next((each for each in loaded.scenarios if each.skip is None), None))
    suite = Suite(
        name=loaded.name,
        scenarios=(probe,),
        agent=loaded.suite.agent,
        agents=loaded.suite.agents,
        config=SuiteConfig(isolation=loaded.config.isolation),
        setup=loaded.suite.setup,
        teardown=loaded.suite.teardown,
    )
    try:
        report = execute(replace(request, sources=(suite,), overrides={}, store=None, cache=None))
    except SeatrialError as error:
        yield Finding("problem", str(error))
        return
    for trial in report.trials():
        yield _reply_of(trial, sent=str(probe.input))


def _probe(scenario: Scenario | None) -> Scenario:
    """A scenario of one message that checks only that there is a reply."""
    if scenario is None:
        return Scenario(name="doctor", input=_GREETING, scorers=("passfail",))
    said: str | None = scenario.input or (scenario.turns[0].said if scenario.turns else None)
    if said is None and isinstance(scenario.user, User):
        said = scenario.user.first_message
    kept: Mapping[str, Any] = {name: getattr(scenario, name) for name in _KEPT}
    return Scenario(
        name="doctor",
        input=said or _GREETING,
        scorers=("passfail",),
        system=scenario.system,
        history=scenario.history,
        trials=1,
        **kept,
    )


def _reply_of(trial: Trial, *, sent: str) -> Finding:
    who = f"agent {trial.key.agent}" if trial.key.agent else "agent"
    asked = f"{who}: sent {_short(sent)}"
    if trial.error is not None:
        return Finding("problem", f"{asked}; {trial.error.message}", trial.error.hint or "")
    turn = trial.transcript.turns[-1]
    if not (turn.reply or "").strip():
        return Finding("problem", f"{asked}; the reply is empty", "an agent must reply with a text")
    calls = "; its tool calls are not recorded" if turn.tool_calls is None else ""
    return Finding("ok", f"{asked}; got {_short(turn.reply or '')} in {trial.duration_ms:.0f} ms{calls}")


def _short(text: str) -> str:
    shown = one_line(text)
    return repr(shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…")


@click.command("doctor")
@click.argument("paths", nargs=-1)
@click.option("--agent", help="Agent to call instead of the suite's.")
@store_option
@env_file_option
def command(paths: tuple[str, ...], agent: str | None, store: str | None, env_file: str | None) -> int:
    """Check versions, extras, keys, settings, the store and suites.

    With PATHS, their suites are loaded and each agent is called once, with the first message of its suite. Without
    PATHS, the folder `scenarios` is loaded if it exists, and no agent is called. Nothing is stored, and no key is
    shown. Exit code 0: no problem. 2: at least one problem.
    """
    found = {"ok": 0, "warning": 0, "problem": 0}
    for finding in _findings(paths, agent=agent, store=store, env_file=env_file):
        found[finding.state] += 1
        click.echo(safe_text(f"{finding.state:<7}  {finding.text}"))
        if finding.remedy:
            click.echo(safe_text(f"{'':<7}  -> {finding.remedy}"))
    problems, warnings = found["problem"], found["warning"]
    if problems:
        click.echo(f"\n{counted(problems, 'problem')} found")
        return 2
    click.echo("\nno problem found" + (f"; {counted(warnings, 'warning')}" if warnings else ""))
    return 0


def _findings(
    paths: tuple[str, ...], *, agent: str | None, store: str | None, env_file: str | None
) -> Iterator[Finding]:
    environ = read_environment(env_file)
    yield from check_installation()
    yield from check_extras()
    yield from check_agent_types()
    yield from check_keys(environ)
    settings = list(check_settings(Path.cwd(), environ))
    yield from settings
    if any(finding.state == "problem" for finding in settings):
        return  # the other checks need the settings
    yield from check_store(store_url(store))
    if paths or Path(DEFAULT_FOLDER).is_dir():
        request = make_request(paths, environ=environ, overrides={}, agent=read_agent(agent))
        yield from check_suites(request, ask=bool(paths))
        if not paths:
            yield Finding("ok", f"no agent was called. To call each agent once: seatrial doctor {DEFAULT_FOLDER}")
    elif agent is not None:
        raise UsageError("--agent: needs a suite. Give its path: seatrial doctor PATH --agent …")
