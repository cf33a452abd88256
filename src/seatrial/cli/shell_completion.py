"""Shell completion of scenario names, tags and runs, and `seatrial completion`.

Files that cannot be read are skipped: an error would appear in the line being typed. No user code runs, so scenarios
written in Python are not completed.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from seatrial.errors import SeatrialError

from .main import seatrial

_RUNS = 50


def scenario_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names that contain the text, as for `--scenario`."""
    wanted = incomplete.strip("'\"").lower()
    return [_as_one_word(name) for name, _ in _scenarios(ctx) if wanted in name.lower()]


def tags(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    found = {tag for _, tags in _scenarios(ctx) for tag in tags}
    return sorted(_as_one_word(tag) for tag in found if tag.startswith(incomplete))


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """`latest`, `baseline`, and the ids and names of stored runs, newest first."""
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
    """Quoted for bash; other shells quote by themselves."""
    return shlex.quote(text) if os.environ.get("_SEATRIAL_COMPLETE") == "bash_complete" else text


def _scenarios(ctx: click.Context) -> Iterator[tuple[str, set[str]]]:
    """Names and tags of the scenarios in files without code."""
    from seatrial.scenarios.load import find_files
    from seatrial.scenarios.problems import UnreadableFile
    from seatrial.scenarios.suite_files import read_outline

    from .options import default_paths

    # Searching for a module of that name would import its package.
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
    # Click's own method starts bash to check its version, and fails if there is no bash.
    script = ShellComplete.source(kind(seatrial, {}, "seatrial", "_SEATRIAL_COMPLETE"))
    click.echo(_HOW[shell] + script)
    return 0
