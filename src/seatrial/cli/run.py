"""`seatrial run`, and what `--dry-run` says about `trials: auto`."""

import dataclasses
import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import log
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.run import RunHistory, RunState, ScenarioEntry
from seatrial.reports.progress import Progress
from seatrial.reports.registry import parse_report_option
from seatrial.reports.terminal import safe_text
from seatrial.reports.texts import counted, failing
from seatrial.runs.execute_run import execute, prepare_history
from seatrial.runs.new_run import find_commit
from seatrial.runs.report import Report, StoredRecord
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import NothingSelected, RunPlan
from seatrial.statistics.sequential import SequentialTest, operating_point
from seatrial.store.store import open_store
from seatrial.verdicts.rates import read_sequential_test

from . import options as cli_options
from . import shell_completion
from .faults import describe_sweep, fault_options, read_sweep
from .main import show_error
from .output import ReportTarget, format_table, reports_of, show_and_write

_CONFIG = (
    "concurrency",
    "seed",
    "fail_fast",
    "budget",
    "pass_threshold",
    "metrics_pass_threshold",
    "cases_pass_threshold",
)
"""Options that set the key of suite.config with the same name."""
_SAME_IN_REQUEST = (
    "scenario_text",
    "tags",
    "store",
    "resume",
    "against",
    "record",
    "retry_errors",
    "retry_agent_errors",
    "executor",
    "ray_address",
)


@click.command("run")
@click.argument("paths", nargs=-1)
@click.option("--agent", help="Agent to run instead of the suite's: package.module:attribute, or {type: …}.")
@cli_options.selection_options
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
    "--against",
    metavar="RUN",
    shell_complete=shell_completion.runs,
    help="Test against the history of `baseline`, or of a run: more trials only where needed. Exit code 3: undecided.",
)
@click.option("--retry-errors", is_flag=True, help="With --resume: repeat errored trials, except errors of the agent.")
@click.option(
    "--retry-agent-errors",
    is_flag=True,
    help="With --resume: also repeat trials in which the agent errored. They still count as failed.",
)
@click.option("--name", help="Name of the run.")
@click.option("--id", "run_id", help="Id of the new run, such as the id of a CI job. Default: generated.")
@click.option("--budget", type=float, metavar="USD", help="Start no more trials after this cost is reached.")
@cli_options.judge_model_option
@click.option("--user-model", help="Model of simulated users.")
@click.option("--pass-threshold", type=float, help="Overall score that a trial needs (75).")
@click.option("--metrics-pass-threshold", type=float, help="Mean score that the run needs (80).")
@click.option("--cases-pass-threshold", type=float, help="Percentage of trials that must pass.")
@click.option("--set", "assignments", multiple=True, metavar="PATH=VALUE", help="Set any key of suite.config.")
@cli_options.store_option
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", help="Where trials run (local).")
@click.option("--ray-address", metavar="ADDRESS", help="Ray cluster (RAY_ADDRESS, else a new local one).")
@click.option("--shard", metavar="I/N", help="Run only part I of N of the suite.")
@cli_options.report_option
@click.option(
    "--notify",
    "receivers",
    multiple=True,
    metavar="URL",
    envvar="SEATRIAL_NOTIFY",
    help="Send the result to a webhook, or to Slack (slack=URL). Repeatable. Better: set SEATRIAL_NOTIFY.",
)
@cli_options.verbose_option
@fault_options
@click.option("--record", metavar="FILE", help="Run the real tools and record their calls in FILE, for `mocks_from`.")
@click.option("--verify-mocks", is_flag=True, help="Call recorded tools again and list differences; call no agent.")
@click.option("--watch", is_flag=True, help="Run affected scenarios again whenever a file changes, until Ctrl-C.")
@click.option("--dry-run", is_flag=True, help="Show what would run; call no agent.")
@cli_options.env_file_option
def command(**options: Any) -> int:
    """Run scenarios against an agent.

    PATHS are files or folders; the default is the folder `scenarios`. Exit code 0: passed. 1: not passed, or nothing
    was run. 2: a mistake in files or options. 3: undecided (only with --against). 130: interrupted.
    """
    targets = [parse_report_option(text) for text in options["reports"]]
    receivers = _receivers(options)
    if options["watch"] and options["faults"] is None:
        from .watch import watch

        return watch(options)
    progress = Progress(sys.stderr)
    plan = RunPlan(_request(options, listeners=() if options["dry_run"] else (progress,)))
    if gone := plan.find_missing():
        click.echo(f"--failed: {', '.join(gone)}: failed in the last run, but no longer exists", err=True)
    if options["dry_run"]:
        _all_reports(plan, targets)
        return _show_plan(plan)
    if options["verify_mocks"]:
        return _verify_mocks(plan)
    try:
        report = play_plan(plan, targets, verbose=options["verbose"], progress=progress)
    except NothingSelected as nothing:
        show_error(nothing)
        return 1
    if report.run.state is not RunState.INTERRUPTED:
        _notify(receivers, report, plan.request.environ)
    if plan.request.record is not None:
        _write_recording(report, plan, plan.request.record)
    if plan.request.resume and not report.played:
        click.echo(f"run {report.run.id}: no trial was missing, so nothing was run", err=True)
    if plan.request.retry_errors and not plan.request.retry_agent_errors:
        _suggest_retry(report)
    return report.exit_code


def _receivers(options: dict[str, Any]) -> list[Any]:
    """The receivers of `--notify`. Without it, the module for them is not loaded."""
    if not options["receivers"]:
        return []
    from seatrial.reports.notify import parse_receiver

    return [parse_receiver(text) for text in options["receivers"]]


def _notify(receivers: list[Any], report: Report, environ: Mapping[str, str]) -> None:
    """Tell the receivers. What goes wrong is printed, and changes no verdict."""
    for receiver in receivers:
        from seatrial.reports.notify import notify

        problem = notify(receiver, report.record, environ)
        if problem is not None:
            click.echo(safe_text(f"warning: {problem}"), err=True)


def _write_recording(report: Report, plan: RunPlan, file: str) -> None:
    from seatrial.runs.recorded_calls import record_run

    recording = record_run(report, file, plan)
    click.echo(f"recorded {counted(recording.count, 'call')} in {file}", err=True)
    for call in recording.contradictions[:10]:
        click.echo(f"note: {call} got other answers in another trial; the first ones are kept", err=True)


def _verify_mocks(plan: RunPlan) -> int:
    """Call the recorded tools again. 0 only if all answer as recorded."""
    import asyncio

    from seatrial.runs.recorded_calls import find_recordings, verify

    recordings = find_recordings(plan)
    total = sum(len(calls) for recorded in recordings for calls in recorded.calls.values())
    click.echo(f"calling real tools again: {counted(total, 'call')}", err=True)
    found = asyncio.run(verify(recordings))
    for drift in found.drifts:
        click.echo(f"✗ {drift.tool}({drift.arguments})\n    recorded: {drift.recorded}\n    now:      {drift.now}")
    for name in found.unknown:
        click.echo(f"✗ {name}: cannot be called again, since it is not a function with @seatrial.tool")
    if found.skipped:
        click.echo(f"{counted(found.skipped, 'call')} with redacted arguments cannot be made again")
    click.echo(f"{counted(found.checked, 'call')} checked, {counted(len(found.drifts), 'difference')}")
    return 1 if found.drifts or found.unknown or not found.checked else 0


def _suggest_retry(report: Report) -> None:
    left = sum(outcome.broken_down for outcome in report.outcome.scenarios)
    if left:
        was, them = ("was", "it") if left == 1 else ("were", "them")
        what = f"{counted(left, 'trial')} in which the agent errored {was} not repeated"
        click.echo(f"run {report.run.id}: {what}. To repeat {them}: --retry-agent-errors", err=True)


def play_plan(plan: RunPlan, targets: list[ReportTarget], *, verbose: bool, progress: Progress) -> Report:
    """Run the plan, show the result, and write the reports of options and suites."""
    reports = _all_reports(plan, targets)
    folder = Path.cwd()
    gc.freeze()  # loaded modules and suites stay until the end: the collector need not look at them
    try:
        report = execute(plan)
    finally:
        progress.close()
    show_and_write(report, reports, folder=folder, verbose=verbose, environ=plan.request.environ)
    return report


def _request(options: dict[str, Any], *, listeners: tuple[Any, ...]) -> RunRequest:
    request = read_request(options, listeners=listeners)
    if options["resume"] is not None:
        return _resumed(request, options)
    for flag in ("--retry-errors", "--retry-agent-errors"):
        if options[flag.removeprefix("--").replace("-", "_")]:
            raise UsageError(f"{flag}: needs a run to resume. Give --resume RUN {flag}")
    return request


def _resumed(request: RunRequest, options: dict[str, Any]) -> RunRequest:
    """The request of the run to resume, with the options added."""
    from seatrial.runs.resume import request_again

    names = {"scenario": "scenario_text", "tag": "tags", "id": "run_id"}
    fixed = names | {name: name for name in ("failed", "shard", "name", "against", "faults")}
    given = [f"--{flag}" for flag, option in fixed.items() if options[option]]
    if given:
        raise UsageError(f"--resume uses the selection and name of the run. Leave out {', '.join(given)}")
    with cli_options.open_stored(options["store"]) as store:
        run = store.run(options["resume"])
    return request_again(run, replace(request, sources=options["paths"], resume=run.id))


def read_request(options: dict[str, Any], *, listeners: tuple[Any, ...]) -> RunRequest:
    """The request of the options, without what a resumed run adds."""
    if options["ray_address"] and options["executor"] != "ray":
        raise UsageError("--ray-address: needs --executor ray")
    environ = cli_options.read_environment(options["env_file"])
    assigned = cli_options.read_assignments(options["assignments"])
    models = {role: options[f"{role}_model"] for role in ("judge", "user") if options[f"{role}_model"]}
    overrides = {name: options[name] for name in _CONFIG} | {"trials": _trials(options["trials"])}
    if models:
        overrides["models"] = {**(assigned.get("models") or {}), **models}
    given = {name: value for name, value in overrides.items() if value is not None}
    return cli_options.make_request(
        options["paths"],
        environ=environ,
        overrides={**assigned, **given},
        agent=cli_options.read_agent(options["agent"]),
        only=_failed_last_time(options["store"]) if options["failed"] else None,
        name=cli_options.check_run_name(options["name"]),
        id=cli_options.check_run_id(options["run_id"]),
        shard=cli_options.parse_shard(options["shard"]),
        sweep=read_sweep(options, {**assigned, **given}),
        listeners=listeners,
        **{name: options[name] for name in _SAME_IN_REQUEST},
    )


def _trials(text: str | None) -> Any:
    if text is None or text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--trials {text!r}: expected a number or auto") from None


def _failed_last_time(store: str | None) -> frozenset[tuple[str, str]]:
    """Suite and name of the scenarios that did not pass in the last run."""
    from seatrial.runs.compare_runs import newest_run

    with cli_options.open_stored(store) as opened:
        outcomes = failing(StoredRecord(opened, newest_run(opened)).outcome)
    return frozenset((outcome.entry.key.suite, outcome.entry.key.name) for outcome in outcomes)


def _all_reports(plan: RunPlan, targets: list[ReportTarget]) -> list[ReportTarget]:
    """The reports of the options, and those of the suites in other formats."""
    by_option = {name for name, _ in targets}
    found = dict.fromkeys(report for suite in plan.suites for report in reports_of(suite))
    return [*targets, *((name, path) for name, path in found if name not in by_option)]


def _show_plan(plan: RunPlan) -> int:
    plan.require_scenarios()
    if plan.request.against is not None and plan.request.resume is None:
        prepare_history(plan, open_store(plan.request.store or ""), find_commit(Path.cwd()))
    if plan.request.sweep is not None:
        click.echo("\n".join(describe_sweep(plan)))
        return 0
    rows, entries = [], []
    for prepared in plan.scenarios():
        entry = prepared.entry
        entries.append(entry)
        what = counted(entry.trials, "trial") if entry.skip is None else f"skipped: {entry.skip}"
        if entry.sequential is not None and entry.skip is None:
            what = f"auto, at most {entry.trials}"
        elif entry.history is not None:
            test = entry.history
            what = f"history {test.passed}/{test.total}: at least {test.first}, at most {entry.trials}"
        rows.append((entry.key.suite, entry.key.label, prepared.agent.name, what))
    lines = [*format_table(("suite", "scenario", "agent", "trials"), rows), *_describe_sequential(entries)]
    if plan.gates.history is not None:
        lines += _describe_history(entries, plan.gates.history)
    scenarios, trials = plan.count()
    most = "at most " if any(entry.stops_by_results for entry in entries) else ""
    lines.append(f"{counted(scenarios, 'scenario')}, {most}{counted(trials, 'trial')}; nothing was run")
    click.echo("\n".join(lines))
    return 0


def _describe_history(entries: Iterable[ScenarioEntry], history: RunHistory) -> Iterator[str]:
    """The exact power and the expected calls of the test against the history."""
    tests = [entry.history for entry in entries if entry.history is not None]
    yield ""
    yield from (f"note: {note}" for note in history.notes)
    if not tests:
        yield "against the history: no scenario can be tested"
        return
    from seatrial.statistics.history_gate import History, forecast

    found = forecast([History(passed=test.passed, total=test.total) for test in tests])
    yield (
        f"against the history of {counted(len(history.runs), 'run')}: {counted(len(tests), 'scenario')}, "
        f"{found.expected_calls:,.0f} trials on average if nothing changed, at most {found.most_calls:,}"
    )
    yield (
        f"a drop of 40 points in one scenario is found in {_percent(found.power)} of cases "
        f"(in the weakest scenario in {_percent(found.weakest_power)})"
    )
    yield (
        f"if nothing changed, the answer is NOT WORSE in {_percent(found.all_cleared)} of cases; "
        f"at most {_percent(found.false_alarms)} are false alarms"
    )


def _describe_sequential(entries: Iterable[ScenarioEntry]) -> list[str]:
    """Number of trials and chance of each verdict, for each setting of `trials: auto`."""
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
    """The chance that at least one of many scenarios gets a wrong verdict."""
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
    # The number of trials grows with the logarithm of the error.
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
