"""Every command and every option, from click."""

from collections.abc import Iterator
from inspect import cleandoc

import click

from seatrial.cli.main import COMMANDS, seatrial

from .tables import table


def commands() -> str:
    return "\n".join(_section(command, f"seatrial {name}", 2) for name, command in top_commands())


def top_commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(seatrial)
    for name in COMMANDS:
        command = seatrial.get_command(context, name)
        assert command is not None
        yield name, command


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Commands with their subcommands: `baseline set` as well as `baseline`."""
    for name, command in top_commands():
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())


def _section(command: click.Command, name: str, level: int) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"{'#' * level} `{name}`\n", f"`{usage}`\n", f"{_prose(command.help or '')}\n"]
    options = [one for one in command.params if isinstance(one, click.Option)]
    if options:
        parts.append(table(("option", "means"), (_option(one, context) for one in options)))
    if isinstance(command, click.Group):
        parts += [_section(one, f"{name} {inner}", level + 1) for inner, one in command.commands.items()]
    return "\n".join(parts)


def _prose(text: str) -> str:
    return cleandoc(text.replace("\b", "")).replace("<", "&lt;")


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else f" {option.make_metavar(context)}"
    shown = f" Default: {option.default}." if option.show_default and option.default not in (None, ()) else ""
    again = " May be given several times." if option.multiple and "epeatable" not in (option.help or "") else ""
    return f"{names}{value}", f"{option.help or ''}{shown}{again}"
