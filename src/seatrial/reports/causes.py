"""Causes of failures as text, for the terminal and for Markdown."""

import shlex
from collections.abc import Iterator, Sequence

from seatrial.model.causes import Cause
from seatrial.model.run import Status

from .failing_checks import failing_check
from .terminal import TerminalWriter, one_line, shorten
from .texts import counted

TEXT_LIMIT = 500
NAMES_SHOWN = 3


def causes_title(causes: Sequence[Cause]) -> str:
    """`2 causes of 7 failed trials:`."""
    trials = sum(cause.trials for cause in causes)
    title = counted(len(causes), "cause")
    return f"{title} of {counted(trials, 'failed trial')}:" if trials else f"{title}:"


def scenarios_of(cause: Cause) -> str:
    """`refund, exchange and 2 more`, with the number of trials if there are several."""
    names = list(dict.fromkeys(one_line(key.label) for key, _ in cause.scenarios))
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    trials = f" ({counted(cause.trials, 'trial')})" if cause.trials > 1 else ""
    return ", ".join(names[:NAMES_SHOWN]) + more + trials


def headline(cause: Cause) -> str:
    """The scenarios and the symptom; the model's title if there is one."""
    what = cause.title or failing_check(cause.symptom, whole=True)
    return f"{scenarios_of(cause)}: {shorten(one_line(what), TEXT_LIMIT)}"


def cause_details(cause: Cause) -> Iterator[str]:
    """What differs, where in the user's code, what to try, what was proved. One line each."""
    if cause.title:
        yield shorten(one_line(cause.symptom), TEXT_LIMIT)
    found = cause.divergence
    if found.text:
        against = f" (compared with {found.against})" if found.against else ""
        where = f"{found.where}: " if found.where else ""
        yield f"{where}{shorten(one_line(found.text), TEXT_LIMIT)}{against}"
    if cause.place and cause.place not in cause.advice:
        yield f"at {one_line(cause.place)}"
    if cause.proof is not None:
        yield one_line(cause.proof.text)
    if cause.advice:
        yield f"try: {one_line(cause.advice)}"


def show_command(cause: Cause, run_id: str) -> str:
    """The command that shows the first trial with this cause, or its first scenario."""
    key = cause.examples[0][0] if cause.examples else cause.scenarios[0][0]
    trial = f" {cause.examples[0][1] + 1}" if cause.examples else ""
    return f"seatrial show {shlex.quote(one_line(run_id))} {_quoted(one_line(key.label))}{trial}"


def print_cause(cause: Cause, run_id: str, writer: TerminalWriter) -> None:
    """Write a cause: its trials and symptom, what differs, what to try, and the command to look closer."""
    writer.line(headline(cause), indent=2, mark=Status.FAILED)
    for line in cause_details(cause):
        writer.line(line, indent=6)
    writer.line(show_command(cause, run_id), indent=6, style="dim")


def _quoted(name: str) -> str:
    """The name, always in quotes, so that every command looks the same."""
    quoted = shlex.quote(name)
    return quoted if quoted.startswith("'") else f"'{quoted}'"
