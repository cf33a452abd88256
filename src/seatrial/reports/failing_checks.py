"""The failing check in a few words, and equal failures as groups.

A stored reason tells every step of an evaluator. A reader who has seconds needs only the step that failed.
"""

import re
from collections.abc import Callable, Iterable

from seatrial.model.run import ScenarioKey, Status, Trial, TrialSummary
from seatrial.model.struct import Struct

_WORDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"Expected output found: FAIL \((.*) not found in output\)", re.S), lambda m: f"reply lacks {m[1]}"),
    (re.compile(r"Output produced: FAIL"), lambda m: "empty reply"),
    (re.compile(r"Expected tools called: FAIL \(missing: (.*)\)", re.S), lambda m: f"missing call: {m[1]}"),
    (re.compile(r"Tool arguments match: FAIL \((.*)\)", re.S), lambda m: f"wrong arguments: {m[1]}"),
    (re.compile(r"Exact match: FAIL \((.*)\)", re.S), lambda m: f"reply differs: {m[1]}"),
    (re.compile(r"Pattern found: FAIL \((.*)\)", re.S), lambda m: f"pattern not found: {m[1]}"),
    (re.compile(r"(?:contains|any_of): Reply did not contain any of \['([^']*)'\]"), lambda m: f'reply lacks "{m[1]}"'),
    (
        re.compile(r"(?:contains|any_of): Reply did not contain any of \[(.*)\]", re.S),
        lambda m: f"reply has none of {m[1]}",
    ),
    (
        re.compile(r"(?:contains|all_of): Reply missing required strings: \[(.*)\]", re.S),
        lambda m: f"reply lacks {m[1]}",
    ),
    (
        re.compile(r"(?:contains|none_of): Reply contained forbidden strings: \[(.*)\]", re.S),
        lambda m: f"reply contains {m[1]}",
    ),
    (re.compile(r"expected_output: (.*) not found in output", re.S), lambda m: f"reply lacks {m[1]}"),
    (re.compile(r"end_state: End state differs: (.*)", re.S), lambda m: f"end state: {m[1]}"),
)
_TURN = re.compile(r"turn \d+: ")
_NUMBER = re.compile(r"\b[\w-]*\d[\w-]*\b")


def failing_check(reason: str, *, whole: bool = False) -> str:
    """`reply lacks "shipped"`, from the full text of a reason.

    A reason of another form loses only further lines, and with `whole` not even them.
    """
    for pattern, words in _WORDS:
        found = pattern.search(reason)
        if found is not None:
            turn = _TURN.match(reason)
            return (turn.group() if turn else "") + words(found)
    return reason if whole else reason.split("\n", 1)[0]


class FailureGroup(Struct, frozen=True, kw_only=True):
    """Trials that failed the same check; ids and numbers may differ."""

    text: str
    """The failing check of the first trial."""
    status: Status
    trials: int
    scenarios: tuple[ScenarioKey, ...]
    first: tuple[ScenarioKey, int]
    """The first trial."""


def group_failures(summaries: Iterable[TrialSummary]) -> list[FailureGroup]:
    """The failed and errored trials by their first failing check, largest group first."""
    found: dict[tuple[Status, str], list[TrialSummary]] = {}
    for one in summaries:
        if one.status is not Status.PASSED:
            found.setdefault((one.status, mask(first_check(one))), []).append(one)
    groups = [
        FailureGroup(
            text=first_check(members[0]),
            status=status,
            trials=len(members),
            scenarios=tuple(dict.fromkeys(one.key for one in members)),
            first=(members[0].key, members[0].index),
        )
        for (status, _), members in found.items()
    ]
    return sorted(groups, key=lambda group: -group.trials)


def first_check(trial: Trial | TrialSummary) -> str:
    """The first failing check of a trial, or its error; in a sweep over faults, what the agent did."""
    if trial.fault is not None:
        return f"{trial.fault.result}: {trial.fault.why}" if trial.fault.why else trial.fault.result
    if trial.failure_reasons:
        return failing_check(trial.failure_reasons[0])
    error = trial.error_message if isinstance(trial, TrialSummary) else trial.error and trial.error.message
    return error or trial.status.value


def mask(text: str) -> str:
    """The text without ids and numbers, so that equal failures look equal."""
    return _NUMBER.sub("#", text)
