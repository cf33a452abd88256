"""The text of a failed scenario: the verdict, the reasons and the conversations."""

from collections.abc import Iterator

from seatrial.model.run import ScenarioOutcome, Status, Trial
from seatrial.reports.conversation import conversation_lines
from seatrial.reports.terminal import escape_ci_commands, escape_controls, one_line, shorten
from seatrial.reports.texts import VERDICT_WORDS, explain, explain_error, measures_of, summarise, trials_line, trials_of
from seatrial.runs.scenario_session import PlayedScenario

_TEXT_LIMIT = 2_000
_TRIALS_SHOWN = 5
_MARKS = {Status.PASSED: "✓", Status.INCONCLUSIVE: "?", Status.NOT_RUN: "-"}
_OFFENDING = ("✗", "ERROR", "- ", "+ ", "! ")
"""Prefixes of lines that say what is wrong; lines of the conversation start with the speaker."""


def describe(played: PlayedScenario, *, run: str, verbosity: int) -> str:
    """The text of the failure. -v shows every failed conversation, -vv also the passed ones."""
    return "\n".join(escape_ci_commands(line) for line in _describe(played, run, verbosity))


def in_one_line(outcome: ScenarioOutcome) -> str:
    """`order_lookup: FAIL, 2/3 trials passed [0.21, 0.94]: …`."""
    numbers = f", {trials_line(outcome)}" if trials_of(outcome) > 1 else ""
    reasons = "; ".join(outcome.verdict.failure_reasons)
    text = f"{outcome.entry.key.label}: {VERDICT_WORDS[outcome.verdict.status]}{numbers}"
    return one_line(f"{text}: {reasons}" if reasons else text)


def _describe(played: PlayedScenario, run: str, verbosity: int) -> Iterator[str]:
    outcome = played.outcome
    source = outcome.entry.source
    head = one_line(outcome.entry.key.label)
    numbers = f"  {trials_line(outcome)}" if trials_of(outcome) > 1 else ""
    yield f"{VERDICT_WORDS[outcome.verdict.status]} {head}{numbers}" + (
        f"  ({source})" if source and not source.startswith("<") else ""
    )
    if trials_of(outcome) > 1 or all(trial.status is Status.PASSED for trial in played.trials):
        for reason in outcome.verdict.failure_reasons:
            yield from _indented(shorten(reason, _TEXT_LIMIT), 2)
    for measure in measures_of(outcome):
        yield f"  {one_line(measure.text)}"
    for error in outcome.unique_errors:
        for text in explain_error(error):
            yield from _indented(text, 2)
    for note in outcome.notes:
        yield f"  note: {one_line(note)}"
    yield from _trials(played, verbosity)
    name = outcome.entry.key.label.replace("'", "'\\''")
    yield f"  look closer: seatrial show {run} '{one_line(name)}'"


def _trials(played: PlayedScenario, verbosity: int) -> Iterator[str]:
    bad = [trial for trial in played.trials if trial.status is not Status.PASSED]
    shown = bad if verbosity > 0 else bad[:_TRIALS_SHOWN]
    for trial in played.trials:
        if trial in shown:
            yield from _trial(trial, whole=verbosity > 0 or trial is shown[0])
        elif verbosity > 0 and trial.status is Status.PASSED:
            yield from _trial(trial, whole=verbosity > 1)
    if len(bad) > len(shown):
        yield f"  … {len(bad) - len(shown)} more trials did not pass: -v shows them"


def _trial(trial: Trial, *, whole: bool) -> Iterator[str]:
    yield from _indented(f"{_MARKS.get(trial.status, '✗')} {trial.id} {shorten(summarise(trial), _TEXT_LIMIT)}", 2)
    for reason in explain(trial) if trial.status is not Status.PASSED else ():
        yield from _indented(shorten(reason, _TEXT_LIMIT), 6)
    if whole:
        yield from _conversation(trial)


def _conversation(trial: Trial) -> Iterator[str]:
    """The conversation, with `>` before turns and checks that failed."""
    wrong = {result.turn for result in trial.results if not result.passed}
    wrong |= {trial.error.turn} if trial.error is not None else set()
    turn: int | None = None
    turns = iter(trial.transcript.turns)
    for depth, text in conversation_lines(trial):
        is_turn = depth == 0 and text.startswith("turn ")
        if is_turn:
            played = next(turns, None)
            turn = None if played is None else played.index
        offends = text.startswith(_OFFENDING) or (is_turn and turn is not None and turn in wrong)
        lead = "    > " if offends else "      "
        first, *more = escape_controls(shorten(text, _TEXT_LIMIT)).split("\n")
        yield f"{lead}{'  ' * depth}{first}"
        yield from (f"      {'  ' * depth}  {line}" for line in more)


def _indented(text: str, indent: int) -> Iterator[str]:
    first, *more = escape_controls(text).split("\n")
    yield " " * indent + first
    yield from (" " * (indent + 2) + line for line in more)
