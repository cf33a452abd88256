"""What is wrong with what was typed, and what would work. Loaded only to explain a mistake."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import click

from .main import COMMANDS, seatrial


def explain_mistake(error: click.UsageError, args: Sequence[str]) -> str:
    """Where, what, and what now, in one line."""
    command, where = _command(error, args)
    if isinstance(error, click.NoSuchOption):
        what = f"no such option {error.option_name!r}.{_meant(error.option_name, command)}"
    else:
        said = error.format_message().rstrip(".")
        what = f"{said[:1].lower()}{said[1:]}."
    if isinstance(error, click.BadOptionUsage):
        what += _choices(error.option_name, command)
    return f"{where}: {what} See: {where} --help"


def _command(error: click.UsageError, args: Sequence[str]) -> tuple[click.Command, str]:
    """The command that was typed, and how it is called; not every error knows."""
    if error.ctx is not None:
        return error.ctx.command, error.ctx.command_path
    name = args[0] if args else ""
    found = seatrial.get_command(click.Context(seatrial), name)
    return (seatrial, "seatrial") if found is None else (found, f"seatrial {name}")


def _choices(flag: str, command: click.Command) -> str:
    for option in command.params:
        if flag in option.opts and isinstance(option.type, click.Choice):
            return f" Give one of: {', '.join(map(str, option.type.choices))}."
    return ""


def _meant(flag: str, command: click.Command) -> str:
    """The flag that was meant, or else the commands that have this one."""
    close = get_close_matches(flag, list(_flags(command)), n=1, cutoff=0.75)
    if close:
        return f" Did you mean {close[0]!r}?"
    others = [f"`seatrial {name}`" for name in COMMANDS if flag in _flags_of(name)]
    return f" It is a flag of {', '.join(others)}." if others else ""


def _flags_of(name: str) -> frozenset[str]:
    command = seatrial.get_command(click.Context(seatrial), name)
    return frozenset() if command is None else frozenset(_flags(command))


def _flags(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (*parameter.opts, *parameter.secondary_opts)
