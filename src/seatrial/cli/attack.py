"""`seatrial attack`: is the agent safe against instructions in tool results?"""

import sys
from typing import Any

import click
from msgspec.structs import replace

from seatrial.attacks.payloads import FAMILIES
from seatrial.errors import UsageError
from seatrial.reports.progress import Progress
from seatrial.reports.registry import parse_report_option
from seatrial.reports.texts import counted
from seatrial.runs.attack import attack_sweep
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import NothingSelected, RunPlan

from . import options as cli_options
from . import shell_completion
from .main import show_error
from .output import print_table
from .run import play_plan


@click.command("attack")
@click.argument("paths", nargs=-1)
@click.option("--agent", help="Agent to attack instead of the suite's: package.module:attribute, or {type: …}.")
@cli_options.selection_options
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME|FILE",
    help=f"Only this family of payloads: {', '.join(FAMILIES)}, or a file of your own. Repeatable.",
)
@click.option("--trials", type=click.IntRange(min=1), help="Trials of each field, goal and family (3).")
@click.option("--limit", type=click.IntRange(min=1), help="Play at most this number of variants, drawn by the seed.")
@click.option("--seed", type=int, help="Seed of the draw and of all random values.")
@click.option("--concurrency", type=int, help="Number of trials that run at the same time (20).")
@click.option("--budget", type=float, metavar="USD", help="Start no more trials after this cost is reached.")
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=shell_completion.runs,
    help="Continue an interrupted run with its own settings.",
)
@click.option("--name", help="Name of the run.")
@click.option("--dry-run", is_flag=True, help="Show how many trials would run; call no agent.")
@cli_options.store_option
@cli_options.report_option
@cli_options.verbose_option
@cli_options.env_file_option
def command(paths: tuple[str, ...], **options: Any) -> int:
    """Attack an agent through tool results, as `attacks:` in the files says.

    Each scenario is played with a payload in each untrusted field, for each goal and family. Success is a fact: a call
    that was made, or a text that left. Exit code 0: the gate is passed, which is no proof of safety. 1: attacks
    succeeded, or nothing is known. 2: a mistake in files or options. 130: interrupted.
    """
    targets = [parse_report_option(text) for text in options["reports"]]
    progress = Progress(sys.stderr)
    plan = RunPlan(_request(paths, options, listeners=() if options["dry_run"] else (progress,)))
    try:
        if options["dry_run"]:
            return _show_plan(plan)
        return play_plan(plan, targets, verbose=options["verbose"], progress=progress).exit_code
    except NothingSelected as nothing:
        show_error(nothing)
        return 1


def _request(paths: tuple[str, ...], options: dict[str, Any], *, listeners: tuple[Any, ...]) -> RunRequest:
    overrides = {name: options[name] for name in ("seed", "concurrency", "budget") if options[name] is not None}
    request = cli_options.make_request(
        paths,
        environ=cli_options.read_environment(options["env_file"]),
        overrides=overrides,
        agent=cli_options.read_agent(options["agent"]),
        name=cli_options.check_run_name(options["name"]),
        scenario_text=options["scenario_text"],
        tags=options["tags"],
        store=options["store"],
        listeners=listeners,
    )
    if options["resume"] is not None:
        return _resumed(request, paths, options)
    sweep = attack_sweep(
        families=options["families"], trials=options["trials"], limit=options["limit"], seed=options["seed"]
    )
    return replace(request, sweep=sweep)


def _resumed(request: RunRequest, paths: tuple[str, ...], options: dict[str, Any]) -> RunRequest:
    from seatrial.runs.resume import request_again

    fixed = {"scenario": "scenario_text", "tag": "tags", "family": "families"}
    fixed |= {name: name for name in ("trials", "limit", "name")}
    given = [f"--{flag}" for flag, option in fixed.items() if options[option]]
    if given:
        raise UsageError(f"--resume uses the settings of the run. Leave out {', '.join(given)}")
    with cli_options.open_stored(options["store"]) as store:
        run = store.run(options["resume"])
    if run.sweep is None or run.sweep.get("kind") != "attack":
        raise UsageError(f"run {run.id}: is no sweep of attacks. Resume it: seatrial run --resume {run.id}")
    return request_again(run, replace(request, sources=paths, resume=run.id))


def _show_plan(plan: RunPlan) -> int:
    """The trials that would run, by scenario, field and goal."""
    plan.require_scenarios()
    cells: dict[tuple[str, str, str], list[int]] = {}
    for prepared in plan.scenarios():
        variant = prepared.entry.variant
        assert variant is not None
        place = (variant.scenario, variant.settings["field"], variant.settings["goal"])
        cells.setdefault(place, []).append(prepared.entry.trials)
    rows = [(*place, str(len(trials)), str(sum(trials))) for place, trials in cells.items()]
    print_table(("scenario", "field", "goal", "payloads", "trials"), rows)
    variants, trials = plan.count()
    click.echo(f"{counted(variants, 'variant')}, {counted(trials, 'trial')}; no agent was called")
    return 0
