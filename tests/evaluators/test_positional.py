"""The evaluators of pytest-agent-eval take the same arguments in the same order: to migrate, change the import."""

import asyncio
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from seatrial import (
    ContainsEvaluator,
    EvalResult,
    JudgeEvaluator,
    ToolCall,
    ToolCallArgsEvaluator,
    ToolCallEvaluator,
    TurnContext,
)
from seatrial.testing.model_server import ModelServer, ServerReply

ORDER: dict[Any, str] = {
    ContainsEvaluator: "any_of all_of matches_any matches_all case_sensitive",
    ToolCallEvaluator: "must_include must_exclude ordered",
    ToolCallArgsEvaluator: "tool args mode",
    JudgeEvaluator: "rubric model retries timeout",
    TurnContext: "user reply tool_calls history",
    EvalResult: "passed reasoning",
}
"""As pytest-agent-eval 0.3.0 has them."""


def evaluate(evaluator: Any, ctx: TurnContext) -> EvalResult:
    result: EvalResult = asyncio.run(evaluator.evaluate(ctx))
    return result


@pytest.mark.parametrize(("kind", "names"), ORDER.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_arguments_have_the_order_of_pytest_agent_eval(kind: Any, names: str) -> None:
    parameters = list(signature(kind).parameters.values())[: len(names.split())]
    assert " ".join(parameter.name for parameter in parameters) == names
    assert {parameter.kind for parameter in parameters} == {parameters[0].POSITIONAL_OR_KEYWORD}


def test_arguments_may_be_given_by_position() -> None:
    calls: Any = ["find", ToolCall("book", {"id": 1, "at": 2})]
    called = TurnContext("Book it.", "Booked.", calls, [])
    assert evaluate(ContainsEvaluator(["booked", "sent"], ["book"]), called).passed
    assert not evaluate(ContainsEvaluator(["booked"], [], [], [], True), called).passed
    assert evaluate(ToolCallEvaluator(["find", "book"], ["cancel"], True), called).passed
    assert not evaluate(ToolCallEvaluator(["book", "find"], [], True), called).passed
    assert evaluate(ToolCallArgsEvaluator("book", {"id": 1}), called).passed
    assert not evaluate(ToolCallArgsEvaluator("book", {"id": 1}, "exact"), called).passed
    assert EvalResult(False, "because").reasoning == "because"


def test_names_of_tools_become_calls_without_arguments() -> None:
    names: Any = ["a", "b"]
    ctx = TurnContext(reply="Done.", tool_calls=names)
    assert ctx.tool_calls == (ToolCall("a"), ToolCall("b"))
    assert ctx.tools_called == ["a", "b"]
    assert evaluate(ToolCallEvaluator(["a"], ["c"]), ctx).passed
    assert not evaluate(ToolCallEvaluator(["c"]), ctx).passed
    assert TurnContext(tool_calls=None).tool_calls is None


def test_a_judge_takes_model_retries_and_timeout_by_position() -> None:
    with ModelServer([ServerReply(status=500, body="{}", headers={"retry-after": "0"})]) as server:
        judge = JudgeEvaluator("Polite.", {"model": "openai:scripted", "base_url": server.base_url}, 1, 5.0)
        result = evaluate(judge, TurnContext("Hi", "Hello"))
    assert (len(server.requests), judge.timeout) == (2, 5.0)
    assert result.reasoning.startswith("Judge failed after 2 attempts: ")


@pytest.mark.parametrize("place", ["pyproject.toml", "environment"])
def test_a_judge_by_itself_asks_the_model_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.delenv("SEATRIAL_JUDGE_MODEL", raising=False)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with ModelServer(['{"reasoning": "It greets.", "passed": true}']) as server:
        model = f"openai:scripted@{server.base_url}"
        if place == "environment":
            monkeypatch.setenv("SEATRIAL_JUDGE_MODEL", model)
        else:
            (tmp_path / "pyproject.toml").write_text(f'[tool.seatrial]\njudge_model = "{model}"\n')
        result = evaluate(JudgeEvaluator("Greets."), TurnContext("Hi", "Hello"))
    assert (result.passed, result.reasoning, len(server.requests)) == (True, "It greets.", 1)


def test_a_judge_by_itself_with_settings_that_are_wrong_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.seatrial]\njudge_model = 3\n")
    result = evaluate(JudgeEvaluator("Greets."), TurnContext("Hi", "Hello"))
    assert result.error is not None
    assert (result.error.kind, "judge_model" in result.error.message) == ("config", True)
