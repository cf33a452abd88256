"""Texts that an agent retrieves: shown to judges, and graded by the metrics that need them."""

import json
from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, Scenario
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Status, Trial
from seatrial.testing.model_server import ModelServer, ReceivedRequest

PASSAGE = "Receipts are kept for ten years."
METRICS = ["faithfulness_to_context", "context_relevance"]


def grade(request: ReceivedRequest) -> str:
    """Grades by the retrieved lines of the transcript: 5 if the reply is in them, else 1."""
    text = request.messages[-1][1]
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"turn"')]
    found = [line["retrieved"] for line in lines if "retrieved" in line]
    replies = [line["agent"] for line in lines if "agent" in line]
    faithful = all(any(reply in passage for passage in found) for reply in replies)
    relevant = any("Receipts" in passage for passage in found)
    scores = {"faithfulness_to_context": faithful, "context_relevance": relevant}
    graded = {name: {"reason": "by the texts", "score": 5 if good else 1} for name, good in scores.items()}
    return json.dumps({"metrics": graded, "summary": "Graded."})


def play(agent: Any, **keys: Any) -> Trial:
    with ModelServer(grade) as server:
        scenario = Scenario(
            name="x",
            input="How long are receipts kept?",
            metrics=METRICS,
            thresholds=dict.fromkeys(METRICS, 4),
            models={"judge": f"openai:judge@{server.base_url}"},
            **keys,
        )
        report = seatrial.run(scenario, agent=agent, store=None)
        (trial,) = report.trials()
    return trial


def scores(trial: Trial) -> dict[str, float]:
    assert trial.judgement is not None
    return {score.metric: score.value for score in trial.judgement.scores}


def test_a_reply_that_is_in_the_retrieved_texts_is_faithful() -> None:
    trial = play(lambda input: AgentResult("kept for ten years", contexts=[PASSAGE]))

    assert scores(trial) == {"faithfulness_to_context": 5.0, "context_relevance": 5.0}


def test_an_invented_reply_is_not_faithful() -> None:
    trial = play(lambda input: AgentResult("kept forever", contexts=[{"text": PASSAGE, "source": "law.md"}]))

    assert scores(trial) == {"faithfulness_to_context": 1.0, "context_relevance": 5.0}


def test_a_search_that_found_nothing_is_graded() -> None:
    trial = play(lambda input: AgentResult("kept for ten years", contexts=[]))

    assert scores(trial) == {"faithfulness_to_context": 1.0, "context_relevance": 1.0}


def test_an_agent_without_contexts_is_errored_not_graded() -> None:
    trial = play(lambda input: "kept for ten years")

    assert trial.status is Status.ERRORED
    assert trial.judgement is not None
    assert trial.judgement.error is not None
    assert trial.judgement.error.kind is ErrorKind.CONFIG
    assert "AgentResult(reply, contexts=[...])" in trial.judgement.error.message


class Document:
    """As LangChain has them."""

    page_content = PASSAGE
    metadata = {"source": "law.md"}  # noqa: RUF012


def test_documents_of_a_framework_are_contexts_with_their_source() -> None:
    trial = play(lambda input: AgentResult("kept for ten years", contexts=[Document()]))

    (context,) = trial.transcript.turns[0].contexts or ()
    assert (context.text, context.source) == (PASSAGE, "law.md")


@pytest.mark.parametrize("wrong", ["a text", [3], {"text": "x"}])
def test_contexts_that_are_no_list_of_texts_are_an_error_of_the_agent(wrong: Any) -> None:
    trial = play(lambda input: AgentResult("Hi.", contexts=wrong))

    assert trial.error is not None
    assert trial.error.kind is ErrorKind.AGENT
    assert "context" in trial.error.message
