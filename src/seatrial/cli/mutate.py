"""`seatrial mutate`: does the suite notice defects?"""

import sys
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.mutation import MutationResult
from seatrial.reports.mutation import (
    MUTATION_FORMATS,
    mutation_json,
    parse_mutation_report,
    print_mutation,
    suggestions_yaml,
    write_mutation,
)
from seatrial.reports.terminal import json_text
from seatrial.reports.texts import counted, percent

from . import shell_completion
from .options import (
    env_file_option,
    json_option,
    judge_model_option,
    make_request,
    open_stored,
    read_environment,
    store_option,
    verbose_option,
)
from .output import write_file


@click.command("mutate")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@click.argument("paths", nargs=-1)
@click.option("--operator", "operators", multiple=True, metavar="NAME", help="Only this operator. Repeatable.")
@click.option(
    "--per-operator",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Most mutants of an operator in a scenario.",
)
@click.option("--limit", type=click.IntRange(min=1), default=10_000, show_default=True, help="Most mutants in all.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice of mutants.")
@click.option("--judges", is_flag=True, help="Ask judges too. The number of calls and the price are shown first.")
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="With --judges: what they may cost."
)
@click.option(
    "--min-score", type=click.FloatRange(0, 1), metavar="SHARE", help="Exit with 1 if less is caught, such as 0.8."
)
@click.option("--write-suggestions", metavar="FILE", help="Write the suggested lines to FILE, for `include`.")
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="FORMAT[=PATH]",
    help=f"Write a report: {', '.join(MUTATION_FORMATS)}.",
)
@json_option
@judge_model_option
@store_option
@verbose_option
@env_file_option
def command(run: str, paths: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Break the passed trials of RUN in known ways, and see which checks of the suite notice.

    No agent is called, and no judge without --judges. RUN is an id, a name or `latest` (the default). PATHS are the
    files with the checks; the default is the files of RUN. Lines that would catch more are printed after they were
    verified. Exit code 1: the score is below --min-score, or there is none.
    """
    from seatrial.runs.compare_runs import newest_run
    from seatrial.runs.mutate import MutationSettings, mutate_record
    from seatrial.runs.report import StoredRecord

    if options["budget"] is not None and not options["judges"]:
        raise UsageError("--budget: is the limit of judges. Give --judges, or leave it out")
    targets = [parse_mutation_report(text) for text in options["reports"]]
    folder = Path.cwd()
    environ = read_environment(options["env_file"])
    model = options["judge_model"]
    overrides = {"models": {"judge": model} if model else None}
    request = make_request(paths, environ=environ, overrides=overrides, store=options["store"])
    progress = _Progress()
    settings = MutationSettings(
        per_operator=options["per_operator"],
        limit=options["limit"],
        seed=options["seed"],
        operators=options["operators"],
        judges=options["judges"],
        budget=options["budget"],
        on_plan=lambda text: click.echo(text, err=True),
        on_progress=progress.tell,
    )
    with open_stored(options["store"]) as opened:
        found = newest_run(opened) if run == "latest" else opened.run(run)
        result = mutate_record(StoredRecord(opened, found), replace(request, sources=paths), settings)
    progress.close()
    if as_json:
        click.echo(json_text(mutation_json(result)))
    else:
        print_mutation(result, sys.stdout, verbose=options["verbose"])
    for name, path in targets:
        write_mutation(name, result, path or environ.get("GITHUB_STEP_SUMMARY") or "-", folder=folder)
        if path is not None and str(path) != "-":
            click.echo(f"wrote {path}", err=True)
    if options["write_suggestions"] is not None:
        _write_suggestions(Path(options["write_suggestions"]), result)
    return 130 if result.interrupted else _exit_code(result, options["min_score"])


def _exit_code(result: MutationResult, least: float | None) -> int:
    score = result.score
    if score is None:
        click.echo("no mutant was judged, so nothing is known about the suite", err=True)
        return 1
    if least is not None and score < least:
        click.echo(f"{percent(score)} of the mutants are caught, and --min-score asks for {percent(least)}", err=True)
        return 1
    if least is not None and not result.finished:
        click.echo("not all mutants were judged, so it is not known whether --min-score is reached", err=True)
        return 1
    return 0


def _write_suggestions(file: Path, result: MutationResult) -> None:
    if not result.suggestions:
        click.echo(f"there are no suggestions, so {file} is not written", err=True)
        return
    write_file(file, suggestions_yaml(result.suggestions))
    lines = counted(len(result.suggestions), "line")
    click.echo(f"wrote {lines} to {file}; name it in the suite: include: [{file.name}]", err=True)


class _Progress:
    """One line on a terminal that shows how far it is; elsewhere a line for each tenth."""

    def __init__(self) -> None:
        self._shown = 0

    def tell(self, done: int, planned: int, tally: Any) -> None:
        terminal = sys.stderr.isatty()
        step = max(planned // (100 if terminal else 10), 1)
        if done % step and done != planned:
            return
        text = f"{done:,}/{planned:,} mutants, {tally.caught:,} caught"
        if not terminal:
            click.echo(text, err=True)
        else:
            sys.stderr.write("\r" + text.ljust(self._shown))
            sys.stderr.flush()
            self._shown = len(text)

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
