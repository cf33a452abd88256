"""`seatrial schema`."""

import json

import click

from seatrial.scenarios.schema import json_schema


@click.command("schema")
def command() -> int:
    """Print the JSON Schema of scenario files, for editors."""
    click.echo(json.dumps(json_schema(), indent=2))
    return 0
