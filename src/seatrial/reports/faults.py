"""The report of a sweep over faults: a table of tools and faults, and each trial that is not as it should be."""

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from seatrial.model.faults import BAD_RESULTS, FaultCell, FaultReport, FaultResult, FaultTrial
from seatrial.model.run import ScenarioKey, Status
from seatrial.model.struct import Struct

from .conversation import conversation_lines
from .markdown import escaped
from .sweep_matrix import MatrixCell, SweepExample, SweepMatrix, SweepSummary, matrix_lines, matrix_markdown
from .terminal import TerminalWriter, one_line, shorten
from .texts import counted, run_facts, verdict_line

if TYPE_CHECKING:
    from seatrial.model.protocols import RunRecord

_SHORT: dict[FaultResult, str] = {"claimed success": "claimed", "told the user": "told", "not reached": "-"}
_STATUS: dict[FaultResult, Status] = {
    "recovered": Status.PASSED,
    "told the user": Status.PASSED,
    "not reached": Status.NOT_RUN,
    "errored": Status.ERRORED,
}
"""The mark of a result; the others are failures."""
_SHOWN = 20
_SAID_LIMIT = 300
_LIMIT_OF_SWEEPS = "A passed sweep shows these faults in these scenarios. It is no proof for others."


def fault_status(result: FaultResult) -> Status:
    """The colour of a result."""
    return _STATUS.get(result, Status.FAILED)


def fault_matrix(report: FaultReport) -> SweepMatrix:
    """The table of tools and faults."""
    rows = tuple((row, tuple(_cell(report.cell(row, fault)) for fault in report.faults)) for row in report.rows)
    return SweepMatrix(corner="tool", columns=report.faults, rows=rows)


def _cell(cell: FaultCell | None) -> MatrixCell | None:
    if cell is None:
        return None
    worst = cell.worst
    if worst is None:
        return MatrixCell(text="not run", title=f"{cell.row}={cell.fault}: not run", status=Status.NOT_RUN)
    reached = [trial for trial in cell.trials if trial.result != "not reached"]
    share = f" {cell.counts[worst.result]}/{len(reached)}" if len(reached) > 1 else ""
    several = len(cell.trials) > 1
    counts = ", ".join(f"{count} {result}" for result, count in cell.counts.items()) if several else worst.result
    return MatrixCell(
        text=f"{_SHORT.get(worst.result, worst.result)}{share}",
        status=fault_status(worst.result),
        title=shorten(f"{cell.row}={cell.fault}: {counts}. {worst.why}".rstrip(" ."), _SAID_LIMIT),
        keys=tuple(dict.fromkeys(ScenarioKey(*trial.key) for trial in (worst, *cell.trials))),
        trial=worst.index,
    )


class FaultGroup(Struct, frozen=True, kw_only=True):
    """Trials with one tool that have the same result for the same reason."""

    result: FaultResult
    tool: str
    why: str
    trials: tuple[FaultTrial, ...]

    @property
    def head(self) -> str:
        """`create_booking=timeout, error: claimed success (books a table, 2 trials)`."""
        faults = ", ".join(dict.fromkeys(trial.fault for trial in self.trials))
        first, *more = dict.fromkeys(trial.label for trial in self.trials)
        others = f" and {counted(len(more), 'other scenario')}" if more else ""
        times = f", {counted(len(self.trials), 'trial')}" if len(self.trials) > 1 else ""
        return f"{self.tool}={faults}: {self.result} ({first}{others}{times})"


def fault_groups(report: FaultReport, *results: FaultResult) -> list[FaultGroup]:
    """The trials with these results by tool and reason, worst first."""
    found: dict[tuple[FaultResult, str, str], list[FaultTrial]] = {}
    for trial in report.with_result(*results):
        found.setdefault((trial.result, trial.tool, trial.why), []).append(trial)
    return [
        FaultGroup(result=result, tool=tool, why=why, trials=tuple(trials))
        for (result, tool, why), trials in found.items()
    ]


def problem_groups(report: FaultReport) -> list[FaultGroup]:
    """The trials that keep a sweep from passing, in groups."""
    failed = [one for one in fault_groups(report, "not reached") if "failed although" in one.why]
    return [*fault_groups(report, *BAD_RESULTS, "errored"), *failed]


def fault_counts_line(report: FaultReport) -> str:
    """`14 trials with a fault: 3 claimed success, 6 told the user, 5 recovered`."""
    parts = [f"{count:,} {result}" for result, count in report.counts.items()]
    parts += [f"{report.not_run:,} not run"] if report.not_run else []
    return f"{counted(len(report.trials) + report.not_run, 'trial')} with a fault: {', '.join(parts)}"


def fault_summary(report: FaultReport) -> SweepSummary:
    """What pages show."""
    return SweepSummary(
        title="What the agent did when a tool failed",
        matrix=fault_matrix(report),
        lines=(fault_counts_line(report),),
        examples=tuple(
            SweepExample(
                text=group.head, why=group.why, key=ScenarioKey(*group.trials[0].key), trial=group.trials[0].index
            )
            for group in problem_groups(report)
        ),
        notes=tuple(_never_reached(report)),
        limits=_LIMIT_OF_SWEEPS,
    )


def print_faults(record: "RunRecord", writer: TerminalWriter, *, verbose: bool) -> None:
    """Write the table, the trials that are not as they should be, and the verdict."""
    report = record.outcome.faults
    assert report is not None
    for line in matrix_lines(fault_matrix(report)):
        writer.line(line)
    writer.line()
    groups = problem_groups(report)
    for group in groups if verbose else groups[:_SHOWN]:
        _print_group(record, group, writer)
    if len(groups) > _SHOWN and not verbose:
        writer.line(f"… {len(groups) - _SHOWN:,} more", style="dim")
    for note in _never_reached(report):
        writer.line(f"note: {one_line(note)}")
    if verbose:
        _print_conversations(record, report.trials, writer)
    outcome = record.outcome
    writer.line(fault_counts_line(report))
    writer.line(verdict_line(outcome), style="green" if outcome.verdict.passed else "red")
    for note in outcome.notes:
        writer.line(f"note: {note}")
    writer.line(run_facts(record.run, outcome.totals), style="dim")


def _print_group(record: "RunRecord", group: FaultGroup, writer: TerminalWriter) -> None:
    first = group.trials[0]
    key = ScenarioKey(*first.key)
    status = Status.ERRORED if group.result == "errored" else Status.FAILED
    writer.line(one_line(group.head), mark=status)
    writer.line(shorten(group.why, _SAID_LIMIT), indent=4)
    said = _reply(record, first)
    if said:
        writer.line(shorten(one_line(f"the agent said: {said}"), _SAID_LIMIT), indent=4, style="dim")
    where = f"seatrial show {shlex.quote(one_line(record.run.id))} {shlex.quote(one_line(key.label))} {first.index + 1}"
    writer.line(where, indent=4, style="dim")


def _reply(record: "RunRecord", trial: FaultTrial) -> str:
    for one in record.trials(ScenarioKey(*trial.key)):
        if one.index == trial.index:
            return one.transcript.reply
    return ""


def _never_reached(report: FaultReport) -> Iterator[str]:
    for row in report.rows:
        results = {trial.result for trial in report.trials if trial.row == row}
        if results == {"not reached"}:
            yield f"{row} was not reached in any trial, so nothing is shown about it"


def _print_conversations(record: "RunRecord", trials: Sequence[FaultTrial], writer: TerminalWriter) -> None:
    for key in dict.fromkeys(ScenarioKey(*trial.key) for trial in trials):
        for trial in record.trials(key):
            result = trial.fault.result if trial.fault is not None else "errored"
            writer.line(f"{one_line(key.label)}, {trial.id}: {result}", style="bold")
            for depth, text in conversation_lines(trial):
                writer.line(text, indent=4 + 2 * depth)


def fault_blocks(record: "RunRecord") -> Iterator[str]:
    """The table and the problems as Markdown, in pieces that are complete."""
    report = record.outcome.faults
    assert report is not None
    yield f"{escaped(fault_counts_line(report))}\n\n"
    yield "".join(matrix_markdown(fault_matrix(report))) + "\n"
    groups = problem_groups(report)
    for group in groups[:_SHOWN]:
        text = f"- {escaped(group.head)}: {escaped(shorten(group.why, _SAID_LIMIT))}\n"
        said = _reply(record, group.trials[0])
        yield text + (f"  - the agent said: {escaped(shorten(said, _SAID_LIMIT))}\n" if said else "")
    if len(groups) > _SHOWN:
        yield f"- … {len(groups) - _SHOWN:,} more\n"
    for note in _never_reached(report):
        yield f"- note: {escaped(note)}\n"
    yield f"\n{_LIMIT_OF_SWEEPS}\n"
