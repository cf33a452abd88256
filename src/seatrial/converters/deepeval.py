"""DeepEval: goldens as JSON, JSON Lines or CSV. Its metrics are in Python, not in these files."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from seatrial.scenarios.problems import KeyPath

from .conversion import ConvertedScenario, ConvertedSuite, short_name

_LISTS = ("goldens", "conversational_goldens", "conversationalGoldens")
_RECORDED = ("actual_output", "tools_called", "token_cost", "input_token_count", "output_token_count")
"""Recorded behaviour of an agent, which is not an expectation."""
_FOR_PEOPLE = ("context", "retrieval_context", "comments", "source_file", "custom_column_key_values")
_OF_ALL = ("name", "expectations", "additional_metadata")
_OF_QUESTION = ("input", "expected_output", "expected_tools")
_OF_TOOL = ("name", "input_parameters", "inputParameters", "description", "reasoning", "type")
_OF_CONVERSATION = ("scenario", "expected_outcome", "persona", "user_description", "turns")


def read(target: ConvertedSuite) -> None:
    target.change((), "DeepEval's metrics are in Python, not in its files: add `metrics` or `scorers`")
    for where, golden in _goldens(target.source.data):
        golden = {_snake(key): value for key, value in golden.items() if value not in (None, [], {}, "")}
        if target.source.path.suffix.lower() == ".csv":
            golden = {key: _cell(key, value) for key, value in golden.items()}
        name = golden.get("name") or golden.get("input") or golden.get("scenario") or "golden"
        scenario = target.add_scenario(short_name(str(name)), where)
        if "scenario" in golden:
            _conversation(golden, where, scenario)
        else:
            _question(golden, where, scenario)
        _expectations(golden, where, scenario)
        _rest(golden, where, scenario)
        own = _OF_CONVERSATION if "scenario" in golden else _OF_QUESTION
        scenario.lose_unknown(golden, (*_OF_ALL, *_RECORDED, *_FOR_PEOPLE, *own), where)


def _goldens(data: Any) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    lists = [((), data)] if isinstance(data, list) else [((name,), data[name]) for name in _LISTS if data.get(name)]
    for place, goldens in lists:
        for index, golden in enumerate(goldens):
            yield (*place, index), golden


def _cell(key: str, text: str) -> Any:
    """The value of a cell: lists of texts are joined with "|", and everything else that is not text is JSON."""
    if key in ("context", "retrieval_context"):
        return text.split("|")
    if key in ("expected_tools", "tools_called", "turns", "expectations", "additional_metadata"):
        with suppress(ValueError):
            return json.loads(text)
    return text


def _snake(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)


def _question(golden: Mapping[str, Any], where: KeyPath, scenario: ConvertedScenario) -> None:
    scenario.keys["input"] = golden["input"]
    if "expected_output" in golden:
        rubric = f"The reply says the same as this, in any words: {golden['expected_output']}"
        scenario.add_scorer({"judge": rubric})
        scenario.change((*where, "expected_output"), "expected_output: a judge compares the reply with it")
    tools = golden.get("expected_tools") or []
    for index, tool in enumerate(tools):
        scenario.lose_unknown(tool, _OF_TOOL, (*where, "expected_tools", index), checks=True)
    if tools:
        scenario.add_scorer({"trajectory": {"mode": "contains", "expected": [_call(tool) for tool in tools]}})


def _call(tool: Mapping[str, Any]) -> dict[str, Any]:
    given = {_snake(key): value for key, value in tool.items()}
    arguments = given.get("input_parameters")
    return {"name": given["name"], **({"args": arguments} if arguments else {})}


def _conversation(golden: Mapping[str, Any], where: KeyPath, scenario: ConvertedScenario) -> None:
    persona = golden.get("persona")
    profile = persona.get("characteristics") if isinstance(persona, Mapping) else golden.get("user_description")
    user: dict[str, Any] = {"profile": profile} if profile else {}
    scenario.keys["user"] = {**user, "goal": golden["scenario"]}
    turns = golden.get("turns") or []
    if turns:
        scenario.keys["history"] = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
        if turns[-1]["role"] == "user":
            scenario.change((*where, "turns"), "turns: they end with the user, who speaks again here")
    if "expected_outcome" in golden:
        scenario.add_outcome(golden["expected_outcome"])
    elif not golden.get("expectations"):
        scenario.keys |= {"metrics": ["goal_completion"], "thresholds": {"goal_completion": 1.0}}
        scenario.count_check()
        scenario.change(where, "no expected outcome: here a judge must find the user's goal met in every trial")


def _expectations(golden: Mapping[str, Any], where: KeyPath, scenario: ConvertedScenario) -> None:
    expectations = golden.get("expectations") or {}
    for statement in expectations.get("must") or ():
        scenario.add_outcome(str(statement))
    for statement in expectations.get("must_not") or ():
        scenario.add_outcome(f"The following is not the case: {statement}")
    for key, value in expectations.items():
        if key not in ("must", "must_not") and value:
            scenario.lose_check((*where, "expectations", key), f"expectations.{key}")


def _rest(golden: Mapping[str, Any], where: KeyPath, scenario: ConvertedScenario) -> None:
    metadata = dict(golden.get("additional_metadata") or {})
    for key in _FOR_PEOPLE:
        if key in golden:
            metadata[key] = golden[key]
    if metadata:
        scenario.keys["metadata"] = metadata
    if "retrieval_context" in golden:
        scenario.change((*where, "retrieval_context"), "retrieval_context: kept as metadata, for people")
    for key in _RECORDED:
        if key in golden:
            scenario.lose((*where, key), f"{key}: a recording; here the agent is asked again")
