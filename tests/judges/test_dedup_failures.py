import asyncio
import json
from typing import Any

import pytest

from seatrial.judges.transcript_judge import MergedFailures, merge_failures
from seatrial.llm.client import LLM
from seatrial.llm.model import parse_model
from seatrial.model.results import BehaviourFailure, Severity
from seatrial.testing.model_server import ModelServer, ServerReply


def a_failure(label: str, *, severity: str = "high", turn: int = 0) -> BehaviourFailure:
    return BehaviourFailure(
        category="false_information", severity=Severity(severity), label=label, explanation=f"about {label}", turn=turn
    )


TRIALS = [
    (0, (a_failure("Wrong price", turn=1), a_failure("Too chatty", severity="low"))),
    (2, (a_failure("Price was wrong", severity="critical", turn=3),)),
]


def group(label: str, *ids: str) -> dict[str, Any]:
    return {"label": label, "explanation": "why", "ids": list(ids)}


def merge(*answers: Any, trials: Any = TRIALS) -> tuple[MergedFailures, int]:
    async def main(server: ModelServer) -> MergedFailures:
        async with LLM(backoff=0.0) as llm:
            model = parse_model({"model": "openai:scripted", "base_url": server.base_url}, environ={})
            return await merge_failures(trials, llm=llm, model=model)

    scripted = [one if isinstance(one, ServerReply) else json.dumps({"groups": one}) for one in answers]
    with ModelServer(scripted or ["{}"]) as server:
        return asyncio.run(main(server)), len(server.requests)


def test_the_same_mistake_in_several_trials_becomes_one_error_as_bad_as_its_worst() -> None:
    merged, requests = merge([group("Chatty", "F2"), group("Wrong price", "F1", "F3")])
    assert requests == 1
    assert merged.note is None
    assert [(e.severity, e.label, e.occurrences, e.examples) for e in merged.errors] == [
        (Severity.CRITICAL, "Wrong price", 2, ((0, 1), (2, 3))),
        (Severity.LOW, "Chatty", 1, ((0, 0),)),
    ]


@pytest.mark.parametrize(
    "groups",
    [
        [],
        [group("a", "F1", "F3")],
        [group("a", "F1", "F2", "F3", "F4")],
        [group("a", "F1", "F2"), group("b", "F2", "F3")],
        [group("a", "F1", "F1", "F2", "F3")],
        [group("a", "F1", "F2", "F3"), group("b")],
    ],
    ids=["nothing", "one lost", "one invented", "one in two groups", "one twice", "an empty group"],
)
def test_an_answer_in_which_a_failure_is_lost_or_invented_is_not_used(groups: list[dict[str, Any]]) -> None:
    merged, requests = merge(groups)
    assert requests == 2
    assert sum(error.occurrences for error in merged.errors) == 3
    assert {error.label for error in merged.errors} == {"Wrong price", "Price was wrong", "Too chatty"}
    assert merged.note is not None
    repaired, _ = merge(groups, [group("all", "F1", "F2", "F3")])
    assert [error.label for error in repaired.errors] == ["all"]


def test_a_model_that_cannot_be_asked_loses_no_failure() -> None:
    merged, _ = merge(ServerReply(status=401, body="{}"))
    assert [error.severity for error in merged.errors] == [Severity.CRITICAL, Severity.HIGH, Severity.LOW]
    assert "401" in (merged.note or "")


@pytest.mark.parametrize(
    ("trials", "expected"),
    [([], []), ([(0, (a_failure("a"),)), (1, (a_failure("a", turn=2),))], [("a", ((0, 0), (1, 2)))])],
)
def test_where_there_is_nothing_to_tell_apart_no_model_is_asked(trials: Any, expected: Any) -> None:
    merged, requests = merge(trials=trials)
    assert requests == 0
    assert [(error.label, error.examples) for error in merged.errors] == expected
