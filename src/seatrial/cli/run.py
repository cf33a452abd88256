"""What `run --dry-run` says of `trials: auto`: the exact number of trials and the chance of each verdict."""

import dataclasses
import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from math import log
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.run import ScenarioEntry
from seatrial.reports.progress import Progress
from seatrial.reports.registry import parse_report_option
from seatrial.runs.execute_run import execute
from seatrial.runs.report import Report, StoredRecord
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import NothingSelected, RunPlan
from seatrial.statistics.sequential import SequentialTest, operating_point
from seatrial.verdicts.rates import read_sequential_test

from . import shell_completion
from .main import show_error
from .options import (
    check_run_id,
    check_run_name,
    make_request,
    open_stored,
    parse_shard,
    read_agent,
    read_assignments,
    read_environment,
    selection_options,
)
from .output import ReportTarget, format_table, reports_of, show_and_write


def describe_sequential(entries: Iterable[ScenarioEntry]) -> list[str]:
    """Lines about the scenarios that run until they are decided, by the settings they share; none without any."""
    tests = Counter(
        tuple(sorted(entry.sequential.items()))
        for entry in entries
        if entry.sequential is not None and entry.skip is None
    )
    return [line for settings, count in tests.items() for line in _describe(dict(settings), count)]


def _describe(settings: dict[str, float], count: int) -> Iterator[str]:
    test = read_sequential_test(settings)
    several = count > 1
    yield ""
    yield (
        f"trials: auto in {count} scenario{'s' if several else ''} (good {test.good:g}, bad {test.bad:g}, "
        f"alpha {test.alpha:g}, beta {test.beta:g}, at most {test.max_trials} trials); exact values for one scenario:"
    )
    yield from _table(test)
    if several:
        yield from _whole_suite(test, count)


def _table(test: SequentialTest) -> list[str]:
    rates = sorted({1.0, test.good, (test.good + test.bad) / 2.0, test.bad, test.bad / 2.0}, reverse=True)
    rows = []
    for rate in rates:
        point = operating_point(test, rate)
        shares = (point.passes, point.fails, point.inconclusive)
        rows.append((f"{rate:.3g}", *(_percent(share) for share in shares), f"{point.expected_trials:.1f}"))
    return format_table(("true rate", "passes", "fails", "inconclusive", "mean trials"), rows)


def _whole_suite(test: SequentialTest, count: int) -> Iterator[str]:
    """Errors add up over scenarios: each is right nineteen times in twenty, all of them together are not."""
    perfect, good, bad = (operating_point(test, rate) for rate in (1.0, test.good, test.bad))
    yield (
        f"for all {count}: {count * perfect.expected_trials:,.0f} trials if every one always passes, "
        f"{count * good.expected_trials:,.0f} at {test.good:g}, {count * bad.expected_trials:,.0f} at {test.bad:g}, "
        f"at most {count * test.max_trials:,}"
    )
    yield (
        f"errors add up: if all {count} are at {test.good:g}, the chance that at least one fails is "
        f"{_percent(_any(good.fails, count))}, that at least one does not pass {_percent(_any(1 - good.passes, count))}"
    )
    alpha = test.alpha / count
    # The evidence that a smaller error asks for grows with its logarithm, and so does the number of trials.
    split = dataclasses.replace(test, alpha=alpha, max_trials=round(test.max_trials * log(alpha) / log(test.alpha)))
    fairer = operating_point(split, test.good)
    yield (
        f"to correct for this, set sequential: {{alpha: {split.alpha:.2g}, max_trials: {split.max_trials}}} makes that "
        f"{_percent(_any(fairer.fails, count))} and {_percent(_any(1 - fairer.passes, count))}, "
        f"at {count * fairer.expected_trials:,.0f} trials at {test.good:g}"
    )


def _any(chance: float, count: int) -> float:
    return 1.0 - (1.0 - chance) ** count


def _percent(share: float) -> str:
    if 0.0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %".replace(".0 %", " %")


@click.command("run")
@click.argument("paths", nargs=-1)
@click.option("--agent", help="Agent to run instead of the suite's: package.module:attribute, or {type: …}.")
@selection_options
@click.option("--failed", is_flag=True, help="Only scenarios that did not pass in the last run.")
@click.option("--trials", help="Trials per scenario: a number, or auto.")
@click.option("--concurrency", type=int, help="Number of trials that run at the same time (20).")
@click.option("--seed", type=int, help="Seed of the order and of all random values.")
@click.option("--fail-fast", is_flag=True, default=None, help="Stop as soon as a scenario cannot pass any more.")
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=shell_completion.runs,
    help="Continue an interrupted run with its own settings.",
)
@click.option(
    "--retry-errors", is_flag=True, help="With --resume: repeat trials that errored, but not because of the agent."
)
@click.option(
    "--retry-agent-errors",
    is_flag=True,
    help="With --resume: also repeat trials in which the agent errored. They still count as failed.",
)
@click.option("--name", help="Name of the run.")
@click.option("--id", "run_id", help="Id of the new run, such as the id of a CI job. Default: generated.")
@click.option("--budget", type=float, metavar="USD", help="Start no more trials after this cost is reached.")
@click.option("--judge-model", help="Model of the judge, such as openai:gpt-5-mini.")
@click.option("--user-model", help="Model of simulated users.")
@click.option("--pass-threshold", type=float, help="Overall score that a trial needs (75).")
@click.option("--metrics-pass-threshold", type=float, help="Mean score that the run needs (80).")
@click.option("--cases-pass-threshold", type=float, help="Percentage of trials that must pass.")
@click.option(
    "--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Set a key of suite.config. Repeatable."
)
@click.option("--store", help="Where runs are stored: a file or postgresql://… (.seatrial/runs.db).")
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", help="Where trials run (local).")
@click.option(
    "--ray-address",
    metavar="ADDRESS",
    help="With --executor ray: address of the cluster (RAY_ADDRESS, else a new local one).",
)
@click.option("--shard", metavar="I/N", help="Run only part I of N of the suite.")
@click.option("--report", "reports", multiple=True, metavar="KIND[=PATH]", help="console, json, jsonl, html, junit, …")
@click.option("--verbose", "-v", is_flag=True, help="Show whole transcripts, tool calls and all results.")
@click.option("--watch", is_flag=True, help="Run affected scenarios again whenever a file changes, until Ctrl-C.")
@click.option("--dry-run", is_flag=True, help="Show what would run; call no agent.")
@click.option("--env-file", metavar="FILE", help="Read environment variables from a file.")
def command(**options: Any) -> int:
    """Run scenarios against an agent.

    PATHS are files or folders; the default is the folder `scenarios`. Exit code 0: passed. 1: not passed, or nothing
    was run. 2: a mistake in files or options. 130: interrupted.
    """
    asked = [parse_report_option(text) for text in options["reports"]]
    if options["watch"]:
        from .watch import watch

        return watch(options)
    progress = Progress(sys.stderr)
    plan = RunPlan(_request(options, listeners=() if options["dry_run"] else (progress,)))
    if gone := plan.find_missing():
        click.echo(f"--failed: {', '.join(gone)}: failed in the last run, but no longer exists", err=True)
    if options["dry_run"]:
        _all_reports(plan, asked)
        return _show_plan(plan)
    try:
        report = play_plan(plan, asked, verbose=options["verbose"], progress=progress)
    except NothingSelected as nothing:
        show_error(nothing)
        return 1
    if plan.request.resume and not report.played:
        click.echo(f"run {report.run.id}: no trial was missing, so nothing was run", err=True)
    if plan.request.retry_errors and not plan.request.retry_agent_errors:
        _tell_of_agent_errors(report)
    return report.exit_code


def _tell_of_agent_errors(report: Report) -> None:
    from seatrial.reports.texts import counted

    left = sum(outcome.broken_down for outcome in report.outcome.scenarios)
    if left:
        was, them = ("was", "it") if left == 1 else ("were", "them")
        what = f"{counted(left, 'trial')} in which the agent errored {was} not repeated"
        click.echo(f"run {report.run.id}: {what}. To repeat {them}: --retry-agent-errors", err=True)


def play_plan(plan: RunPlan, asked: list[ReportTarget], *, verbose: bool, progress: Progress) -> Report:
    """Play it, show it, and write the reports that flags and suites ask for."""
    reports = _all_reports(plan, asked)
    folder = Path.cwd()
    gc.freeze()  # what was loaded stays to the end: no need to look for garbage in it again and again
    try:
        report = execute(plan)
    finally:
        progress.close()
    show_and_write(report, reports, folder=folder, verbose=verbose, environ=plan.request.environ)
    return report


def _request(options: dict[str, Any], *, listeners: tuple[Any, ...]) -> RunRequest:
    request = read_request(options, listeners=listeners)
    if options["resume"] is None:
        for flag in ("--retry-errors", "--retry-agent-errors"):
            if options[flag.removeprefix("--").replace("-", "_")]:
                raise UsageError(f"{flag}: needs a run to resume. Give --resume RUN {flag}")
        return request
    return _again(request, options)


def _again(request: RunRequest, options: dict[str, Any]) -> RunRequest:
    """The request of the run that is resumed, with what the flags say beside."""
    from seatrial.runs.resume import request_again

    names = {"scenario": "scenario_text", "tag": "tags", "id": "run_id"}
    fixed = names | {name: name for name in ("failed", "shard", "name")}
    given = [f"--{flag}" for flag, option in fixed.items() if options[option]]
    if given:
        raise UsageError(f"--resume uses the selection and name of the run. Leave out {', '.join(given)}")
    with open_stored(options["store"]) as store:
        run = store.run(options["resume"])
    return request_again(run, replace(request, sources=options["paths"], resume=run.id))


def read_request(options: dict[str, Any], *, listeners: tuple[Any, ...]) -> RunRequest:
    """What the flags ask for, a run to be resumed left aside."""
    if options["ray_address"] and options["executor"] != "ray":
        raise UsageError("--ray-address: needs --executor ray")
    environ = read_environment(options["env_file"])
    assigned = read_assignments(options["assignments"])
    models = {role: options[f"{role}_model"] for role in ("judge", "user") if options[f"{role}_model"]}
    flags = {
        "trials": _trials(options["trials"]),
        "concurrency": options["concurrency"],
        "seed": options["seed"],
        "fail_fast": options["fail_fast"],
        "budget": options["budget"],
        "pass_threshold": options["pass_threshold"],
        "metrics_pass_threshold": options["metrics_pass_threshold"],
        "cases_pass_threshold": options["cases_pass_threshold"],
        "models": {**(assigned.get("models") or {}), **models} if models else None,
    }
    # A flag that was not given must not take away what --set says.
    overrides = {**assigned, **{name: value for name, value in flags.items() if value is not None}}
    return make_request(
        options["paths"],
        environ=environ,
        overrides=overrides,
        agent=read_agent(options["agent"]),
        scenario_text=options["scenario_text"],
        tags=options["tags"],
        only=_failed_last_time(options["store"]) if options["failed"] else None,
        name=check_run_name(options["name"]),
        id=check_run_id(options["run_id"]),
        store=options["store"],
        resume=options["resume"],
        retry_errors=options["retry_errors"],
        retry_agent_errors=options["retry_agent_errors"],
        shard=parse_shard(options["shard"]),
        executor=options["executor"],
        ray_address=options["ray_address"],
        listeners=listeners,
    )


def _trials(text: str | None) -> Any:
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--trials {text!r}: expected a number or auto") from None


def _failed_last_time(store: str | None) -> frozenset[tuple[str, str]]:
    """The scenarios that spoke against the last run."""
    from seatrial.reports.texts import failing

    with open_stored(store) as opened:
        outcomes = failing(StoredRecord(opened, opened.run("latest")).outcome)
    return frozenset((outcome.entry.key.suite, outcome.entry.key.name) for outcome in outcomes)


def _all_reports(plan: RunPlan, asked: list[ReportTarget]) -> list[ReportTarget]:
    """With what the suites' own `reports` ask for; a flag of the same kind comes instead of it."""
    by_flag = {kind for kind, _ in asked}
    found = dict.fromkeys(report for suite in plan.suites for report in reports_of(suite))
    return [*asked, *((kind, path) for kind, path in found if kind not in by_flag)]


def _show_plan(plan: RunPlan) -> int:
    from seatrial.reports.texts import counted

    plan.require_scenarios()
    rows, entries = [], []
    for prepared in plan.scenarios():
        entry = prepared.entry
        entries.append(entry)
        what = counted(entry.trials, "trial") if entry.skip is None else f"skipped: {entry.skip}"
        if entry.sequential is not None and entry.skip is None:
            what = f"auto, at most {entry.trials}"
        rows.append((entry.key.suite, entry.key.label, prepared.agent.name, what))
    for line in format_table(("suite", "scenario", "agent", "trials"), rows):
        click.echo(line)
    for line in describe_sequential(entries):
        click.echo(line)
    scenarios, trials = plan.count()
    most = "at most " if any(entry.sequential for entry in entries) else ""
    click.echo(f"{counted(scenarios, 'scenario')}, {most}{counted(trials, 'trial')}; nothing was run")
    return 0
