"""Every command and every option: from click, and from the pytest plugin."""

from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import click

import seatrial_pytest
from seatrial.cli.main import COMMANDS, seatrial

from .tables import escape, table


def commands() -> str:
    """The list of commands, then a section for each."""
    listed = table(("command", "meaning"), ((_link(name), text) for name, (_, text) in COMMANDS.items()))
    options = _options(seatrial, click.Context(seatrial))
    sections = (_section(command, f"seatrial {name}", 2) for name, command in top_commands())
    return "\n".join((listed, "Options of `seatrial` itself:\n", options, *sections))


def top_commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(seatrial)
    for name in COMMANDS:
        command = seatrial.get_command(context, name)
        assert command is not None
        yield name, command


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Commands with their subcommands: `baseline`, `baseline set` and so on."""
    for name, command in top_commands():
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())


def pytest_options() -> str:
    """The options that the plugin adds to pytest, and its keys in pytest's own configuration."""
    parser = _Parser()
    seatrial_pytest.pytest_addoption(parser)  # type: ignore[arg-type]
    options = table(("option of pytest", "meaning"), parser.options)
    keys = table(("key of pytest's configuration", "meaning"), parser.keys)
    return f"{options}\n{keys}"


class _Parser:
    """Takes the place of pytest's parser and keeps what the plugin declares."""

    def __init__(self) -> None:
        self.options: list[tuple[str, str]] = []
        self.keys: list[tuple[str, str]] = []

    def getgroup(self, *_: str) -> "_Parser":
        return self

    def addoption(self, name: str, *, help: str, metavar: str = "", **_: Any) -> None:
        self.options.append((f"`{name} {metavar}`" if metavar else f"`{name}`", help))

    def addini(self, name: str, help: str, **_: Any) -> None:
        self.keys.append((f"`{name}`", help))


def _section(command: click.Command, name: str, level: int) -> str:
    parts = [f"{'#' * level} `{name}`\n", f"`{_usage(command, name)}`\n", f"{_prose(command.help or '')}\n"]
    parts.append(_options(command, click.Context(command)))
    if isinstance(command, click.Group):
        parts += [_section(one, f"{name} {inner}", level + 1) for inner, one in command.commands.items()]
    return "\n".join(part for part in parts if part)


def _link(name: str) -> str:
    return f"[`{name}`](#seatrial-{name})"


def _usage(command: click.Command, name: str) -> str:
    """Written here and not by click, whose versions differ."""
    words = [name, "[OPTIONS]"]
    if isinstance(command, click.Group):
        words.append("COMMAND")
    for one in command.params:
        if isinstance(one, click.Argument):
            word = one.metavar or (_choices(one, "|") or str(one.name).upper())
            word += "..." if one.nargs == -1 and not word.endswith("...") else ""
            words.append(word if one.required or word.startswith("[") else f"[{word}]")
    return " ".join(words)


def _choices(parameter: click.Parameter, separator: str) -> str:
    kind = parameter.type
    return separator.join(map(str, kind.choices)) if isinstance(kind, click.Choice) else ""


def _prose(text: str) -> str:
    return escape(cleandoc(text.replace("\b", "")))


def _options(command: click.Command, context: click.Context) -> str:
    rows = [_option(one) for one in command.params if isinstance(one, click.Option)]
    names = command.get_help_option_names(context) or ["--help"]
    rows.append((", ".join(f"`{name}`" for name in sorted(names, key=len, reverse=True)), "", "", "Show the help."))
    return table(("option", "value", "default", "meaning"), rows)


def _option(option: click.Option) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    default = "" if option.is_flag or option.default in (None, (), "") else f"`{option.default}`"
    again = " Repeatable." if option.multiple and "epeatable" not in (option.help or "") else ""
    return names, _value(option), default if "UNSET" not in default else "", f"{option.help or ''}{again}"


def _value(option: click.Option) -> str:
    """What comes after the option, and its bounds."""
    if option.is_flag or option.count:
        return ""
    kind = option.type
    if isinstance(kind, click.Choice):
        return ", ".join(f"`{one}`" for one in kind.choices)
    word = option.metavar or kind.name.split()[0].upper()
    if isinstance(kind, click.IntRange | click.FloatRange):
        bounds = [
            f"{words} {bound:g}"
            for words, bound in (
                ("above" if kind.min_open else "at least", kind.min),
                ("below" if kind.max_open else "at most", kind.max),
            )
            if bound is not None
        ]
        return f"`{word}`, {' and '.join(bounds)}" if bounds else f"`{word}`"
    return f"`{word}`"
