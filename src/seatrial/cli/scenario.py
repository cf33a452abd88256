"""`seatrial scenario from-trace`."""

from pathlib import Path

import click

from seatrial.errors import UsageError
from seatrial.traces.formats import FORMATS, read_trace
from seatrial.traces.recording import Recording, TraceFile
from seatrial.traces.scenario_file import notes_on, write_scenarios
from seatrial.traces.yaml_text import write_yaml


@click.group("scenario")
def command() -> None:
    """Make scenarios from what there is already."""


@command.command("from-trace")
@click.argument("file")
@click.option("--conversation", "chosen", multiple=True, metavar="ID", help="Only this conversation. Repeatable.")
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), help="Of the file; found out without it.")
@click.option("--output", "-o", metavar="FILE", help="Instead of standard output.")
def from_trace(file: str, chosen: tuple[str, ...], format_: str | None, output: str | None) -> int:
    """Write recorded conversations as scenarios: the user's turns, mocks of what the tools gave, first expectations.

    The suite that is written replays the recording, and passes. To test your agent by it, put it under `suite.agent`,
    or give it with `seatrial run --agent`.
    """
    trace = read_trace(file, format=format_)
    recordings = _choose(trace, chosen)
    agent = {"type": "replay", "path": file, **({"format": format_} if format_ else {})}
    document = write_scenarios(recordings, suite=Path(file).stem, agent=agent)
    notes = [*trace.notes, *notes_on(recordings)]
    comments = [f"# {line}" for note in notes for line in note.splitlines()]
    text = "\n".join([*comments, write_yaml(document)])
    if output in (None, "-"):
        click.echo(text, nl=False)
        return 0
    _write(Path(str(output)), text)
    count = len(recordings)
    click.echo(f"wrote {count} scenario{'' if count == 1 else 's'} to {output}; try: seatrial run {output}", err=True)
    return 0


def _choose(trace: TraceFile, chosen: tuple[str, ...]) -> list[Recording]:
    unknown = [name for name in chosen if all(each.name != name for each in trace.recordings)]
    if unknown:
        known = [each.name for each in trace.recordings]
        more = f" and {len(known) - 10} more" if len(known) > 10 else ""
        raise UsageError(
            f"{trace.path}: no conversation is called {unknown[0]!r}. There are: {', '.join(known[:10])}{more}"
        )
    return [each for each in trace.recordings if not chosen or each.name in chosen]


def _write(file: Path, text: str) -> None:
    if file.exists():
        raise UsageError(f"{file}: exists already, and may have been edited. Choose another file: -o FILE")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from None
