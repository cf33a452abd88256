"""Agents with the Agent2Agent protocol. Its own server is tested in integrations/a2a_sdk."""

from typing import Any

import pytest

import seatrial
from seatrial import Scenario
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Trial

from .model_apis import serve

CARD = {"supportedInterfaces": [{"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}


def play(*answers: Any, card: Any = CARD, settings: Any = ()) -> tuple[Trial, list[dict[str, Any]]]:
    left = [card, *answers]
    with serve(lambda _: left.pop(0)) as api:
        agent = {"type": "a2a", "url": api.url, **dict(settings)}
        (trial,) = seatrial.run(Scenario(name="x", input="Hello."), agent=agent, store=None).trials()
    return trial, api.bodies


def result(**fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "1", "result": fields}


def test_a_task_that_is_not_finished_is_asked_for_again() -> None:
    working = {"id": "t-1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    done = {**working, "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"parts": [{"text": "Done."}]}]}
    trial, requests = play(result(task=working), result(**done))

    assert trial.transcript.reply == "Done."
    assert [(each["method"], each["params"].get("id")) for each in requests[1:]] == [
        ("SendMessage", None),
        ("GetTask", "t-1"),
    ]


def test_data_is_a_reply_as_json() -> None:
    trial, _ = play(result(message={"parts": [{"data": {"risk": 2}}]}))

    assert trial.transcript.reply == '{"risk": 2}'


@pytest.mark.parametrize(
    ("card", "answer", "text"),
    [
        ({"name": "x"}, None, "an agent card without a JSON-RPC address"),
        (CARD, {"jsonrpc": "2.0", "error": {"code": -32603, "message": "broken"}}, "returned an error"),
        (CARD, {"jsonrpc": "2.0"}, "without a result"),
        (CARD, result(task={"status": {"state": "TASK_STATE_REJECTED"}}), "task is rejected: it gives no reason"),
    ],
)
def test_what_is_no_answer_is_errored(card: Any, answer: Any, text: str) -> None:
    trial, _ = play(answer, card=card)

    assert trial.error.kind is ErrorKind.AGENT
    assert text in trial.error.message


def test_an_empty_reply_fails() -> None:
    trial, _ = play(result(task={"status": {"state": "TASK_STATE_COMPLETED"}}))

    assert trial.status == "failed"
