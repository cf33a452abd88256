"""`seatrial plot`: a plot of a stored run as an SVG file."""

import sys
from pathlib import Path

import click

from seatrial.errors import UsageError
from seatrial.files import replacing
from seatrial.model.comparison import RegressionLimits
from seatrial.model.run import Run
from seatrial.reports.compare_plots import forest_of, slope_of
from seatrial.reports.history_plots import costs_of, heat_map_of, trend_of
from seatrial.reports.plots.svg import Plot
from seatrial.reports.run_plots import COMPARISON_KINDS, HISTORY_KINDS, KINDS, plot_run
from seatrial.runs.compare_runs import StoredRuns
from seatrial.runs.report import StoredRecord
from seatrial.store.store import Store

from . import shell_completion
from .options import open_stored, store_option

LOOKED_BACK = 30


@click.command("plot")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@click.option("--kind", type=click.Choice(KINDS), default="trials", show_default=True, help="What to plot.")
@click.option("--scenario", metavar="NAME", help="Plot only this scenario.")
@click.option("--against", metavar="RUN", default="baseline", help="For slope and forest: the run before (baseline).")
@click.option("--output", "-o", metavar="FILE", default="-", help="The SVG file to write; - is standard output.")
@store_option
def command(run: str, kind: str, scenario: str | None, against: str, output: str, store: str | None) -> int:
    """Write a plot of a stored run as SVG.

    RUN is an id, the start of an id, a name, `latest` (the default) or `baseline`. trend, heatmap and cost show the
    runs of the same name up to RUN. slope and forest compare it with another run.
    """
    with open_stored(store) as opened:
        plot = _plot(opened, opened.run(run), kind, scenario=scenario, against=against)
    _write(plot.file() + "\n", output)
    return 0


def _plot(store: Store, run: Run, kind: str, *, scenario: str | None, against: str) -> Plot:
    if kind in COMPARISON_KINDS:
        runs = StoredRuns(store, against, run.id)
        comparison = runs.compare(limits=RegressionLimits(), allow_unfinished=True)
        return slope_of(comparison) if kind == "slope" else forest_of(comparison)
    if kind in HISTORY_KINDS:
        return _history(store, run, kind)
    return plot_run(StoredRecord(store, run), kind, scenario=scenario)


def _history(store: Store, run: Run, kind: str) -> Plot:
    """The runs of this name, oldest first, up to the run."""
    known = [one for one in store.runs(name=run.name) if one.started_at <= run.started_at][:LOOKED_BACK]
    decided = [(one, StoredRecord(store, one).outcome) for one in reversed(known)]
    if kind == "heatmap":
        return heat_map_of(decided)
    if kind == "trend":
        baseline = store.baseline()
        return trend_of(decided, baseline=None if baseline is None else baseline.id)
    costs = costs_of(decided)
    if costs is None:
        raise UsageError(f"run {run.id}: its cost is not known, so there is nothing to plot")
    return costs


def _write(text: str, output: str) -> None:
    if output == "-":
        sys.stdout.write(text)
        return
    try:
        with replacing(Path(output)) as place:
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {output}: cannot write it: {error.strerror or error}") from None
