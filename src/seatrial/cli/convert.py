"""`seatrial convert`."""

from pathlib import Path

import click

from seatrial.converters.conversion import TOOLS, Converted, convert, has_scenarios
from seatrial.errors import UsageError
from seatrial.reports.terminal import safe_text
from seatrial.reports.texts import counted
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems

from .output import write_file

_OWN = (".yaml", ".yml", ".json", ".jsonl")


@click.command("convert")
@click.argument("files", nargs=-1, required=True)
@click.option("--output", "-o", "folder", default="scenarios", show_default=True, help="Folder to write to.")
@click.option("--from", "tool", type=click.Choice(list(TOOLS)), help="Tool of the files. Default: detected.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(files: tuple[str, ...], folder: str, tool: str | None, force: bool) -> int:
    """Convert FILES of Agentest, promptfoo, pydantic-evals or DeepEval to scenario files.

    Files of AgenticAssure and pytest-agent-eval load as they are. Parts that cannot be converted are listed, and are
    comments in the new file. Exit code 0: everything was converted. 1: not everything. 2: a file cannot be read, or
    the result is not a valid suite.
    """
    others = [file for file in files if tool is not None or not _loads(file)]
    done = [(file, _target(file, folder), convert(Path(file), tool=tool)) for file in others]
    _require_free([target for _, target, _ in done], force=force)
    for file, target, converted in done:
        write_file(target, converted.text)
        _print_result(file, target, converted)
    for _, target, _ in done:
        _check(target)
    return 1 if any(note.lost for _, _, converted in done for note in converted.notes) else 0


def _loads(file: str) -> bool:
    """Whether the file needs no conversion: it is a suite, or a file of a tool whose files load as they are."""
    if Path(file).suffix.lower() not in _OWN or not Path(file).is_file():
        return False
    try:
        [suite] = load(file, check_agents=False)
    except FileProblems as problems:
        if has_scenarios(Path(file)):
            raise UsageError(f"{file}: is a scenario file already, and has mistakes:\n{problems}") from None
        return False
    click.echo(safe_text(f"{file}: loads as it is, {counted(suite.count, 'scenario')}. Run it: seatrial run {file}"))
    return True


def _target(file: str, folder: str) -> Path:
    return Path(folder) / f"{Path(file).stem}.yaml"


def _require_free(targets: list[Path], *, force: bool) -> None:
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        raise UsageError(
            f"{twice}: two files would be converted to this file. Convert them into different folders: -o DIR"
        )
    taken = [str(target) for target in targets if target.exists()]
    if taken and not force:
        raise UsageError(f"{', '.join(taken)}: exists already. Choose another folder (-o DIR), or --force")


def _check(target: Path) -> None:
    try:
        load(str(target), check_agents=False)
    except FileProblems as problems:
        raise UsageError(f"{target}: was written, but is not a valid suite:\n{problems}") from None


def _print_result(file: str, target: Path, converted: Converted) -> None:
    lines = [f"{file} ({converted.tool}) -> {target}: {counted(converted.scenarios, 'scenario')}"]
    if converted.skipped:
        lines[0] += f", {converted.skipped} of them skipped, because no check could be converted"
    for title, lost in (("not converted", True), ("converted with another meaning", False)):
        notes = [note for note in converted.notes if note.lost is lost]
        if notes:
            lines += [f"{title}:", *(f"  {note}" for note in notes)]
    click.echo(safe_text("\n".join(lines)))
