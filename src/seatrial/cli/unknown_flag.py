"""What somebody may have meant who gave a flag that a command has not. Loaded only to explain a mistake."""

from collections.abc import Iterator
from difflib import get_close_matches

import click

from .main import COMMANDS, seatrial


def explain_flag(error: click.NoSuchOption) -> str:
    """The flag that was meant, or else the commands that have this one."""
    ctx = error.ctx
    where = "seatrial" if ctx is None else ctx.command_path
    own = [] if ctx is None else list(_flags(ctx.command))
    close = get_close_matches(error.option_name, own, n=1, cutoff=0.75)
    others = [] if close else [name for name in COMMANDS if error.option_name in _flags_of(name)]
    hint = f" Did you mean {close[0]!r}?" if close else ""
    if others:
        hint = f" It is a flag of {', '.join(f'`seatrial {name}`' for name in others)}."
    return f"{where}: no such option {error.option_name!r}.{hint} See: {where} --help"


def _flags_of(name: str) -> frozenset[str]:
    command = seatrial.get_command(click.Context(seatrial), name)
    return frozenset() if command is None else frozenset(_flags(command))


def _flags(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (*parameter.opts, *parameter.secondary_opts)
