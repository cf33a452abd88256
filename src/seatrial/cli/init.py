"""`seatrial init`."""

from pathlib import Path

import click

from seatrial.errors import UsageError

_TEMPLATES = Path(__file__).parent / "templates"
_FILES = {"agent.py": "agent.py.template", "scenarios/first.yaml": "first.yaml.template"}
"""What is written -> the template it is made from."""


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".")
@click.option("--force", is_flag=True, help="Overwrite files that are there already.")
def command(folder: str, force: bool) -> int:
    """Write a small suite and agent that pass at once, without any key."""
    place = Path(folder)
    there = [str(place / name) for name in _FILES if (place / name).exists()]
    if there and not force:
        raise UsageError(
            f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already; nothing was written. "
            "Choose another folder (seatrial init DIR), or overwrite with --force"
        )
    for name, template in _FILES.items():
        _write(place / name, (_TEMPLATES / template).read_text(encoding="utf-8"))
        click.echo(f"wrote {place / name}")
    click.echo("\nNext:")
    if place.resolve() != Path.cwd():
        click.echo(f"  cd {folder}")
    click.echo("  seatrial run          # passes")
    click.echo("  seatrial show         # what was run, as it is stored")
    click.echo("Then put your own agent into agent.py, and what it must do into scenarios/first.yaml.")
    return 0


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from None
