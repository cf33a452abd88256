"""`seatrial show`: a stored run, scenario or trial."""

import re
import sys
from collections.abc import Iterator
from shutil import get_terminal_size
from typing import Any

import click

from seatrial.errors import UsageError
from seatrial.model.run import Run, ScenarioOutcome, Status, Trial
from seatrial.reports.beside import print_beside
from seatrial.reports.console import print_run
from seatrial.reports.conversation import conversation_lines
from seatrial.reports.json_report import scenario_json, trial_json, write_json
from seatrial.reports.terminal import TerminalWriter, json_text, one_line
from seatrial.reports.texts import explain, not_counted_reason, summarise, trials_line
from seatrial.runs.explain import find_beside
from seatrial.runs.report import StoredRecord
from seatrial.store.store import Store

from . import shell_completion
from .options import open_stored, store_option, verbose_option


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    """When and with what it was run."""
    config = run.config or {}
    yield "run", f"{run.id}  {run.name}" + ("  (recordings)" if run.replayed else "")
    yield "regraded from", run.parent or ""
    if fork := config.get("fork"):
        yield "forked from", f"run {fork['run']}, {fork['scenario']}, trial {fork['trial']}, at {fork['at']}"
    yield "started", f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    yield "state", f"{run.state} {run.finished_at:%Y-%m-%d %H:%M:%S} UTC" if run.finished_at else run.state.value
    yield "seed", str(run.seed)
    yield "commit", f"{run.git_commit} {'with changes' if run.git_dirty else ''}".rstrip() if run.git_commit else ""
    yield "branch", run.git_branch or ""
    yield "versions", ", ".join(f"{name} {version}" for name, version in (run.versions or {}).items())
    yield "agent", _agents(config)
    yield "set", ", ".join(f"{name}={value!r}" for name, value in (config.get("overrides") or {}).items())
    yield "command", config.get("command") or ""


def _agents(config: Any) -> str:
    if config.get("agent") is not None:
        return str(config["agent"])
    named = config.get("agents") or {}
    return ", ".join(dict.fromkeys(str(spec) for spec in named.values() if spec is not None))


@click.command("show")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@click.argument("scenario", required=False)
@click.argument("trial", required=False)
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as in results.json.")
@click.option("--beside", is_flag=True, help="Show a failed trial beside the nearest passed one, turn by turn.")
@store_option
def command(run: str, scenario: str | None, trial: str | None, **options: Any) -> int:
    """Show a stored run, one of its scenarios, or one trial with its whole conversation.

    RUN is an id, the start of an id, a name, `latest` (the default) or `baseline`. SCENARIO is a name or a part of it.
    TRIAL is a number from 1.
    """
    verbose, as_json = options["verbose"], options["as_json"]
    if options["beside"] and (trial is None or as_json):
        raise UsageError("--beside: needs RUN, SCENARIO and TRIAL, and prints no JSON")
    with open_stored(options["store"]) as opened:
        record = StoredRecord(opened, _find_run(opened, run, scenario))
        if scenario is None:
            _show_run(record, verbose=verbose, as_json=as_json)
            return 0
        for outcome in find_scenarios(record, scenario):
            trials = list(record.trials(outcome.entry.key))
            if trial is not None:
                trials = [find_trial(trials, trial, outcome)]
            if options["beside"]:
                _print_beside(record, outcome, trials[0])
            elif as_json:
                _print_json(outcome, trials, whole=trial is None)
            else:
                _print_scenario(outcome, trials, everything=verbose or trial is not None)
    return 0


def _find_run(store: Store, ref: str, scenario: str | None) -> Run:
    try:
        return store.run(ref)
    except UsageError as unknown:
        if scenario is None and _is_scenario_of_latest(store, ref):
            raise UsageError(
                f"{ref!r} is not a run, but a scenario of the latest run. Try: seatrial show latest {ref!r}"
            ) from None
        raise unknown


def _is_scenario_of_latest(store: Store, name: str) -> bool:
    latest = store.runs(1)
    return bool(latest) and any(name in (e.key.name, e.key.label) for e in store.entries(latest[0].id))


def _show_run(record: StoredRecord, *, verbose: bool, as_json: bool) -> None:
    if as_json:
        write_json(record, sys.stdout)
        return
    for name, text in _facts(record.run):
        if text:
            click.echo(f"{name}: {one_line(text)}")
    print_run(record, sys.stdout, verbose=verbose)


def find_scenarios(record: StoredRecord, text: str) -> list[ScenarioOutcome]:
    """The scenarios with that name, one per agent, else the only one whose name contains it. Raises UsageError."""
    outcomes = record.outcome.scenarios
    exact = [o for o in outcomes if text in (o.entry.key.label, o.entry.key.name)]
    if exact:
        return exact
    part = [o for o in outcomes if text.lower() in o.entry.key.label.lower()]
    names = list(dict.fromkeys(o.entry.key.name for o in part or outcomes))
    if part and len(names) == 1:
        return part
    where = f"run {record.run.id}"
    if part:
        raise UsageError(f"{where}: {text!r} matches several scenarios: {_several(names)}. Give more of the name.")
    from difflib import get_close_matches  # only for an error text

    close = get_close_matches(text, names, n=3, cutoff=0.5)
    known = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"There are: {_several(names)}."
    raise UsageError(f"{where}: has no scenario {text!r}. {known}")


def _several(names: list[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(repr, names[:10])) + more


def find_trial(trials: list[Trial], text: str, outcome: ScenarioOutcome) -> Trial:
    """The trial with the number, as `2` or `trial-2`. Raises UsageError."""
    number = re.fullmatch(r"(?:trial-)?([0-9]{1,9})", text)
    if number is not None:
        for trial in trials:
            if trial.index == int(number.group(1)) - 1:
                return trial
    known = ", ".join(trial.id for trial in trials[:10]) + (", …" if len(trials) > 10 else "")
    stored = f"There are: {known}." if trials else "No trial of it was run."
    raise UsageError(f"scenario {outcome.entry.key.label!r}: has no trial {text!r}. {stored}")


_WIDTH = 120
"""Columns of two conversations side by side, if stdout is not a terminal."""


def _print_beside(record: StoredRecord, outcome: ScenarioOutcome, trial: Trial) -> None:
    """The trial and the nearest passed one in two columns. Raises UsageError if there is none."""
    label = outcome.entry.key.label
    if trial.status is Status.PASSED:
        raise UsageError(
            f"scenario {label!r}: {trial.id} passed. --beside shows what a trial that failed did otherwise"
        )
    found = find_beside(record.store, record.run, outcome.entry, trial)
    if found.passed is None:
        raise UsageError(f"scenario {label!r}: no trial of it passed, in this run or in earlier ones")
    writer = TerminalWriter(sys.stdout)
    writer.line(f"{one_line(label)}: {trial.id} {summarise(trial)}", mark=trial.status)
    for reason in explain(trial):
        writer.line(reason, indent=2)
    width = get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
    print_beside(found.passed, trial, found.divergence, writer, width=width)


def _print_json(outcome: ScenarioOutcome, trials: list[Trial], *, whole: bool) -> None:
    shown = [trial_json(trial) for trial in trials]
    click.echo(json_text({**scenario_json(outcome), "trials": shown} if whole else shown[0]))


def _print_scenario(outcome: ScenarioOutcome, trials: list[Trial], *, everything: bool) -> None:
    """The verdict and its reasons, then the trials, with conversations if not passed or if `everything`."""
    writer = TerminalWriter(sys.stdout)
    about = not_counted_reason(outcome) or trials_line(outcome)
    writer.line(f"{one_line(outcome.entry.key.label)}  {one_line(about)}", mark=outcome.verdict.status)
    if outcome.entry.source:
        writer.line(one_line(outcome.entry.source), indent=2, style="dim")
    told = {reason for trial in trials if trial.status is not Status.PASSED for reason in explain(trial)}
    for reason in () if outcome.skipped else outcome.verdict.failure_reasons:
        if reason not in told:
            writer.line(reason, indent=2)
    for trial in trials:
        writer.line(f"{trial.id} {summarise(trial)}", indent=2, mark=trial.status)
        if trial.status is not Status.PASSED:
            for reason in explain(trial):
                writer.line(reason, indent=6)
        if everything or trial.status is not Status.PASSED:
            for depth, text in conversation_lines(trial):
                writer.line(text, indent=6 + 2 * depth)
