"""`seatrial label`: choose trials to label, and store the labels."""

import csv
import io
import os
from pathlib import Path

import click

from seatrial.errors import UsageError
from seatrial.model.run import ScenarioKey, Trial
from seatrial.reports.texts import counted
from seatrial.store.store import Store

from . import shell_completion
from .options import open_stored, store_option
from .output import write_file


@click.command("label")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@click.argument("labels", required=False, metavar="[LABELS]")
@click.option("--next", "count", type=click.IntRange(min=1), metavar="N", help="Choose the next N trials to label.")
@click.option("--output", "-o", metavar="FILE", help="Write the chosen trials to FILE instead of standard output.")
@click.option("--who", help="Your name, stored with the labels. Default: the user of this machine.")
@store_option
def command(
    run: str, labels: str | None, count: int | None, output: str | None, who: str | None, store: str | None
) -> int:
    """Choose trials of RUN for people to label, or store the labels of a file.

    `--next 20` writes a CSV file with the trials whose labels say most, chosen at random within each verdict of the
    judge. Write pass or fail into its column `label`; the verdicts are left out, so that they do not influence you.
    Then `seatrial label RUN LABELS` stores the labels, and `seatrial calibrate --run RUN` uses them.
    """
    from seatrial.runs.calibrate import choose_next, store_labels

    from .calibrate import show_gate

    if (labels is None) == (count is None):
        raise UsageError("label: give --next 20 to choose trials, or a file of labels to store: label RUN labels.csv")
    with open_stored(store) as opened:
        found = opened.run(run)
        if labels is not None:
            name = who or os.environ.get("USER") or os.environ.get("USERNAME") or "cli"
            stored = store_labels(opened, found, Path(labels), who=name)
            click.echo(f"run {found.id}: stored {counted(stored, 'label')}. Next: seatrial calibrate --run {found.id}")
            return show_gate(opened, found)
        chosen = choose_next(opened, found, count or 0)
        if not chosen:
            raise UsageError(f"run {found.id}: has no trial without a label that passed or failed.")
        text = _csv(opened, found.id, chosen)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_file(Path(output), text)
    more = f"seatrial label {found.id} {output or 'labels.csv'}"
    click.echo(f"{counted(len(chosen), 'trial')} to label: write pass or fail into `label`, then: {more}", err=True)
    return 0


def _csv(store: Store, run_id: str, chosen: list[tuple[ScenarioKey, int]]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(("scenario", "trial", "label", "input", "output"))
    for key, index in chosen:
        writer.writerow((key.label, index + 1, "", *_texts(store.trial(run_id, key, index))))
    return written.getvalue()


def _texts(trial: Trial) -> tuple[str, str]:
    """What the user and the agent said, one turn per line."""
    turns = trial.transcript.turns
    return "\n".join(str(turn.user) for turn in turns), "\n".join(str(turn.reply) for turn in turns)
