"""The end of a session: the state of the run, its reports, and the exit code after gates and groups."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from seatrial.errors import SeatrialError
from seatrial.model.run import RunState, ScenarioEntry
from seatrial.model.struct import Struct
from seatrial.reports.registry import parse_report_option, write_report
from seatrial.runs.report import Report
from seatrial.runs.scenario_session import end_run
from seatrial.store.codec import decode
from seatrial.verdicts import reasons
from seatrial.verdicts.run import decide_group as decide_suite_group

from .options import Options, options_of
from .outcome import verbosity_of
from .session_plugin import ItemResult, SessionResults

if TYPE_CHECKING:
    from seatrial.runs.request import RunRequest

    from .groups import Group, GroupVerdict

_PARTIAL = ("keyword", "markexpr", "lf", "stepwise", "deselect", "ignore", "ignore_glob")
"""Options of pytest that leave tests out."""


class SessionEnd(Struct, frozen=True, kw_only=True):
    exitstatus: int
    lines: list[str]
    """The summary."""


def end_session(
    session: pytest.Session,
    results: SessionResults,
    groups: "Sequence[Group]",
    *,
    exitstatus: int,
    problems: Sequence[str] = (),
) -> SessionEnd:
    """End the run, write the reports, and decide the exit code."""
    config = session.config
    completed = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not results.crashed
    stopped = bool(session.shouldfail or session.shouldstop)
    state = RunState.FINISHED if completed and not stopped else RunState.INTERRUPTED
    lines: list[str] = []
    problems = list(problems)
    report = _end_run(config, results, state, lines, problems)
    if results.not_live:
        what = "1 test was" if results.not_live == 1 else f"{results.not_live} tests were"
        lines.append(f"{what} skipped because a model would have to be asked: --seatrial-live runs them")
    verdicts = list(_decide_groups(groups, results, partial=_is_partial(config, stopped)))
    for verdict in verdicts:
        lines += verdict.lines()
    cases_hold, broken = _check_suite_gates(report, results) if report is not None and completed else (False, [])
    problems += broken
    if report is not None and report.run.gates.judge_corrected is not None:
        problems.append(reasons.labels_needed(report.run.id, report.run.gates.judge_corrected))
    problems += [f"group {verdict.group.name} failed" for verdict in verdicts if not verdict.holds]
    lines += problems
    if exitstatus == pytest.ExitCode.OK and problems:
        return SessionEnd(exitstatus=int(pytest.ExitCode.TESTS_FAILED), lines=lines)
    if exitstatus == pytest.ExitCode.TESTS_FAILED and state is RunState.FINISHED and not problems:
        absorbed = _find_absorbed(results, verdicts, cases_hold=cases_hold)
        if absorbed and not results.collection_errors:
            lines.append(f"absorbed, since every gate held: {', '.join(item.nodeid for item in absorbed)}")
            return SessionEnd(exitstatus=int(pytest.ExitCode.OK), lines=lines)
    return SessionEnd(exitstatus=exitstatus, lines=lines)


def _end_run(
    config: pytest.Config, results: SessionResults, state: RunState, lines: list[str], problems: list[str]
) -> Report | None:
    """End the run if there is one, and write its reports. Adds to the lines and the problems of the summary."""
    if results.run is None:
        return None
    options = options_of(config)
    unplayed = [decode(ScenarioEntry, body.encode("ascii")) for bodies in results.unplayed.values() for body in bodies]
    try:
        report = end_run(options.store, results.run, state, unplayed=unplayed)
    except SeatrialError as lost:
        problems.append(f"{options.store}: the run could not be ended: {lost}")
        return None
    if verbosity_of(config) >= 0:
        lines.append(f"run {results.run}: seatrial show {results.run}")
        lines += [f"note: {note}" for note in report.outcome.notes]
    if options.mutate:
        lines += _mutate(report, options)
    if options.attack:
        shown, failed = _attack(report, options)
        lines += shown
        problems += failed
    problems += _write_reports(report, options, results)
    problems += [report.run.problem] if report.run.problem is not None else []
    return report


def _mutate(report: Report, options: Options) -> list[str]:
    """What the checks of the scenario files notice, as lines of the summary."""
    from io import StringIO

    from seatrial.reports.mutation import print_mutation
    from seatrial.runs.mutate import MutationSettings, mutate_record

    files = _played_files(report)
    if not files:
        return ["mutation: no scenario file was played. Scenarios in Python: seatrial.mutate(report, suite)"]
    shown = StringIO()
    try:
        print_mutation(mutate_record(report.record, _request_again(files, options), MutationSettings()), shown)
    except SeatrialError as problem:
        return [f"mutation: {problem}"]
    return shown.getvalue().splitlines()


def _attack(report: Report, options: Options) -> tuple[list[str], list[str]]:
    """The result of attacks on the played scenarios as lines of the summary, and why the session fails."""
    from io import StringIO

    from seatrial.reports.console import print_run
    from seatrial.runs.attack import attack_sweep
    from seatrial.runs.execute_run import execute

    files = _played_files(report)
    if not files:
        return [], ["attack: no scenario file was played. Scenarios in Python: seatrial.attack(suite)"]
    request = replace(
        _request_again(files, options),
        agent=options.agent,
        only=frozenset((one.entry.key.suite, one.entry.key.name) for one in report.outcome.scenarios),
        sweep=attack_sweep(),
    )
    shown = StringIO()
    try:
        attacked = execute(request)
        print_run(attacked.record, shown)
    except SeatrialError as problem:
        return [], [f"attack: {problem}"]
    why = "; ".join(attacked.outcome.verdict.failure_reasons)
    return shown.getvalue().splitlines(), [] if attacked.passed else [f"attack: {why}"]


def _played_files(report: Report) -> tuple[str, ...]:
    sources = (one.entry.source.rpartition(":")[0] for one in report.outcome.scenarios if one.entry.source)
    return tuple(dict.fromkeys(file for file in sources if file.endswith((".yaml", ".yml", ".json"))))


def _request_again(files: tuple[str, ...], options: Options) -> "RunRequest":
    from seatrial.runs.request import RunRequest

    return RunRequest(
        sources=files,
        store=options.store,
        cache=options.cache,
        environ=options.environ,
        models=options.models,
        default_agent=options.default_agent,
        not_redacted=options.not_redacted,
    )


def _write_reports(report: Report, options: Options, results: SessionResults) -> list[str]:
    """Write the reports. Returns the problems, so that the rest of the summary is still shown."""
    problems = []
    by_flag = {parse_report_option(text)[0] for text in options.reports}
    of_suites = [text for text in results.reports if parse_report_option(text)[0] not in by_flag]
    for text in (*options.reports, *of_suites):
        try:
            kind, path = parse_report_option(text)
            write_report(kind, report.record, path or options.environ.get("GITHUB_STEP_SUMMARY") or "-")
        except SeatrialError as problem:
            problems.append(str(problem))
    return problems


def _decide_groups(groups: "Sequence[Group]", results: SessionResults, *, partial: bool) -> "Iterator[GroupVerdict]":
    if groups:
        from .groups import decide_group

        items = list(results.items.values())
        yield from (decide_group(group, items, partial=partial) for group in groups)


def _check_suite_gates(report: Report, results: SessionResults) -> tuple[bool, list[str]]:
    """Whether the run passed by its `cases_pass_threshold`, and the reasons of suite gates that failed."""
    gates = report.run.gates
    against = report.outcome.against if gates.history is not None else None
    if against is not None and against.suite_is_worse:
        return False, [reasons.suite_worse(against.first_passed, against.first_total, against.first_expected)]
    if not (gates.groups or gates.cases_pass_threshold is not None or results.scored):
        return False, []
    outcome = report.outcome
    totals = outcome.totals
    # Skipped scenarios, mostly for want of --seatrial-live, turn no session red.
    played = [scenario for scenario in outcome.scenarios if not scenario.skipped]
    broken = [
        reasons.in_group(group["name"], why)
        for group in gates.groups
        for why in decide_suite_group(group, played).failure_reasons
    ]
    if totals.metrics_passed is False and totals.weighted_metrics_score_pct is not None:
        broken.append(reasons.metrics_below(totals.weighted_metrics_score_pct, gates.metrics_pass_threshold))
    if gates.cases_pass_threshold is not None and not totals.cases_passed:
        broken.append(reasons.cases_below(totals, gates.cases_pass_threshold))
    return gates.cases_pass_threshold is not None and outcome.verdict.passed, broken


def _find_absorbed(
    results: SessionResults, verdicts: "Sequence[GroupVerdict]", *, cases_hold: bool
) -> list[ItemResult]:
    """The failed tests, if gates cover all of them; otherwise none."""
    bad = [item for item in results.items.values() if item.ending in ("failed", "errored")]
    tags = {tag for verdict in verdicts if verdict.total for tag in verdict.group.tags}
    for item in bad:
        is_covered = not item.marks.isdisjoint(tags) or (cases_hold and item.is_scenario)
        if item.ending == "errored" or not is_covered:
            return []
    return bad


def _is_partial(config: pytest.Config, stopped: bool) -> bool:
    by_arguments = config.args_source is pytest.Config.ArgsSource.ARGS
    return stopped or by_arguments or any(getattr(config.option, name, None) for name in _PARTIAL)
