"""`seatrial completion`."""

import click

from .main import seatrial

_HOW = {
    "bash": '# Completion for seatrial. Put this into ~/.bashrc:\n#   eval "$(seatrial completion bash)"\n',
    "zsh": '# Completion for seatrial. Put this into ~/.zshrc:\n#   eval "$(seatrial completion zsh)"\n',
    "fish": "# Completion for seatrial. Type once:\n"
    "#   seatrial completion fish > ~/.config/fish/completions/seatrial.fish\n",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_HOW)))
def command(shell: str) -> int:
    """Print the script that lets a shell complete commands, flags, scenarios, tags and runs."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Click's own way starts bash to ask for its version, and complains where there is none.
    script = ShellComplete.source(kind(seatrial, {}, "seatrial", "_SEATRIAL_COMPLETE"))
    click.echo(_HOW[shell] + script)
    return 0
