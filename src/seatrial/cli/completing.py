"""What a shell is offered while a command is typed: names of scenarios, tags and runs.

A shell that waits is worse than one that offers nothing, and an error would be written into the line being typed: so
whatever cannot be read gives no offers.
"""

import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from seatrial.errors import SeatrialError

if TYPE_CHECKING:
    from seatrial.vocabulary.scenario import Scenario

_RUNS = 50
"""The newest ones."""


def scenario_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names that have the text, as `--scenario` takes them."""
    wanted = incomplete.strip("'\"").lower()
    return [_as_one_word(one.name) for one in _scenarios(ctx) if wanted in one.name.lower()]


def tags(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    found = {tag for one in _scenarios(ctx) for tag in one.tags}
    return sorted(_as_one_word(tag) for tag in found if tag.startswith(incomplete))


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Ids and names of stored runs, newest first, and the words that stand for one."""
    from .request import open_stored

    words = ["latest", "baseline"]
    try:
        with open_stored(ctx.params.get("store")) as store:
            for run in store.runs(_RUNS):
                words += [run.id, run.name]
    except SeatrialError:
        return []
    return [_as_one_word(word) for word in dict.fromkeys(words) if word.startswith(incomplete)]


def _as_one_word(text: str) -> str:
    """Bash puts what it is given into the line as it is; the other shells quote by themselves."""
    return shlex.quote(text) if os.environ.get("_SEATRIAL_COMPLETE") == "bash_complete" else text


def _scenarios(ctx: click.Context) -> "Iterator[Scenario]":
    from seatrial.scenarios import load

    from .request import default_paths

    try:
        for suite in load(default_paths(ctx.params.get("paths") or ()), check_agents=False):
            yield from suite.resolved()
    except SeatrialError:
        return
