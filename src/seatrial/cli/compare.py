"""`seatrial compare`."""

import os
import sys

import click

from seatrial.comparison.gate import Gate, decide_gate
from seatrial.comparison.rerun_suspects import confirm
from seatrial.errors import UsageError
from seatrial.model.comparison import Comparison, RegressionLimits
from seatrial.reports.comparison import print_comparison
from seatrial.reports.json_report import comparison_json
from seatrial.reports.terminal import json_text
from seatrial.runs.compare_runs import StoredRuns, make_rerun

from . import shell_completion
from .options import make_request, open_stored, store_url


@click.command("compare")
@click.argument("base", default="baseline", shell_complete=shell_completion.runs)
@click.argument("candidate", metavar="CAND", default="latest", shell_complete=shell_completion.runs)
@click.option(
    "--max-pass-rate-drop",
    type=float,
    default=0.0,
    show_default=True,
    help="Allowed drop of the pass rate: 0.05 is 5 points.",
)
@click.option(
    "--max-avg-score-drop",
    type=float,
    default=5.0,
    show_default=True,
    help="Allowed drop of the overall score, in points.",
)
@click.option(
    "--max-latency-increase-pct",
    type=float,
    default=20.0,
    show_default=True,
    help="Allowed increase in percent. Less than 20 ms never counts.",
)
@click.option(
    "--gate",
    type=click.Choice([gate.value for gate in Gate]),
    help="What decides: the limits (default), exact tests (default with --confirm), or both.",
)
@click.option(
    "--confirm", "second_look", is_flag=True, help="Run suspect scenarios again and let the new trials decide."
)
@click.option(
    "--confirm-trials", type=click.IntRange(min=1), help="New trials per suspect scenario. Default: calculated."
)
@click.option(
    "--pool", "pooled", multiple=True, metavar="RUN", help="Another run whose trials count as baseline. Repeatable."
)
@click.option("--no-pool", is_flag=True, help="Use only the baseline, not other runs of its commit and agent.")
@click.option("--allow-missing", is_flag=True, help="Do not count scenarios that the candidate lacks as a regression.")
@click.option("--allow-unfinished", is_flag=True, help="Also compare runs that are not finished.")
@click.option("--verbose", "-v", is_flag=True, help="List unchanged scenarios too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--store", help="Where runs are stored: a file or postgresql://….")
def command(
    base: str,
    candidate: str,
    max_pass_rate_drop: float,
    max_avg_score_drop: float,
    max_latency_increase_pct: float,
    gate: str | None,
    second_look: bool,
    confirm_trials: int | None,
    pooled: tuple[str, ...],
    no_pool: bool,
    allow_missing: bool,
    allow_unfinished: bool,
    verbose: bool,
    as_json: bool,
    store: str | None,
) -> int:
    """Compare two stored runs: what changed, and whether it is beyond noise.

    BASE and CAND are ids, beginnings of ids, names, `baseline` or `latest`; without them, the latest run is compared
    with its baseline. Exit code 0: no regression; 1: a regression; 2: the runs cannot be compared; 3: undecided,
    because trials could not be judged or tested.
    """
    if confirm_trials is not None and not second_look:
        raise UsageError("--confirm-trials: needs --confirm")
    if second_look and gate == Gate.THRESHOLDS:
        raise UsageError(
            "--confirm: decides by exact tests, so it cannot be combined with --gate thresholds. Use --gate both"
        )
    chosen = Gate(gate) if gate else Gate.STATISTICAL if second_look else Gate.THRESHOLDS
    limits = RegressionLimits(
        max_pass_rate_drop=max_pass_rate_drop,
        max_avg_score_drop=max_avg_score_drop,
        max_latency_increase_pct=max_latency_increase_pct,
    )
    with open_stored(store) as opened:
        runs = StoredRuns(opened, base, candidate)
        comparison = runs.compare(limits=limits, allow_unfinished=allow_unfinished, pool=not no_pool, pooled=pooled)
        if second_look:
            comparison = _confirm(runs, comparison, trials=confirm_trials, store=store)
        alignments = runs.explain_changes(comparison)
    decision = decide_gate(comparison, gate=chosen, allow_missing=allow_missing)
    if as_json:
        form = comparison_json(comparison, gate=chosen.value, decision=decision, alignments=alignments)
        click.echo(json_text(form))
    else:
        print_comparison(comparison, sys.stdout, decision=decision, alignments=alignments, verbose=verbose)
    return _EXIT_CODES[decision.verdict]


_EXIT_CODES = {"NO REGRESSION": 0, "REGRESSION": 1, "UNDECIDED": 3}


def _confirm(runs: StoredRuns, comparison: Comparison, *, trials: int | None, store: str | None) -> Comparison:
    from seatrial.reports.progress import Progress

    progress = Progress(sys.stderr)
    settings = make_request((), environ=dict(os.environ), overrides={}, store=store_url(store), listeners=(progress,))
    try:
        return confirm(comparison, make_rerun(runs.store, runs.candidate, settings), trials=trials)
    finally:
        progress.close()
