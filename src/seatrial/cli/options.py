"""Which scenarios a command is about: flags that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from . import shell_completion

_Command = TypeVar("_Command", bound=Callable[..., Any])


def selecting(command: _Command) -> _Command:
    """`--scenario` and `--tag`."""
    by_name = click.option(
        "--scenario",
        "scenario_text",
        multiple=True,
        metavar="TEXT",
        shell_complete=shell_completion.scenario_names,
        help="Only scenarios whose name has TEXT.",
    )
    by_tag = click.option(
        "--tag",
        "tags",
        multiple=True,
        shell_complete=shell_completion.tags,
        help="Only scenarios with this tag. Repeatable: any of them.",
    )
    return by_name(by_tag(command))
