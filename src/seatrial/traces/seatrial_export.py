"""Seatrial's own runs, as `seatrial export` writes them: every trial is a recording."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript, Usage
from seatrial.model.json_values import plain_arguments, plain_value

from .parsing import listed, mapping, moment_of, name_in, read_count, read_time
from .transcript_builder import Notes, Recording


def is_export(documents: list[Any]) -> bool:
    """Whether the first line says so."""
    return bool(documents) and mapping(documents[0]).get("format") == "seatrial-runs"


def read(documents: list[Any], notes: Notes) -> Iterator[Recording]:
    """The conversations of the trials, named by their scenarios."""
    for document in documents:
        trial = mapping(mapping(document).get("trial"))
        if "$marked" in trial:
            notes.leave_out("trial", "with values that JSON cannot say")
        elif trial:
            yield _read_trial(trial)


def _read_trial(trial: Mapping[str, Any]) -> Recording:
    key = listed(trial.get("key"))
    name = name_in({"name": key[1]}, "name") if len(key) > 1 else None
    began = read_time(trial.get("started_at"))
    return Recording(
        name=name or "trial",
        transcript=_read_transcript(mapping(trial.get("transcript"))),
        started_at=None if began is None else moment_of(began),
        timed=True,
    )


def _read_transcript(body: Mapping[str, Any]) -> Transcript:
    turns = [_read_turn(mapping(turn), index) for index, turn in enumerate(listed(body.get("turns")))]
    error = _read_error(body.get("error"))
    try:
        stop_reason = StopReason(str(body.get("stop_reason")))
    except ValueError:
        stop_reason = StopReason.SCRIPT_ENDED if error is None else StopReason.ERROR
    state = body.get("state")
    return Transcript(
        turns=tuple(turns),
        stop_reason=stop_reason,
        history=tuple(dict(message) for message in listed(body.get("history")) if isinstance(message, Mapping)),
        state=state if isinstance(state, dict) else None,
        error=error,
        duration_ms=_number(body.get("duration_ms")) or 0.0,
        recorded=plain_value(body.get("recorded")),
        earlier=tuple(filter(None, map(_read_error, listed(body.get("earlier"))))),
        redacted=tuple(name for name in listed(body.get("redacted")) if isinstance(name, str)),
        reachable_tools=tuple(name for name in listed(body.get("reachable_tools")) if isinstance(name, str)),
    )


def _read_turn(body: Mapping[str, Any], index: int) -> PlayedTurn:
    calls = body.get("tool_calls")
    usage = mapping(body.get("usage"))
    reply = body.get("reply")
    return PlayedTurn(
        index=index,
        user=str(body.get("user") or ""),
        reply=reply if isinstance(reply, str) else None,
        tool_calls=tuple(_read_call(mapping(call)) for call in calls) if isinstance(calls, list) else None,
        calls_complete=body.get("calls_complete") is not False,
        started_ms=_number(body.get("started_ms")) or 0.0,
        latency_ms=_number(body.get("latency_ms")) or 0.0,
        usage=_read_usage(usage) if usage else None,
        cost_usd=_number(body.get("cost_usd")),
        error=_read_error(body.get("error")),
    )


def _read_usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=read_count(usage.get("input_tokens")), output_tokens=read_count(usage.get("output_tokens"))
    )


def _read_call(body: Mapping[str, Any]) -> ToolCall:
    error = body.get("error")
    call_id = body.get("id")
    return ToolCall(
        str(body.get("name") or "unknown"),
        plain_arguments(body.get("arguments")),
        plain_value(body.get("result")),
        None if error is None else str(error),
        None if call_id is None else str(call_id),
        _number(body.get("started_ms")),
        _number(body.get("duration_ms")),
    )


def _read_error(body: Any) -> ErrorInfo | None:
    error = mapping(body)
    if not error:
        return None
    try:
        kind = ErrorKind(str(error.get("kind")))
    except ValueError:
        kind = ErrorKind.INFRA
    hint, turn = error.get("hint"), error.get("turn")
    return ErrorInfo(
        kind=kind,
        message=str(error.get("message") or "no message was recorded"),
        hint=hint if isinstance(hint, str) else None,
        turn=turn if isinstance(turn, int) else None,
        counts_as_failed=error.get("counts_as_failed") is True,
    )


def _number(value: Any) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else None
    )
