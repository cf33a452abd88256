"""Seatrial's own runs, as `seatrial export` writes them: every trial is a recorded conversation."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from seatrial.model.conversation import Transcript
from seatrial.model.run import ScenarioKey

from .parsing import Omissions, mapping, name_in
from .transcript_builder import RecordedConversation


class _Trial(msgspec.Struct):
    """The fields of a trial that are read."""

    key: ScenarioKey
    transcript: Transcript
    started_at: datetime


def matches(documents: list[Any]) -> bool:
    """Whether the first line is the header of an export."""
    return bool(documents) and mapping(documents[0]).get("format") == "seatrial-runs"


def read(documents: list[Any], omissions: Omissions) -> Iterator[RecordedConversation]:
    """The conversations of the trials, with the names of their scenarios."""
    for document in documents:
        trial = mapping(document).get("trial")
        if trial is None:
            continue
        try:
            found = msgspec.convert(_complete(trial), _Trial, str_keys=True)
        except (msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError):
            omissions.add("trial", "that this version cannot read")
            continue
        yield RecordedConversation(
            name=name_in({"name": found.key.name}, "name") or "trial",
            transcript=found.transcript,
            started_at=found.started_at,
            timed=True,
        )


def _complete(trial: Any) -> Any:
    """The trial with its NaN and infinities, and with fields that older exports left out where they were null."""
    if "$parts" in trial:
        numbers, trial = trial["$parts"]["numbers"], trial["value"]
        for (*path, last), number in numbers:
            holder = trial
            for step in path:
                holder = holder[step]
            holder[last] = float(number)
    turns = [{"reply": None, "tool_calls": None, **turn} for turn in trial["transcript"]["turns"]]
    return {**trial, "transcript": {**trial["transcript"], "turns": turns}}
