"""`seatrial validate` and `seatrial schema`."""

import json

import click

from seatrial.errors import UsageError
from seatrial.reports.texts import counted
from seatrial.runs.api import load
from seatrial.runs.gold_calls import check_gold_calls
from seatrial.scenarios.keys import json_schema
from seatrial.scenarios.worlds import world_of

from .options import default_paths
from .output import reports_of


@click.command("validate")
@click.argument("paths", nargs=-1)
def validate_command(paths: tuple[str, ...]) -> int:
    """Check scenario files and list every problem with its place. No agent is called.

    Suites in Python (*_trials.py) and modules under `evaluators` and `world` are imported, and the calls under
    `end_state.as_after` are made in their world. This runs their code: check only files that you would run.
    """
    suites = load(default_paths(paths))
    wrong = []
    for suite in suites:
        try:
            reports_of(suite)
        except UsageError as problem:
            wrong.append(str(problem))
        try:
            check_gold_calls((scenario, world_of(scenario)) for scenario in suite.scenarios if scenario.world)
        except UsageError as problem:
            wrong.append(str(problem))
    if wrong:
        raise UsageError("\n".join(wrong))
    for suite in suites:
        click.echo(f"{suite.path}: ok, {counted(suite.count, 'scenario')}")
    return 0


@click.command("schema")
def schema_command() -> int:
    """Print the JSON Schema of scenario files, for editors."""
    click.echo(json.dumps(json_schema(), indent=2))
    return 0
