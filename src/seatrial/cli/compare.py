"""`seatrial compare`."""

import os
import sys
from typing import Any

import click
from click.core import ParameterSource

from seatrial.comparison.gate import Gate, decide_gate
from seatrial.comparison.rerun_suspects import confirm
from seatrial.errors import UsageError
from seatrial.model.comparison import Comparison, RegressionLimits
from seatrial.reports.comparison import print_comparison
from seatrial.reports.console import print_run
from seatrial.reports.json_report import comparison_json, write_json
from seatrial.reports.progress import Progress
from seatrial.reports.terminal import json_text
from seatrial.runs.compare_runs import StoredRuns, make_rerun
from seatrial.runs.report import Report

from . import shell_completion
from .options import json_option, make_request, open_stored, store_option, store_url

_EXIT_CODES = {"NO REGRESSION": 0, "REGRESSION": 1, "UNDECIDED": 3}
_SEQUENTIAL = "sequential"
_NAMES_SHOWN = 10
_LIMITS = {
    "max_pass_rate_drop": "Allowed drop of the pass rate: 0.05 is 5 points. Selects --gate thresholds.",
    "max_avg_score_drop": "Allowed drop of the overall score, in points.",
    "max_latency_increase_pct": "Allowed increase in percent. Less than 20 ms never counts.",
    "max_cost_increase_pct": "Allowed increase of the cost of a trial in percent. No limit by default.",
}


def _limit_options(command: Any) -> Any:
    for name, text in reversed(_LIMITS.items()):
        flag, default = f"--{name.replace('_', '-')}", getattr(RegressionLimits(), name)
        command = click.option(flag, type=float, default=default, show_default=True, help=text)(command)
    return command


@click.command("compare")
@click.argument("base", default="baseline", shell_complete=shell_completion.runs)
@click.argument("candidate", metavar="CAND", default="latest", shell_complete=shell_completion.runs)
@_limit_options
@click.option(
    "--gate",
    type=click.Choice([*(gate.value for gate in Gate), _SEQUENTIAL]),
    help="What decides: auto (default: exact tests, and limits that are exceeded by more than noise), the limits, the "
    "tests, both, or the test against the history of BASE (sequential, as in `run --against`).",
)
@click.option("--confirm", "rerun", is_flag=True, help="Run suspect scenarios again and let the new trials decide.")
@click.option("--confirm-trials", type=click.IntRange(min=1), help="New trials per suspect. Default: calculated.")
@click.option("--pool", "pooled", multiple=True, metavar="RUN", help="Another run of the baseline. Repeatable.")
@click.option("--no-pool", is_flag=True, help="Use only the baseline, not other runs of its commit and agent.")
@click.option("--allow-missing", is_flag=True, help="Do not count scenarios that the candidate lacks as a regression.")
@click.option("--allow-unfinished", is_flag=True, help="Also compare runs that are not finished.")
@click.option("--verbose", "-v", is_flag=True, help="List unchanged scenarios and p-values too.")
@json_option
@store_option
def command(base: str, candidate: str, as_json: bool, **options: Any) -> int:
    """Compare two stored runs: what changed, and whether the change is larger than noise.

    BASE and CAND are ids, the start of an id, names, `baseline` or `latest`. By default, the latest run is compared
    with its baseline. Exit code 0: no regression. 1: a regression. 2: the runs cannot be compared. 3: undecided,
    because there are too few trials to tell, or trials could not be judged or tested.
    """
    if options["gate"] == _SEQUENTIAL:
        return _test_against_history(base, candidate, as_json=as_json, options=options)
    rerun, trials = options["rerun"], options["confirm_trials"]
    if trials is not None and not rerun:
        raise UsageError("--confirm-trials: needs --confirm")
    if rerun and options["gate"] == Gate.THRESHOLDS:
        raise UsageError("--confirm: cannot be combined with --gate thresholds, because exact tests decide")
    gate = Gate(options["gate"] or (Gate.THRESHOLDS if _is_given("max_pass_rate_drop") and not rerun else Gate.AUTO))
    limits = RegressionLimits(**{name: options[name] for name in _LIMITS})
    pools = {"pool": not options["no_pool"], "pooled": options["pooled"]}
    with open_stored(options["store"]) as opened:
        runs = StoredRuns(opened, base, candidate)
        comparison = runs.compare(limits=limits, allow_unfinished=options["allow_unfinished"], **pools)
        if rerun:
            comparison = _confirm(runs, comparison, trials=trials, store=options["store"])
        alignments = runs.explain_changes(comparison)
    decision = decide_gate(comparison, gate=gate, allow_missing=options["allow_missing"])
    if as_json:
        click.echo(json_text(comparison_json(comparison, gate=gate, decision=decision, alignments=alignments)))
    else:
        verbose = options["verbose"]
        print_comparison(comparison, sys.stdout, decision=decision, alignments=alignments, verbose=verbose)
    return _EXIT_CODES[decision.verdict]


def _test_against_history(base: str, candidate: str, *, as_json: bool, options: dict[str, Any]) -> int:
    """Decide the candidate's stored trials as `run --against` does."""
    wrong = [name for name in (*_LIMITS, "rerun", "pooled", "no_pool") if _is_given(name)]
    if wrong:
        flags = {"rerun": "--confirm", "pooled": "--pool"}
        named = ", ".join(flags.get(name, f"--{name.replace('_', '-')}") for name in wrong)
        raise UsageError(f"--gate sequential: uses the history alone. Leave out {named}")
    with open_stored(options["store"]) as opened:
        runs = StoredRuns(opened, base, candidate)
        record = runs.against_history(base, allow_unfinished=options["allow_unfinished"])
        report = Report(record)
        missing = [] if options["allow_missing"] else runs.find_missing()
    if as_json:
        write_json(record, sys.stdout)
    else:
        print_run(record, sys.stdout, verbose=options["verbose"])
        if report.outcome.word == "UNDECIDED":
            click.echo(f"More trials decide it: seatrial run --against {base}")
    if missing:
        names = ", ".join(key.label for key in missing[:_NAMES_SHOWN]) + (", …" if len(missing) > _NAMES_SHOWN else "")
        click.echo(f"REGRESSION: the candidate lacks scenarios of the baseline: {names}", err=as_json)
    return 1 if missing else report.exit_code


def _is_given(name: str) -> bool:
    """Whether the user gave the option."""
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT


def _confirm(runs: StoredRuns, comparison: Comparison, *, trials: int | None, store: str | None) -> Comparison:
    progress = Progress(sys.stderr)
    settings = make_request((), environ=dict(os.environ), overrides={}, store=store_url(store), listeners=(progress,))
    try:
        return confirm(comparison, make_rerun(runs.store, runs.candidate, settings), trials=trials)
    finally:
        progress.close()
