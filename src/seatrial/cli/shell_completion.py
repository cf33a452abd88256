"""What a shell is offered while a command is typed: names of scenarios, tags and runs.

A shell that waits is worse than one that offers nothing, and an error would be written into the line being typed: so
a file that cannot be read gives no offers. Nothing of the user's is imported or run while a command is typed: scenarios
that are written in Python are not offered.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from seatrial.errors import SeatrialError

from .main import seatrial

_RUNS = 50
"""The newest ones."""


def scenario_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names that have the text, as `--scenario` takes them."""
    wanted = incomplete.strip("'\"").lower()
    return [_as_one_word(name) for name, _ in _scenarios(ctx) if wanted in name.lower()]


def tags(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    found = {tag for _, tags in _scenarios(ctx) for tag in tags}
    return sorted(_as_one_word(tag) for tag in found if tag.startswith(incomplete))


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Ids and names of stored runs, newest first, and the words that stand for one."""
    from .options import open_stored

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


def _scenarios(ctx: click.Context) -> Iterator[tuple[str, set[str]]]:
    """Names and tags in the files that can be read without running code."""
    from seatrial.scenarios.load import find_files
    from seatrial.scenarios.problems import UnreadableFile
    from seatrial.scenarios.suite_files import read_outline

    from .options import default_paths

    # Looking for a module of that name would import the package around it.
    paths = [path for path in default_paths(ctx.params.get("paths") or ()) if os.path.exists(path)]
    for file in find_files(paths, []):
        if isinstance(file, Path) and file.suffix.lower() != ".py":
            try:
                yield from read_outline(file)
            except UnreadableFile:
                continue


_HOW = {
    "bash": '# Completion for seatrial. Put this into ~/.bashrc:\n#   eval "$(seatrial completion bash)"\n',
    "zsh": '# Completion for seatrial. Put this into ~/.zshrc:\n#   eval "$(seatrial completion zsh)"\n',
    "fish": "# Completion for seatrial. Type once:\n"
    "#   seatrial completion fish > ~/.config/fish/completions/seatrial.fish\n",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_HOW)))
def completion_command(shell: str) -> int:
    """Print the script that lets a shell complete commands, flags, scenarios, tags and runs."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Click's own way starts bash to ask for its version, and complains where there is none.
    script = ShellComplete.source(kind(seatrial, {}, "seatrial", "_SEATRIAL_COMPLETE"))
    click.echo(_HOW[shell] + script)
    return 0
