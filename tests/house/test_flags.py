"""Every command and every flag is named by a test of the command line or by a page of the documentation."""

from collections.abc import Iterator
from pathlib import Path

import click

from seatrial.cli.main import COMMANDS, seatrial

ROOT = Path(__file__).parent.parent.parent
TEXTS = [
    *(ROOT / "tests").rglob("test_*.py"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "README.md",
]
READ = "\n".join(file.read_text(encoding="utf-8") for file in TEXTS if file != Path(__file__))


def commands() -> Iterator[click.Command]:
    context = click.Context(seatrial)
    for name in COMMANDS:
        command = seatrial.get_command(context, name)
        assert command is not None, name
        yield command


def flags() -> Iterator[tuple[str, str]]:
    for command in commands():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                yield command.name or "", max(parameter.opts, key=len)


UNNAMED: set[str] = set()
"""Flags of commands whose tests and pages are still to come. The list may only become shorter."""


def is_named(flag: str) -> bool:
    return any(f"{before}{flag}{after}" in READ for before in "\"'` " for after in "\"'` =")


def test_every_flag_is_named_by_a_test_or_a_page() -> None:
    assert {flag for _, flag in flags() if not is_named(flag)} - UNNAMED == set()


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"{command.name} {parameter.name}"
        for command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]

    assert silent == []


def test_every_command_says_what_it_does() -> None:
    assert [command.name for command in commands() if not command.help] == []
    assert all(text.endswith(".") for _, text in COMMANDS.values())
