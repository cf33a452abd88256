"""The report of a sweep of attacks: on the terminal, as Markdown and JSON, and the values of its page."""

import shlex
from collections.abc import Iterator, Sequence

from seatrial.model.attacks import AttackCell, AttackCounts, AttackFinding, AttackReport
from seatrial.model.protocols import RunRecord
from seatrial.model.run import Interval, Status

from .conversation import find_fact
from .markdown import escaped
from .sweep_matrix import MatrixCell, SweepExample, SweepMatrix, SweepSummary, matrix_lines, matrix_markdown
from .terminal import TerminalWriter, one_line, shorten
from .texts import counted, percent, run_facts, verdict_line

NO_PROOF = "No successful attack is no proof of safety: other payloads, fields and goals may succeed."
_FINDINGS_SHOWN = 20
_TEXT_LIMIT = 300


def attack_matrix(report: AttackReport) -> SweepMatrix:
    """Fields x families: successful attacks of those that the agent received."""
    rows = tuple(
        (field, tuple(_cell(report.cell(field, family)) for family in report.families)) for field in report.fields
    )
    return SweepMatrix(corner="field", columns=report.families, rows=rows)


def _cell(cell: AttackCell | None) -> MatrixCell | None:
    if cell is None:
        return None
    counts = cell.counts
    text = f"{counts.succeeded}/{counts.received}" if counts.received else "not known" if counts.unknown else "–"
    return MatrixCell(text=text, status=_status(counts), title=_title(counts), keys=cell.keys)


def _status(counts: AttackCounts) -> Status:
    if counts.succeeded:
        return Status.FAILED
    if counts.unknown:
        return Status.INCONCLUSIVE
    return Status.PASSED if counts.received else Status.NOT_RUN


def _title(counts: AttackCounts) -> str:
    said = f"{counts.succeeded} of {counts.received} received attacks succeeded; {counted(counts.played, 'trial')}"
    return f"{said}, {counts.unknown} without evidence" if counts.unknown else said


def attack_rate(report: AttackReport) -> str:
    """`attacks: 3 of 21 succeeded (14.3 %) [0.03, 0.36]`."""
    if not report.total.received:
        return "attacks: none of them reached the agent with evidence"
    rate = _rate(report.total.succeeded, report.total.received, report.attack_interval)
    return f"attacks: {report.total.succeeded} of {report.total.received} succeeded {rate}"


def job_rate(report: AttackReport) -> str:
    """`under attack: 18 of 21 trials still passed the scenario's own checks (85.7 %) [0.64, 0.97]`."""
    if not report.job_total:
        return "under attack: no trial shows whether the agent still did its job"
    rate = _rate(report.job_done, report.job_total, report.job_interval)
    trials = counted(report.job_total, "trial")
    return f"under attack: {report.job_done} of {trials} still passed the scenario's own checks {rate}"


def _rate(part: int, total: int, interval: Interval | None) -> str:
    bounds = "" if interval is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
    return f"({percent(part / total)}){bounds}"


def never_received(report: AttackReport) -> list[str]:
    """Fields, and families, of which no payload reached the agent: nothing is known about them."""
    reached = {cell.family for cell in report.cells if cell.counts.received + cell.counts.unknown}
    families = [family for family in report.families if family not in reached] if reached else []
    return [*report.never_read, *(f"family {family}" for family in families)]


def attack_summary(report: AttackReport) -> SweepSummary:
    """What pages show."""
    unread = (f"{one}: never reached the agent, so nothing is known about it" for one in never_received(report))
    return SweepSummary(
        title="Attacks by field and family",
        matrix=attack_matrix(report),
        lines=(attack_rate(report), job_rate(report)),
        examples=tuple(
            SweepExample(text=_headline(one), why="", key=one.key, trial=one.trial) for one in report.findings
        ),
        notes=tuple(unread),
        limits=NO_PROOF,
    )


def print_attacks(record: RunRecord, writer: TerminalWriter, *, verbose: bool) -> None:
    """Write the table, what succeeded, the rates and the verdict."""
    report = record.outcome.attacks
    assert report is not None
    for line in matrix_lines(attack_matrix(report)):
        writer.line(line)
    writer.line()
    groups = _group(report.findings)
    shown = groups if verbose else groups[:_FINDINGS_SHOWN]
    for group in shown:
        writer.line(_headline(*group), mark=Status.FAILED)
        for line in _details(record, group[0]):
            writer.line(line, indent=4)
    if len(groups) > len(shown):
        writer.line(f"… {len(groups) - len(shown):,} more", style="dim")
    for one in never_received(report):
        writer.line(f"{one_line(one)}: never reached the agent, so nothing is known about it", mark=Status.NOT_RUN)
    writer.line(attack_rate(report))
    writer.line(job_rate(report))
    outcome = record.outcome
    if limit := (record.run.sweep or {}).get("limit"):
        writer.line(f"note: at most {counted(limit, 'variant')} were drawn and played (--limit)")
    writer.line(verdict_line(outcome), style="green" if outcome.verdict.passed else "red")
    for note in outcome.notes:
        writer.line(f"note: {note}")
    if outcome.verdict.passed:
        writer.line(NO_PROOF, style="dim")
    writer.line(run_facts(record.run, outcome.totals), style="dim")


def _group(findings: Sequence[AttackFinding]) -> list[list[AttackFinding]]:
    """The findings by scenario, field, goal and family."""
    groups: dict[tuple[str, ...], list[AttackFinding]] = {}
    for one in findings:
        groups.setdefault((one.key.suite, one.key.agent, one.scenario, one.field, one.goal, one.family), []).append(one)
    return list(groups.values())


def _headline(*findings: AttackFinding) -> str:
    """`reads mail: read_email.body, call send_money: direct-1, direct-3  2 of 2`."""
    first = findings[0]
    payloads = ", ".join(one.payload for one in findings)
    counts = f"{sum(one.succeeded for one in findings)} of {sum(one.received for one in findings)}"
    return one_line(f"{first.scenario}: {first.field}, {first.goal}: {payloads}  {counts}")


def _details(record: RunRecord, finding: AttackFinding) -> Iterator[str]:
    """What the attack led to, and the command that shows the conversation."""
    trial = next((one for one in record.trials(finding.key) if one.index == finding.trial), None)
    fact = None if trial is None else find_fact(trial)
    if fact is not None:
        yield shorten(one_line(fact.how), _TEXT_LIMIT)
    yield f"seatrial show {record.run.id} {shlex.quote(finding.key.name)} {finding.trial + 1}"


def attack_blocks(record: RunRecord) -> Iterator[str]:
    """The report in Markdown, in pieces."""
    report = record.outcome.attacks
    assert report is not None
    yield f"- {escaped(attack_rate(report))}\n- {escaped(job_rate(report))}\n\n"
    yield "".join(matrix_markdown(attack_matrix(report))) + "\n"
    if report.findings:
        yield "### Successful attacks\n\n"
    groups = _group(report.findings)
    for group in groups[:_FINDINGS_SHOWN]:
        below = "".join(f"  - {escaped(line)}\n" for line in _details(record, group[0]))
        yield f"- {escaped(_headline(*group))}\n{below}"
    if len(groups) > _FINDINGS_SHOWN:
        yield f"- … {len(groups) - _FINDINGS_SHOWN:,} more\n"
    if unread := never_received(report):
        yield "\n### Never reached the agent: nothing is known about these\n\n"
        yield "".join(f"- {escaped(one)}\n" for one in unread)
    yield f"\n{escaped(NO_PROOF)}\n\n"
