"""Datasets of pydantic-evals: `cases` with `inputs`, and evaluators by name."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from seatrial.scenarios.problems import KeyPath

from .conversion import ConvertedScenario, ConvertedSuite, escape

_TEXT_KEYS = ("input", "question", "query", "prompt", "message", "text", "user_prompt", "content")
_FIRST_ARGUMENT = {
    "Equals": "value",
    "Contains": "value",
    "IsInstance": "type_name",
    "MaxDuration": "seconds",
    "LLMJudge": "rubric",
    "GEval": "criteria",
    "ToolCorrectness": "expected_tools",
    "TrajectoryMatch": "expected_trajectory",
    "MaxToolCalls": "max_calls",
    "MaxModelRequests": "max_requests",
    "HasMatchingSpan": "query",
}
"""The argument that `value` is in the short form `Name: value`."""


def read(target: ConvertedSuite) -> None:
    data = target.source.data
    name = data.get("name")
    if name:
        target.suite["name"] = name
    for entry in data.get("report_evaluators") or ():
        target.lose(("report_evaluators",), f"report evaluator {_name_of(entry)!r}: it checks the whole report")
    target.lose_unknown(data, ("$schema", "name", "cases", "evaluators", "report_evaluators"), {})
    shared = data.get("evaluators") or []
    for index, case in enumerate(data["cases"]):
        where: KeyPath = ("cases", index)
        scenario = target.add_scenario(case.get("name") or f"case {index + 1}", where)
        scenario.keys["input"] = _input(case["inputs"], (*where, "inputs"), scenario)
        if case.get("metadata") is not None:
            scenario.keys["metadata"] = _as_mapping(case["metadata"])
        scenario.lose_unknown(case, ("name", "inputs", "metadata", "expected_output", "evaluators"), where)
        own = case.get("evaluators") or []
        for place, entries in ((("evaluators",), shared), ((*where, "evaluators"), own)):
            scenario.shared = entries is shared
            for number, entry in enumerate(entries):
                _Evaluator(case, scenario, (*place, number)).carry(entry)
        if case.get("expected_output") is not None and not _compares(shared + own):
            scenario.lose((*where, "expected_output"), "expected_output, which no evaluator of the dataset uses")


def _compares(entries: list[Any]) -> bool:
    """Whether an evaluator may use the expected output."""
    names = {_name_of(entry) for entry in entries}
    return "EqualsExpected" in names or not names <= (set(_KNOWN) - {"LLMJudge"})


def _as_mapping(metadata: Any) -> dict[str, Any]:
    return dict(metadata) if isinstance(metadata, Mapping) else {"metadata": metadata}


def _input(inputs: Any, where: KeyPath, scenario: ConvertedScenario) -> str:
    if isinstance(inputs, str) and inputs.strip():
        return inputs
    if isinstance(inputs, Mapping):
        texts = [key for key in _TEXT_KEYS if isinstance(inputs.get(key), str)]
        if len(inputs) == 1 and texts:
            return str(inputs[texts[0]])
    scenario.change(where, "inputs that are no text: the agent is sent their JSON as its message")
    return json.dumps(inputs, ensure_ascii=False)


def _name_of(entry: Any) -> str:
    return entry if isinstance(entry, str) else str(next(iter(entry), ""))


class _Evaluator:
    """Adds one evaluator to a scenario."""

    def __init__(self, case: Mapping[str, Any], scenario: ConvertedScenario, where: KeyPath) -> None:
        self._case = case
        self._scenario = scenario
        self._where = where

    def carry(self, entry: Any) -> None:
        name, given = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
        if "name" in given and "arguments" in given if isinstance(given, Mapping) else False:
            given = given["arguments"]
        known = _KNOWN.get(name)
        if known is None:
            self._lose(f"evaluator {name!r}: it is Python code, or has no counterpart here")
            return
        first = _FIRST_ARGUMENT.get(name, "value")
        known(self, given if isinstance(given, Mapping) else {first: given})

    def _lose(self, text: str) -> None:
        self._scenario.lose_check(self._where, text)

    def _equals(self, given: Mapping[str, Any]) -> None:
        self._exactly(given["value"], "Equals")

    def _equals_expected(self, given: Mapping[str, Any]) -> None:
        # Without expected_output a case passes there.
        if self._case.get("expected_output") is not None:
            self._exactly(self._case["expected_output"], "EqualsExpected")

    def _exactly(self, value: Any, name: str) -> None:
        if isinstance(value, str) and value.strip():
            self._scenario.add_scorer({"exact": {"expected": value, "normalize": False}})
        else:
            self._lose(f"{name} with {value!r:.60}, which is no text")

    def _contains(self, given: Mapping[str, Any]) -> None:
        value = given["value"]
        if not isinstance(value, str) or not value:
            self._lose(f"Contains with {value!r:.60}, which is no text")
        elif given.get("case_sensitive", True):
            self._scenario.add_scorer({"regex": escape(value)})
        else:
            self._scenario.add_expectation("reply_contains_all", [value])

    def _is_instance(self, given: Mapping[str, Any]) -> None:
        if given["type_name"] != "str":  # every reply is a text
            self._lose(f"IsInstance {given['type_name']!r}: a reply is always a text")

    def _max_duration(self, given: Mapping[str, Any]) -> None:
        seconds = given["seconds"]
        if isinstance(seconds, int | float):
            self._scenario.add_limit("latency_ms", round(seconds * 1000, 3))
        else:
            self._lose(f"MaxDuration of {seconds!r}")

    def _llm_judge(self, given: Mapping[str, Any]) -> None:
        if given.get("assertion") is False:
            self._lose("LLMJudge that only gives a score")
            return
        rubric = str(given["rubric"])
        if given.get("include_expected_output") and self._case.get("expected_output") is not None:
            rubric += f"\nExpected output: {self._case['expected_output']}"
        self._judge(rubric, given)

    def _g_eval(self, given: Mapping[str, Any]) -> None:
        steps = "\n".join(f"- {step}" for step in given.get("evaluation_steps") or ())
        self._scenario.change(self._where, "GEval, which gives a score: here a judge says whether the criteria are met")
        self._judge(f"{given['criteria']}\n{steps}".rstrip(), given)

    def _judge(self, rubric: str, given: Mapping[str, Any]) -> None:
        model = given.get("model")
        self._scenario.add_scorer({"judge": {"rubric": rubric, **({"model": model} if isinstance(model, str) else {})}})

    def _tools(self, given: Mapping[str, Any]) -> None:
        mode = "contains" if given.get("allow_extra") else "unordered"
        self._trajectory(mode, given["expected_tools"])

    def _path(self, given: Mapping[str, Any]) -> None:
        mode = {"exact": "strict", "in_order": "in_order", "any_order": "unordered"}[given.get("order", "in_order")]
        if mode != "strict":
            self._scenario.change(self._where, "TrajectoryMatch, which gives a score: here the calls match or do not")
        self._trajectory(mode, given["expected_trajectory"])

    def _trajectory(self, mode: str, names: list[str]) -> None:
        if not names and mode in ("contains", "in_order"):
            self._lose("a trajectory that expects nothing")
            return
        self._scenario.add_scorer({"trajectory": {"mode": mode, "expected": [{"name": name} for name in names]}})

    def _arguments(self, given: Mapping[str, Any]) -> None:
        occurrence = given.get("occurrence", "first")
        if occurrence != "first":
            self._lose(f"ArgumentCorrectness of the {occurrence} call: only the first, any or all calls can be checked")
            return
        entry = {"tool": given["tool_name"], "args": given["expected_arguments"], "calls": "first"}
        if given.get("match_mode") == "exact":
            entry["mode"] = "exact"
        self._scenario.add_expectation("tool_calls_args", [entry])

    def _max_calls(self, given: Mapping[str, Any]) -> None:
        self._scenario.add_limit("tool_calls", given["max_calls"])


_KNOWN: dict[str, Callable[[_Evaluator, Mapping[str, Any]], None]] = {
    "Equals": _Evaluator._equals,
    "EqualsExpected": _Evaluator._equals_expected,
    "Contains": _Evaluator._contains,
    "IsInstance": _Evaluator._is_instance,
    "MaxDuration": _Evaluator._max_duration,
    "LLMJudge": _Evaluator._llm_judge,
    "GEval": _Evaluator._g_eval,
    "ToolCorrectness": _Evaluator._tools,
    "TrajectoryMatch": _Evaluator._path,
    "ArgumentCorrectness": _Evaluator._arguments,
    "MaxToolCalls": _Evaluator._max_calls,
}
