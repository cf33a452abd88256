"""`seatrial doctor`."""

from collections.abc import Iterator
from pathlib import Path

import click

from seatrial.errors import UsageError
from seatrial.reports.escaping import defused, visible

from .doctor_checks import Finding, check_extras, check_installation, check_keys, check_settings, check_store
from .request import DEFAULT_FOLDER, make_request, read_agent, read_environment, store_url


@click.command("doctor")
@click.argument("paths", nargs=-1)
@click.option("--agent", help="The agent to ask, instead of the suite's.")
@click.option("--store", help="Where runs are kept: a file or postgresql://….")
@click.option("--env-file", metavar="FILE", help="Environment variables from a file.")
def command(paths: tuple[str, ...], agent: str | None, store: str | None, env_file: str | None) -> int:
    """Look for what keeps Seatrial from working here: versions, extras, keys, settings, the store.

    With PATHS, their suites are loaded and each agent is asked once, with the first message of its suite. Without, the
    folder `scenarios` is loaded where there is one, and no agent is called. Nothing is stored, and no value of a key is
    shown. Exit code 0: no problem; 2: at least one.
    """
    found = {"ok": 0, "warning": 0, "problem": 0}
    for finding in _findings(paths, agent=agent, store=store, env_file=env_file):
        found[finding.state] += 1
        click.echo(defused(visible(f"{finding.state:<7}  {finding.text}")))
        if finding.remedy:
            click.echo(defused(visible(f"{'':<7}  -> {finding.remedy}")))
    problems, warnings = found["problem"], found["warning"]
    if problems:
        click.echo(f"\n{problems} problem{'' if problems == 1 else 's'} to solve")
        return 2
    click.echo("\nno problem found" + (f"; {warnings} warning{'' if warnings == 1 else 's'}" if warnings else ""))
    return 0


def _findings(
    paths: tuple[str, ...], *, agent: str | None, store: str | None, env_file: str | None
) -> Iterator[Finding]:
    environ = read_environment(env_file)
    yield from check_installation()
    yield from check_extras()
    yield from check_keys(environ)
    settings = list(check_settings(Path.cwd(), environ))
    yield from settings
    if any(finding.state == "problem" for finding in settings):
        return  # whatever else is looked at would be read by them
    yield from check_store(store_url(store))
    if paths or Path(DEFAULT_FOLDER).is_dir():
        from .probe import check_suites

        request = make_request(paths, environ=environ, overrides={}, agent=read_agent(agent))
        yield from check_suites(request, ask=bool(paths))
        if not paths:
            yield Finding(
                state="ok", text=f"no agent was asked; to have it asked once: seatrial doctor {DEFAULT_FOLDER}"
            )
    elif agent is not None:
        raise UsageError("--agent: asked with which suite? Give its path: seatrial doctor PATH --agent …")
