"""How a session ends: the run's state, its reports, what gates and groups make of the exit code."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from seatrial.errors import SeatrialError
from seatrial.model.run import RunState, ScenarioEntry
from seatrial.model.struct import Struct
from seatrial.reports.registry import parse_report_option, write_report
from seatrial.runs.report import Report
from seatrial.runs.scenario_session import end_run
from seatrial.store.codec import decode
from seatrial.verdicts import reasons
from seatrial.verdicts.run import decide_group as decide_suite_group

from .exceptions import verbosity_of
from .options import Options, options_of
from .session_results import Entry, Ledger

if TYPE_CHECKING:
    from .groups import Group, GroupVerdict

_PARTIAL = ("keyword", "markexpr", "lf", "stepwise", "deselect", "ignore", "ignore_glob")
"""Options of pytest that leave tests out."""


class Conclusion(Struct, frozen=True, kw_only=True):
    exitstatus: int
    lines: list[str]


def conclude(
    session: pytest.Session, ledger: Ledger, groups: "Sequence[Group]", *, exitstatus: int, problems: Sequence[str] = ()
) -> Conclusion:
    """End the run, write the reports, and decide how the session ends."""
    config = session.config
    options = options_of(config)
    ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not ledger.crashed
    stopped = bool(session.shouldfail or session.shouldstop)
    lines: list[str] = []
    problems = list(problems)
    report = None
    if ledger.run is not None:
        state = RunState.FINISHED if ended and not stopped else RunState.INTERRUPTED
        try:
            report = end_run(options.store, ledger.run, state, unplayed=list(_left_out(ledger)))
        except SeatrialError as lost:
            problems.append(f"{options.store}: the run could not be ended: {lost}")
        else:
            if verbosity_of(config) >= 0:
                lines.append(f"run {ledger.run}: seatrial show {ledger.run}")
                lines += [f"note: {note}" for note in report.outcome.notes]
            problems += _write_reports(report, options, ledger)
            problems += [report.run.problem] if report.run.problem is not None else []
    if ledger.not_live:
        what = "1 test was" if ledger.not_live == 1 else f"{ledger.not_live} tests were"
        lines.append(f"{what} skipped because a model would have to be asked: --seatrial-live runs them")
    verdicts = list(_decide_groups(groups, ledger, partial=_is_partial(config, stopped)))
    for verdict in verdicts:
        lines += verdict.lines()
    saved, broken = _gates_of(report, ledger) if report is not None and ended else (False, [])
    problems += broken
    problems += [f"group {verdict.group.name} failed" for verdict in verdicts if not verdict.holds]
    lines += problems
    if exitstatus == pytest.ExitCode.OK and problems:
        return Conclusion(exitstatus=int(pytest.ExitCode.TESTS_FAILED), lines=lines)
    if exitstatus == pytest.ExitCode.TESTS_FAILED and ended and not stopped and not problems:
        absorbed = list(_absorbed(ledger, verdicts, cases=saved))
        if absorbed and not ledger.collection_errors:
            lines.append(f"absorbed, since every gate held: {', '.join(entry.nodeid for entry in absorbed)}")
            return Conclusion(exitstatus=int(pytest.ExitCode.OK), lines=lines)
    return Conclusion(exitstatus=exitstatus, lines=lines)


def _decide_groups(groups: "Sequence[Group]", ledger: Ledger, *, partial: bool) -> "Iterator[GroupVerdict]":
    if not groups:
        return
    from .groups import decide_group

    entries = list(ledger.entries.values())
    yield from (decide_group(group, entries, partial=partial) for group in groups)


def _absorbed(ledger: Ledger, verdicts: "Sequence[GroupVerdict]", *, cases: bool) -> Iterator[Entry]:
    """The failures that gates take upon themselves: all of them, or none."""
    bad = [entry for entry in ledger.entries.values() if entry.ending in ("failed", "errored")]
    carrying = [verdict.group for verdict in verdicts if verdict.total]
    for entry in bad:
        grouped = any(not entry.marks.isdisjoint(group.tags) for group in carrying)
        if entry.ending == "errored" or not (grouped or (cases and entry.is_scenario)):
            return
    yield from bad


def _gates_of(report: Report, ledger: Ledger) -> tuple[bool, list[str]]:
    """Whether the suites' `cases_pass_threshold` speaks for the run, and which of the suites' gates speak against."""
    gates = report.run.gates
    if not (gates.groups or gates.cases_pass_threshold is not None or ledger.scored):
        return False, []
    outcome = report.outcome
    totals = outcome.totals
    # What pytest skips, for want of --seatrial-live above all, turns no session red.
    played = [scenario for scenario in outcome.scenarios if not scenario.skipped]
    broken = [
        reasons.in_group(group["name"], why)
        for group in gates.groups
        for why in decide_suite_group(group, played).failure_reasons
    ]
    if totals.metrics_passed is False and totals.weighted_metrics_score_pct is not None:
        broken.append(reasons.metrics_below(totals.weighted_metrics_score_pct, gates.metrics_pass_threshold))
    cases = gates.cases_pass_threshold is not None
    if gates.cases_pass_threshold is not None and not totals.cases_passed:
        broken.append(reasons.cases_below(totals, gates.cases_pass_threshold))
    return cases and outcome.verdict.passed, broken


def _left_out(ledger: Ledger) -> Iterator[ScenarioEntry]:
    for bodies in ledger.left_out.values():
        yield from (decode(ScenarioEntry, body.encode("ascii")) for body in bodies)


def _write_reports(report: Report, options: Options, ledger: Ledger) -> list[str]:
    """What could not be written, which must not keep the rest of the summary from being seen."""
    problems = []
    by_flag = {parse_report_option(text)[0] for text in options.reports}
    own = [text for text in ledger.reports if parse_report_option(text)[0] not in by_flag]
    for text in (*options.reports, *own):
        try:
            kind, path = parse_report_option(text)
            write_report(kind, report.record, path or options.environ.get("GITHUB_STEP_SUMMARY") or "-")
        except SeatrialError as problem:
            problems.append(str(problem))
    return problems


def _is_partial(config: pytest.Config, stopped: bool) -> bool:
    asked = config.args_source is pytest.Config.ArgsSource.ARGS
    return stopped or asked or any(getattr(config.option, name, None) for name in _PARTIAL)
