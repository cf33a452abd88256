"""`seatrial init`."""

from importlib.util import find_spec
from pathlib import Path

import click

from seatrial.errors import UsageError

from .init_templates import STARTERS, Starter, compose, requirement


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".")
@click.option(
    "--agent",
    "kind",
    type=click.Choice(list(STARTERS)),
    default="function",
    show_default=True,
    help="What your agent is; a small one of that kind is written.",
)
@click.option("--pytest", "with_pytest", is_flag=True, help="As a pytest project: pytest runs the scenarios too.")
@click.option("--ci", type=click.Choice(["github", "gitlab"]), help="With a CI job that runs the scenarios.")
@click.option("--force", is_flag=True, help="Overwrite files that are there already.")
def command(folder: str, kind: str, with_pytest: bool, ci: str | None, force: bool) -> int:
    """Write a small suite and agent that pass at once, without any key."""
    place = Path(folder)
    files = compose(kind, pytest=with_pytest, ci=ci)
    there = [str(place / name) for name in files if (place / name).exists()]
    if there and not force:
        raise UsageError(
            f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already; nothing was written. "
            "Choose another folder (seatrial init DIR), or overwrite with --force"
        )
    for name, text in files.items():
        _write(place / name, text)
        click.echo(f"wrote {place / name}")
    _say_what_next(
        place, STARTERS[kind], with_pytest=with_pytest, suite=next(name for name in files if "first" in name)
    )
    return 0


def _say_what_next(place: Path, starter: Starter, *, with_pytest: bool, suite: str) -> None:
    steps = []
    if place.resolve() != Path.cwd():
        steps.append((f"cd {place}", ""))
    missing = [name for name in starter.modules if not _is_installed(name)]
    missing_pytest = with_pytest and find_spec("pytest") is None
    if missing or missing_pytest:
        wanted = [requirement(starter)] if missing else []
        steps.append((f"pip install {' '.join([*wanted, *(['pytest'] if missing_pytest else [])])}", ""))
    if with_pytest:
        steps.append(("python -m pytest", "passes"))
    if starter.served:
        steps.append(("python server.py", "in another terminal; it stands for your endpoint"))
    steps += [("seatrial run", "passes"), ("seatrial show", "what was run, as it is stored")]
    click.echo("\nNext:")
    for step, remark in steps:
        click.echo(f"  {step:<20}  # {remark}" if remark else f"  {step}")
    if starter.served:
        click.echo(f"Then write the address of your own endpoint, and what it must do, into {suite}.")
    else:
        click.echo(f"Then put your own agent into {starter.files[0]}, and what it must do into {suite}.")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent of a dotted name is absent
        return False


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from None
