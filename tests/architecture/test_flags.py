"""Every command and flag has a help text, and a test or a page of the documentation names it."""

from collections.abc import Iterator
from pathlib import Path

import click

from seatrial.cli.main import COMMANDS, seatrial

ROOT = Path(__file__).parent.parent.parent
FILES = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
"""Without docs/reference: it is generated, so it names every flag."""
TEXT = "\n".join(file.read_text(encoding="utf-8") for file in FILES if file != Path(__file__))


def commands() -> Iterator[click.Command]:
    context = click.Context(seatrial)
    for name in COMMANDS:
        command = seatrial.get_command(context, name)
        assert command is not None, name
        yield command


def flags() -> Iterator[str]:
    for command in commands():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield max(parameter.opts, key=len)


def is_named(flag: str) -> bool:
    return any(f"{before}{flag}{after}" in TEXT for before in "\"'` " for after in "\"'` =")


def test_every_flag_is_named_by_a_test_or_a_page() -> None:
    assert [flag for flag in flags() if not is_named(flag)] == []


def test_every_option_says_what_it_does() -> None:
    without = [
        f"{command.name} {parameter.name}"
        for command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]

    assert without == []


def test_every_command_says_what_it_does() -> None:
    assert [command.name for command in commands() if not command.help] == []
    assert all(text.endswith(".") for _, text in COMMANDS.values())
