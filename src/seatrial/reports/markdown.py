"""Markdown for pull requests and wikis, and GitHub's step summary and annotations. All agent text is escaped."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from io import UnsupportedOperation
from itertools import chain, filterfalse, islice
from pathlib import Path
from typing import TextIO

from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioOutcome, Status

from .causes import cause_details, causes_title, headline, show_command
from .conversation import conversation_lines
from .failing_checks import failing_check
from .scenario_totals import ScenarioTotals, flaky_line, is_flaky, scenario_totals
from .terminal import escape_ci_commands, escape_controls, escape_markup, one_line, shorten
from .texts import (
    VERDICT_WORDS,
    counts_of,
    duration,
    explain_error,
    failing,
    gates_of,
    history_line,
    history_text,
    interval,
    invariant_line,
    is_failing,
    measures_of,
    money,
    not_counted_reason,
    run_facts,
    scenario_counts_line,
    trials_of,
    verdict_line,
)

ROWS_SHOWN = 1_000
FAILING_SHOWN = 50
CAUSES_SHOWN = 20
CELL_LIMIT = 300
TEXT_LIMIT = 8_000

_MARKS = {
    Status.PASSED: "✅",
    Status.FAILED: "❌",
    Status.ERRORED: "💥",
    Status.INCONCLUSIVE: "❔",
    Status.NOT_RUN: "➖",
}
# Characters with a meaning inside a line of GitHub's Markdown: emphasis, code, links, tables, mentions, issues, maths.
# A colon only if a URL or an emoji could follow, and the dot after www.
_SPECIAL = re.compile(r"[\\`*_\[\]#|~@$]|:(?=\S)|(?<=www)\.", re.IGNORECASE)


def write_markdown(record: RunRecord, stream: TextIO) -> None:
    """Write the whole report."""
    for block in blocks(record):
        stream.write(block)


def blocks(record: RunRecord) -> Iterator[str]:
    """The report in pieces. Each piece is complete Markdown, so the report can be cut after any of them."""
    outcome = record.outcome
    yield f"## {_MARKS[outcome.verdict.status]} {escaped(verdict_line(outcome))}\n\n"
    # The scenarios of a sweep are variants: how many of them passed says nothing.
    scenarios = "" if record.run.sweep else f"{scenario_counts_line(outcome)}; "
    facts = f"{record.run.name}: {scenarios}{run_facts(record.run, outcome.totals)}"
    yield f"{escaped(facts)}\n\n"
    for gate in gates_of(record.run, outcome.totals):
        yield f"- {escaped(gate.text)}\n"
    for name, verdict in outcome.groups:
        reasons = "; ".join(verdict.failure_reasons)
        yield f"- group {escaped(name)}: {VERDICT_WORDS[verdict.status]} {escaped(reasons)}\n"
    for rule in outcome.invariants:
        mark = "❌" if rule.violated else "✅" if rule.trials else "➖"
        yield f"- {mark} invariant {escaped(invariant_line(rule))}\n"
    if (history := history_line(record.run, outcome)) is not None:
        yield f"- {escaped(history)}\n"
    for note in outcome.notes:
        yield f"- note: {escaped(note)}\n"
    if outcome.attacks is not None:
        from .attacks import attack_blocks

        yield from attack_blocks(record)
        return
    if outcome.faults is not None:
        from .faults import fault_blocks

        yield from fault_blocks(record)
        return
    yield from _table(record)
    yield from _causes(record)
    yield from _failures(record)


def escaped(text: str) -> str:
    """The text on one line, escaped for Markdown and HTML."""
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(lambda found: f"\\{found.group()}", text)


def quoted(text: str) -> str:
    """The text in a <pre> block, with its line breaks."""
    return f"<pre>\n{escape_markup(text)}\n</pre>\n\n"


def _table(record: RunRecord) -> Iterator[str]:
    outcome = record.outcome
    count = len(outcome.scenarios)
    if not count:
        return
    yield "\n| | Scenario | Passed | Interval | Slowest turn | Cost | Why |\n|---|---|---|---|---|---|---|\n"
    ordered = chain(failing(outcome, most=ROWS_SHOWN), filterfalse(is_failing, outcome.scenarios))
    for one in islice(ordered, ROWS_SHOWN):
        yield _row(one, scenario_totals(record, one))
    if count > ROWS_SHOWN:
        yield f"\n… {count - ROWS_SHOWN:,} more scenarios\n"
    yield "\n"


def _row(outcome: ScenarioOutcome, sums: ScenarioTotals) -> str:
    reason = not_counted_reason(outcome)
    flaky = [flaky_line(outcome)] if is_flaky(outcome) else []
    # The reasons of a scenario that did not pass name its history.
    history = [text] if outcome.verdict.passed and (text := history_text(outcome)) else []
    told = [*outcome.verdict.failure_reasons, *history, *flaky, *outcome.notes]
    why = reason or "; ".join([*_check_of(outcome, sums), *told])
    cells = (
        "➖" if reason is not None else _MARKS[outcome.verdict.status],
        escaped(shorten(outcome.entry.key.label, CELL_LIMIT)),
        f"{outcome.passed}/{trials_of(outcome)}",
        interval(outcome) or "",
        duration(sums.latency_ms) or "",
        money(sums.cost_usd) or "",
        escaped(shorten(why, CELL_LIMIT)),
    )
    return f"| {' | '.join(cells)} |\n"


def _check_of(outcome: ScenarioOutcome, sums: ScenarioTotals) -> list[str]:
    """The first failing check, unless the scenario's own reasons name it."""
    if not sums.reasons or outcome.verdict.passed:
        return []
    first = sums.reasons[0]
    text = first.summary if first.status is not Status.FAILED or not first.lines else first.lines[0]
    return [] if text in outcome.verdict.failure_reasons or first.status is Status.ERRORED else [failing_check(text)]


def _causes(record: RunRecord) -> Iterator[str]:
    causes = [cause for cause in record.causes if cause.counts] if counts_of(record.outcome).failing else []
    if not causes:
        return
    yield f"### {causes_title(causes).rstrip(':')}\n\n"
    for cause in causes[:CAUSES_SHOWN]:
        below = "".join(f"  - {escaped(line)}\n" for line in cause_details(cause))
        yield f"- {escaped(headline(cause))}\n{below}  - {escaped(show_command(cause, record.run.id))}\n"
    if len(causes) > CAUSES_SHOWN:
        yield f"- … {len(causes) - CAUSES_SHOWN:,} more\n"
    yield "\n"


def _failures(record: RunRecord) -> Iterator[str]:
    count = counts_of(record.outcome).failing
    if count:
        yield "### Failures, worst first\n\n"
    for outcome in failing(record.outcome, most=FAILING_SHOWN):
        yield _failure(record, outcome)
    if count > FAILING_SHOWN:
        yield f"… {count - FAILING_SHOWN:,} more scenarios did not pass\n"


def _failure(record: RunRecord, outcome: ScenarioOutcome) -> str:
    sums = scenario_totals(record, outcome)
    mark = _MARKS[outcome.verdict.status]
    text = f"#### {mark} {escaped(shorten(outcome.entry.key.label, CELL_LIMIT))}\n\n"
    text += "".join(f"- {escaped(shorten(reason, CELL_LIMIT))}\n" for reason in outcome.verdict.failure_reasons)
    text += "".join(f"- note: {escaped(shorten(note, CELL_LIMIT))}\n" for note in outcome.notes)
    text += "".join(f"- {escaped(one.text)}\n" for one in measures_of(outcome) if one.held is not False)
    text += "\n"
    lines = [line for error in outcome.unique_errors for line in explain_error(error)]
    lines += sums.reason_texts
    if sums.untold:
        lines.append(f"… {sums.untold:,} more trials did not pass")
    if lines:
        text += quoted(shorten("\n".join(lines), TEXT_LIMIT))
    return text + _conversation(record, outcome)


def _conversation(record: RunRecord, outcome: ScenarioOutcome) -> str:
    """The conversation of the first trial that did not pass, collapsed."""
    for trial in record.trials(outcome.entry.key):
        if trial.status is not Status.PASSED:
            said = "\n".join("  " * depth + text for depth, text in conversation_lines(trial))
            body = quoted(shorten(said, TEXT_LIMIT))
            return f"<details><summary>Conversation of {trial.id}</summary>\n\n{body}</details>\n\n"
    return ""


COMMENT_CHARACTERS = 60_000
"""GitHub rejects a comment of more than 65,536 characters."""
_CUT_COMMENT = "\n\nThe rest is cut. See all of it: `seatrial show {run}`, or the HTML report of the job\n"


def write_comment(record: RunRecord, stream: TextIO) -> None:
    """Write as much of the Markdown report as fits into a comment on a pull request."""
    _write_limited(record, stream, most=COMMENT_CHARACTERS, notice=_CUT_COMMENT, length=len)


SUMMARY_BYTES = 1024 * 1024
"""GitHub rejects a larger summary."""
ANNOTATIONS = 10
"""The limit for errors, and for warnings, in a step. GitHub drops the rest without notice."""
MESSAGE_LIMIT = 2_000

_CUT = "\n\nThe rest is cut: a step summary holds 1 MiB. See all of it: `seatrial show {run}`\n"


def write_github(record: RunRecord, stream: TextIO) -> None:
    """Write the summary to the stream, and the annotations to standard output, where GitHub reads them."""
    write_summary(record, stream)
    print_annotations(record, sys.stdout)


def write_summary(record: RunRecord, stream: TextIO) -> None:
    """Write as much of the Markdown report as still fits into the step summary."""
    _write_limited(record, stream, most=SUMMARY_BYTES - _held(stream), notice=_CUT, length=_bytes)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "backslashreplace"))


def _write_limited(record: RunRecord, stream: TextIO, *, most: int, notice: str, length: Callable[[str], int]) -> None:
    notice = notice.format(run=record.run.id)
    left = most - length(notice)
    if left < 0:
        return
    for block in blocks(record):
        left -= length(block)
        if left < 0:
            stream.write(notice)
            return
        stream.write(block)


def print_annotations(record: RunRecord, stream: TextIO) -> None:
    """Write workflow commands: an error per scenario that did not pass, a warning per passed one with a note."""
    found = failing(record.outcome)
    # GitHub shows no more than the first: a trial of each further scenario need not be read.
    reasons = [_failing_check(record, one) if number < ANNOTATIONS else () for number, one in enumerate(found)]
    errors = [
        _command("error", one, "; ".join((*checks, *one.verdict.failure_reasons, *one.notes)))
        for one, checks in zip(found, reasons, strict=True)
    ]
    if not record.outcome.verdict.passed and not errors:
        errors = [f"::error title={_property('seatrial')}::{_data(verdict_line(record.outcome))}"]
    noted = [one for one in record.outcome.scenarios if one.verdict.passed and one.notes]
    warnings = [_command("warning", one, "; ".join(one.notes)) for one in noted]
    for line in (*_limited("error", errors), *_limited("warning", warnings)):
        stream.write(line + "\n")
    stream.flush()


def _failing_check(record: RunRecord, outcome: ScenarioOutcome) -> tuple[str, ...]:
    """The first failing check of a scenario whose own reasons only count trials."""
    failed = next((trial for trial in record.trials(outcome.entry.key) if trial.status is not Status.PASSED), None)
    if outcome.entry.variant is not None:
        return ()
    if failed is None or not failed.failure_reasons or failed.failure_reasons[0] in outcome.verdict.failure_reasons:
        return ()
    return (failing_check(failed.failure_reasons[0]),)


def _limited(level: str, commands: list[str]) -> Iterator[str]:
    if len(commands) <= ANNOTATIONS:
        yield from commands
        return
    yield from commands[: ANNOTATIONS - 1]
    yield f"::{level} title=seatrial::{len(commands) - ANNOTATIONS + 1:,} more scenarios; the summary lists them"


def _command(level: str, outcome: ScenarioOutcome, message: str) -> str:
    properties = [f"title={_property(shorten(outcome.entry.key.label, 200))}", *_place(outcome.entry.source)]
    text = shorten(message or outcome.verdict.status.value, MESSAGE_LIMIT)
    return f"::{level} {','.join(properties)}::{_data(text)}"


def _place(source: str | None) -> Iterator[str]:
    """The properties `file` and `line` of a source such as `suite.yaml:3`; only `file` if it has no line."""
    if not source:
        return
    file, _, line = source.rpartition(":")
    if file and line.isdecimal():
        yield f"file={_property(_in_repository(file))}"
        yield f"line={line}"
    else:
        yield f"file={_property(_in_repository(source))}"


def _in_repository(file: str) -> str:
    """The path from the root of the repository, where GitHub looks for it. A job may run in a folder below."""
    if not os.path.isfile(file):  # such as the scenario of a stored run, whose file was moved
        return file
    root, path = Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve(), Path(file).resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else file


def _data(text: str) -> str:
    return escape_ci_commands(escape_controls(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _held(stream: TextIO) -> int:
    """How many bytes the summary already has."""
    try:
        return stream.tell()
    except (OSError, UnsupportedOperation):
        return 0
