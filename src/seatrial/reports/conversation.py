"""A trial's conversation as lines: messages, tool calls, checks and scores."""

import json
from collections.abc import Iterator
from typing import Any

from seatrial.model.conversation import Change, ErrorInfo, PlayedTurn, ToolCall
from seatrial.model.faults import FaultResult
from seatrial.model.json_patch import read_pointer
from seatrial.model.results import AttackFact, EvalResult, MetricScore
from seatrial.model.run import Trial
from seatrial.model.value_paths import show_location
from seatrial.verdicts.reasons import number

from .json_report import to_json
from .terminal import shorten
from .texts import checked, counted, duration

Line = tuple[int, str]
"""Depth and text."""
TEXT_LIMIT = 100_000
FAULT_WORDS: dict[FaultResult, str] = {
    "recovered": "the agent recovered",
    "told the user": "the agent told the user",
    "claimed success": "the agent claimed success",
    "unclear": "it is unclear what the agent did",
    "crashed": "the agent crashed",
    "not reached": "nothing is shown",
    "errored": "Seatrial has no answer",
}


def conversation_lines(trial: Trial) -> Iterator[Line]:
    """The trial as lines: turns with their tool calls, scores and checks, then the results of the whole trial."""
    for message in trial.transcript.history:
        yield 0, shorten(f"before: {one_line_json(message)}", TEXT_LIMIT)
    fact = find_fact(trial)
    for turn in trial.transcript.turns:
        yield from _converse_turn(turn, fact)
        yield from _findings(trial, turn.index, depth=1)
    world = trial.transcript.world
    if world is not None and world.drift:
        yield 0, f"drift: {counted(world.drift, 'call')} answered differently than recorded. First: {world.first_drift}"
    yield from _findings(trial, None, depth=0)
    for result in trial.on_failure:
        yield from (
            (further, f"on_failure {text}" if not further else text) for further, text in _describe_result(result)
        )
    if trial.fault is not None:
        yield 0, ": ".join(filter(None, (f"when the tool failed, {FAULT_WORDS[trial.fault.result]}", trial.fault.why)))
    yield from _judged(trial)
    only = checked(trial)
    if only is not None:
        yield 0, f"checked: {only}"
    if trial.error is not None and trial.error.traceback:
        yield 0, shorten(trial.error.traceback.rstrip(), TEXT_LIMIT)


def failed_reply(trial: Trial) -> str | None:
    """The agent's reply in the first turn with a failed check, else the last reply; None if no check failed.

    Trajectory checks are left out: their reasons already list the calls.
    """
    failed = [result for result in trial.results if not result.passed and result.trajectory is None]
    turns = trial.transcript.turns
    at = next((result.turn for result in failed if result.turn is not None), len(turns) - 1)
    turn = next((turn for turn in turns if turn.index == at), None)
    if not failed or turn is None or not turn.reply:
        return None
    where = f" in turn {turn.index + 1}" if len(turns) > 1 else ""
    return f"the agent said{where}: {turn.reply}"


def one_line_json(value: Any) -> str:
    """The value as JSON on one line; letters outside ASCII are not escaped."""
    return json.dumps(to_json(value), ensure_ascii=False)


def describe_call(call: ToolCall) -> str:
    """`create_booking({"time": "10am"}) -> {"id": 1}`, or the error after `!!`; `?` if it is not recorded."""
    arguments = "?" if call.arguments is None else one_line_json(call.arguments)
    took = f"  ({duration(call.duration_ms)})" if call.duration_ms is not None else ""
    if call.error is not None:
        return f"{call.name}({arguments}) !! {call.error}{took}"
    result = one_line_json(call.result) if call.result_known else "?"
    return f"{call.name}({arguments}) -> {result}{took}"


def describe_change(change: Change) -> str:
    """`orders.W1.status: "delivered" → "refunded"`, or what was added or removed."""
    parts = read_pointer(change.path)
    place = show_location(tuple(int(part) if part.isdigit() else part for part in parts))
    if change.op == "add":
        return f"{place}: added {one_line_json(change.value)}"
    if change.op == "remove":
        return f"{place}: removed {one_line_json(change.was)}"
    return f"{place}: {one_line_json(change.was)} → {one_line_json(change.value)}"


def find_fact(trial: Trial) -> AttackFact | None:
    """What the attack did in a trial; None if the trial is of no attack, or ended before."""
    return next((result.attack for result in trial.results if result.attack is not None), None)


def describe_alteration(turn: PlayedTurn, place: int | None, fact: AttackFact | None) -> str | None:
    """What a sweep did to the answer of the call at `place`, or what an attack led to; None: of the reply."""
    if fact is not None and fact.succeeded and (fact.turn, fact.call) == (turn.index, place):
        return "attack: this is what the payload led to"
    call = None if place is None else (turn.tool_calls or ())[place]
    if call is None or call.altered is None:
        return None
    return f"attack: the answer has the payload {call.altered}" if fact is not None else f"altered: {call.altered}"


def _converse_turn(turn: PlayedTurn, fact: AttackFact | None) -> Iterator[Line]:
    retries = f", {turn.retries} retries" if turn.retries else ""
    yield 0, f"turn {turn.index + 1} ({duration(turn.latency_ms)}{retries})"
    yield 1, shorten(f"user: {turn.user}", TEXT_LIMIT)
    yield from ((2, f"attached: {each.label}") for each in turn.attachments)
    if turn.tool_calls is None:
        yield 1, "tool calls: not recorded"
    for place, call in enumerate(turn.tool_calls or ()):
        yield 1, shorten(f"tool: {describe_call(call)}", TEXT_LIMIT)
        if (said := describe_alteration(turn, place, fact)) is not None:
            yield 2, said
        yield from ((2, shorten(f"changed {describe_change(change)}", TEXT_LIMIT)) for change in call.changes)
    for found in turn.contexts or ():
        source = f" ({found.source})" if found.source else ""
        yield 1, shorten(f"retrieved{source}: {found.text}", TEXT_LIMIT)
    yield 1, "agent: (no reply)" if turn.reply is None else shorten(f"agent: {turn.reply}", TEXT_LIMIT)
    if (said := describe_alteration(turn, None, fact)) is not None:
        yield 2, said
    yield from ((2, f"attached: {each.label}") for each in turn.reply_attachments)
    if turn.error is not None:
        yield 1, _describe_error(turn.error)


def _findings(trial: Trial, turn: int | None, *, depth: int) -> Iterator[Line]:
    for result in trial.results:
        if result.turn == turn:
            yield from ((depth + further, text) for further, text in _describe_result(result))
    for score in trial.judgement.scores if trial.judgement else ():
        if score.turn == turn:
            yield depth, _describe_score(score)


def _judged(trial: Trial) -> Iterator[Line]:
    if trial.judgement is None:
        return
    for outcome in trial.judgement.outcomes:
        yield 0, f"{'✓' if outcome.passed else '✗'} {outcome.statement}: {outcome.justification}"
    for failure in trial.judgement.failures:
        where = "" if failure.turn is None else f" in turn {failure.turn + 1}"
        yield 0, f"[{failure.severity}] {failure.label}{where}: {failure.explanation}"
    if trial.judgement.summary:
        yield 0, f"judge: {trial.judgement.summary}"
    if trial.judgement.error is not None:
        yield 0, _describe_error(trial.judgement.error)


def _describe_result(result: EvalResult) -> Iterator[Line]:
    if result.error is not None:
        yield 0, f"✗ {result.evaluator}: {_describe_error(result.error)}"
        if result.error.traceback:
            yield 1, shorten(result.error.traceback.rstrip(), TEXT_LIMIT)
        return
    score = "" if result.score in (0.0, 1.0, None) else f" (score {number(result.score or 0.0)})"
    yield 0, f"{'✓' if result.passed else '✗'} {result.evaluator}{score}: {result.reasoning}"
    for check in result.checks:
        detail = f": {check.detail}" if check.detail and check.detail not in result.reasoning else ""
        yield 1, f"{'✓' if check.passed else '✗'} {check.name}{detail}"
    for line in result.trajectory.diff if result.trajectory is not None else ():
        yield 1, line


def _describe_score(score: MetricScore) -> str:
    label = f" ({score.label})" if score.label else ""
    return f"{score.metric}: {number(score.value)}{label}" + (f" {score.reason}" if score.reason else "")


def _describe_error(error: ErrorInfo) -> str:
    hint = f"\n{error.hint}" if error.hint else ""
    return f"ERROR {error.kind}: {error.message}{hint}"
