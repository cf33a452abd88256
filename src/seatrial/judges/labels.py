"""Files of human labels, and how well a judge agrees with them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.statistics.agreement import (
    CalibratedRate,
    ConfusionTable,
    JudgeAgreement,
    JudgedTrials,
    calibrate_rate,
    confusion_table,
    judge_agreement,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Agreement of a judge with human labels."""

    table: ConfusionTable
    agreement: JudgeAgreement
    """Of the labelled trials alone: wrong for all trials if labels were chosen by verdict."""
    corrected: CalibratedRate | None = None
    """For all judged trials: the pass rate that humans would give, and the agreement."""
    trials: int = 0
    """All judged trials, labelled or not."""
    unlabelled: int = 0


def calibrate(
    labels: Iterable[tuple[bool, bool]], *, judged: JudgedTrials | None = None, confidence: float = 0.95
) -> Calibration:
    """The calibration for (human, judge) labels of the same trials; `judged`: all trials of the judge."""
    pairs = list(labels)
    if not pairs:
        raise UsageError("calibrate: there is no labelled trial. Label some, passes and failures, and try again.")
    table = confusion_table([human for human, _ in pairs], [judge for _, judge in pairs])
    return Calibration(
        table=table,
        agreement=judge_agreement(table, confidence=confidence),
        corrected=calibrate_rate(judged, confidence=confidence) if judged else None,
        trials=judged.total if judged else table.total,
        unlabelled=judged.total - judged.labels.total if judged else 0,
    )


_KNOWN = ("label", "judge", "input", "output", "messages", "scenario", "trial", "id", "note")
_WORDS = {
    **dict.fromkeys(("pass", "passed", "true", "yes", "y", "good"), 1.0),
    **dict.fromkeys(("fail", "failed", "false", "no", "n", "bad"), 0.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """One row of a file of labels."""

    place: str
    """file:line, and the row's id if it has one."""
    human: float | None
    """1 and 0 for pass and fail, or a score; None: not labelled."""
    said_in_words: bool = False
    """The label was a word, so it is a verdict on any scale."""
    judge: float | None = None
    """The judge's label, if the file has one."""
    judged_in_words: bool = False
    """The judge's label was a word: a score of 1 is not a pass on a scale up to 5."""
    transcript: Transcript | None = None
    scenario: str | None = None
    trial: int | None = None
    """Its index, from 0."""


def read_label_rows(path: Path) -> list[LabelRow]:
    """The rows of the file. Raises UsageError with every row that cannot be read."""
    rows: list[LabelRow] = []
    problems: list[str] = []
    for number, raw in _raw_rows(path):
        try:
            rows.append(_read(raw, f"{path}:{number}"))
        except UsageError as problem:
            problems.append(str(problem))
    if problems:
        raise UsageError("\n".join(problems[:20]))
    if not rows:
        raise UsageError(f"{path}: has no rows. Expected columns such as label, input, output.")
    return rows


def _raw_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: the labels cannot be read: {error}") from None
    if path.suffix.lower() == ".csv":
        import csv

        reader = csv.DictReader(text.splitlines(keepends=True))
        for row in reader:
            yield reader.line_num, {key: value for key, value in row.items() if value not in (None, "")}
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise UsageError(f"{path}:{number}: not JSON: {error}. Labels are CSV (.csv) or JSON lines.") from None


def _read(raw: Any, place: str) -> LabelRow:
    if not isinstance(raw, Mapping):
        raise UsageError(f"{place}: expected an object with a label, got {raw!r:.80}")
    unknown = [str(key) for key in raw if key not in _KNOWN]
    if unknown:
        raise UsageError(f"{place}: unknown column {unknown[0]!r}. Known: {', '.join(_KNOWN)}.")
    name = raw.get("id") or (f"{raw['scenario']} {raw.get('trial', '')}".strip() if raw.get("scenario") else None)
    return LabelRow(
        place=f"{place} ({name})" if name else place,
        human=_verdict(raw.get("label"), f"{place}: label"),
        said_in_words=_is_word(raw.get("label")),
        judge=_verdict(raw.get("judge"), f"{place}: judge"),
        judged_in_words=_is_word(raw.get("judge")),
        transcript=_conversation(raw, place),
        scenario=None if raw.get("scenario") is None else str(raw["scenario"]),
        trial=_trial_index(raw.get("trial"), place),
    )


def _is_word(value: Any) -> bool:
    return isinstance(value, bool) or str(value).strip().lower() in _WORDS


def _verdict(value: Any, where: str) -> float | None:
    if value is None or value == "":
        return None
    word = str(value).strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        score = float(word)
    except ValueError:
        score = nan
    if not isfinite(score):  # an empty cell of a data frame is no fail
        raise UsageError(f"{where}: expected pass, fail or a score, got {value!r}")
    return score


def _trial_index(value: Any, place: str) -> int | None:
    if value is None:
        return None
    number = str(value).removeprefix("trial-")
    if not number.isascii() or not number.isdigit() or int(number) < 1:
        raise UsageError(f"{place}: trial: expected a number from 1, as `seatrial show` has it, got {value!r}")
    return int(number) - 1


def _conversation(raw: Mapping[str, Any], place: str) -> Transcript | None:
    if "messages" in raw:
        messages = raw["messages"]
        if not isinstance(messages, list) or not all(isinstance(each, Mapping) and "role" in each for each in messages):
            raise UsageError(f"{place}: messages: expected a list of chat messages, got {messages!r:.80}")
        return _from_messages(messages, place)
    if "input" not in raw and "output" not in raw:
        return None
    if "input" not in raw or "output" not in raw:
        raise UsageError(f"{place}: a conversation needs both input and output")
    turn = PlayedTurn(index=0, user=str(raw["input"]), reply=str(raw["output"]), tool_calls=None)
    return Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED)


def _from_messages(messages: Sequence[Mapping[str, Any]], place: str) -> Transcript:
    """Turns from chat messages. Each user message begins a turn. Agent messages without a call between them are one
    reply."""
    first = next((number for number, message in enumerate(messages) if message["role"] == "user"), len(messages))
    turns: list[PlayedTurn] = []
    goes_on = False
    results = {each.get("tool_call_id"): each.get("content") for each in messages if each["role"] == "tool"}
    for message in messages[first:]:
        if message["role"] == "user":
            turns.append(PlayedTurn(index=len(turns), user=str(message.get("content")), reply=None, tool_calls=()))
            goes_on = False
        elif message["role"] == "assistant":
            was = turns[-1]
            calls = tuple(_call(call, results) for call in message.get("tool_calls") or ())
            said = [was.reply if goes_on else "", str(message.get("content") or "")]
            reply = "\n".join(filter(None, said)) or was.reply
            goes_on = not calls
            turns[-1] = PlayedTurn(
                index=was.index, user=was.user, reply=reply, tool_calls=(*(was.tool_calls or ()), *calls)
            )
    if not turns:
        raise UsageError(f"{place}: messages: no message is of the user, so there is no turn to judge")
    history = tuple(dict(message) for message in messages[:first])
    return Transcript(turns=tuple(turns), stop_reason=StopReason.SCRIPT_ENDED, history=history)


def _call(call: Mapping[str, Any], results: Mapping[Any, Any]) -> ToolCall:
    function = call.get("function") or call
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            pass  # a malformed call is kept as it came
    return ToolCall(str(function.get("name")), arguments, results.get(call.get("id")), id=call.get("id"))
