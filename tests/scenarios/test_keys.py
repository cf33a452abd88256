"""Every key of the scenario files: what is taken, where it ends up, and what is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from seatrial.evaluators.event_patterns import EventPattern
from seatrial.scenarios.keys import CONFIG, FILE, SCENARIO, SUITE, json_schema
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems

SHARED: dict[str, tuple[Any, Any]] = {
    "system": ("Be brief.", {"file": "nowhere.md"}),
    "on_failure": ({"reply_contains_any": ["sorry"]}, {"reply_contains_any": []}),
    "mocks_from": ("tools.calls.yaml", ""),
    "mocks": ({"search": {"returns": 1}}, {"search": {"retuns": 1}}),
    "tools": ([{"name": "search", "parameters": {"type": "object"}}], {"name": "search"}),
    "unmocked_tools": ("passthrough", "ignore"),
    "trials": ("auto", 0),
    "sequential": ({"good": 0.95, "bad": 0.8, "alpha": 0.02, "beta": 0.1, "max_trials": 90}, {"good": 1}),
    "threshold": (0.8, 1.5),
    "gate": ({"pass_rate": 0.9, "confidence": 0.99}, {"pass_rate": 2}),
    "max_turns": (12, 0),
    "timeout_seconds": (2.5, 0),
    "trial_timeout_seconds": (90.0, -1),
    "retries": (2, 1.5),
    "limits": ({"latency_ms": 8000.0, "cost_usd": 0.05, "tokens": 9, "tool_calls": 6, "turns": 4}, {}),
    "metrics": ([{"name": "helpfulness"}], []),
    "pass_threshold": (60.0, 101),
    "failures": (True, "yes"),
    "fail_on_error_severity": ("high", "severe"),
    "severities": ({"wrong_tool": "medium"}, {"wrong_tol": "medium"}),
    "judge_votes": (3, 2),
    "models": ({"judge": "openai:a", "user": "openai:b", "dedup": "openai:c"}, {"juge": "openai:a"}),
    "setup": ("shop.hooks:prepare", "prepare"),
    "teardown": ("shop.hooks:clean", 5),
}
SCENARIO_ONLY: dict[str, tuple[Any, Any]] = {
    "world": ({"seed": {"orders": {}}, "tools": "shop.tools"}, {"tools": "shop.tools", "now": "noon"}),
    "end_state": ({"contains": {"paid": True}}, {"ignore": ["a"]}),
    "name": ("a name", " "),
    "description": ("text", 5),
    "tags": (["read"], "read"),
    "metadata": ({"owner": "me", "regex_pattern": "a+"}, {"regex_pattern": "("}),
    "input": ("hello", ""),
    "attach": (["more.include.yaml"], ["nowhere.png"]),
    "turns": ([{"user": "hello", "reply": "optional"}], []),
    "user": ("shop.users:buyer", "a busy person"),
    "history": ([{"role": "user", "content": "before"}], [{"role": "nobody", "content": "x"}]),
    "examples": ([{"city": "Rome"}], []),
    "skip": ("not now", ""),
    "xfail": ("known", True),
    "expected_output": ("42", 42),
    "expected_tools": (["search"], "search"),
    "expected_tool_args": ({"search": {"q": {"$regex": "a"}}}, {"search": {"q": {"$regx": "a"}}}),
    "scorers": (["passfail", {"regex": "a+"}], []),
    "expect": ({"reply_contains_any": ["a"]}, {"reply_contains_any": []}),
    "trajectory": ({"mode": "strict", "expected": [{"name": "a"}]}, {"mode": "in_order"}),
    "expected_state": ({"orders": 1}, {}),
    "expected_outcomes": (["It was booked."], []),
    "must_pass": (True, 1),
    "invariants": ([{"at_most": 1, "of": ["charge"], "per": ["id"]}], [{"at_most": 1}]),
    "exempt": ({"one charge": "it is free"}, {"two charges": "it is free"}),
    "thresholds": ({"helpfulness": 3.5}, {"helpfulness": "high"}),
    "attacks": ({"goals": [{"leak": "canary"}], "trials": 2}, {"goals": [{"leak": "canary"}], "trials": 0}),
}
CONFIG_ONLY: dict[str, tuple[Any, Any]] = {
    "default_timeout": (5.0, -5),
    "default_scorers": (["passfail"], []),
    "metrics_file": ("metrics.toml", "nowhere.toml"),
    "judge_corrected": ({"pass_rate": 0.8, "confidence": 0.9}, {"confidence": 0.9}),
    "thresholds": ({"helpfulness": 3.5}, {}),
    "cases_pass_threshold": (90.0, 900),
    "metrics_pass_threshold": (70.0, "70"),
    "concurrency": (4, 0),
    "rpm": (60.0, 0),
    "budget": (2.0, 0),
    "fail_fast": (True, "true"),
    "seed": (7, "seven"),
    "isolation": ("process", "container"),
}
SUITE_ONLY: dict[str, tuple[Any, Any]] = {
    "name": ("shop", ""),
    "description": ("text", []),
    "tags": (["nightly"], [1]),
    "metadata": ({"team": "a"}, "a"),
    "agent": ({"type": "openai", "base_url": "http://127.0.0.1/v1"}, {"type": "openai", "model": "m"}),
    "agents": ({"a": "shop:a", "b": "shop:b"}, {}),
    "config": ({"retries": 1}, {"retry": 1}),
    "reports": (["junit=out.xml"], "junit"),
    "evaluators": (["json"], ["no_such_module_anywhere"]),
    "groups": ([{"name": "core", "tags": ["t"], "threshold": 0.5}], [{"tags": ["t"]}]),
    "invariants": ([{"never": ["refund"], "before": ["verify"], "match": ["id"]}], [{"before": "verify"}]),
    "irreversible": (["charge"], "charge"),
    "attacks": ({"goals": [{"leak": "canary"}], "trials": 2}, {"families": ["no_such_family"]}),
    "include": (["more.include.yaml"], ["nowhere.yaml"]),
    "baseline": ("main", None),
    "world": ({"seed": {"orders": {}}, "tools": "shop.tools", "ends": ["transfer"]}, {"seed": "nowhere.json"}),
    "setup": ("shop.hooks:prepare", "prepare"),
    "teardown": ("shop.hooks:clean", 5),
}
SCENARIO_CASES = {**SHARED, **SCENARIO_ONLY}
CONFIG_CASES = {**SHARED, **CONFIG_ONLY}


def _with_scenario(key: str, value: Any) -> dict[str, Any]:
    scenario: dict[str, Any] = {"name": "a name", "input": "hello {city}", "expected_output": "42"}
    if key in ("turns", "user"):
        del scenario["input"]
    if key == "thresholds":
        scenario["metrics"] = ["helpfulness"]
    if key == "sequential":
        scenario["trials"] = "auto"
    if key == "severities":
        scenario["failures"] = True
    rule = {"name": "one charge", "at_most": 1, "of": "charge"}
    suite = {"invariants": [rule]} if key == "exempt" else {}
    return {"suite": suite, "scenarios": [{**scenario, key: value}]}


def _with_config(key: str, value: Any) -> dict[str, Any]:
    beside = {
        "thresholds": {"metrics": ["helpfulness"]},
        "sequential": {"trials": "auto"},
        "severities": {"failures": True},
    }
    config = {key: value, **beside.get(key, {})}
    return {"suite": {"config": config}, "scenarios": [{"name": "a", "input": "hi"}]}


def _with_suite(key: str, value: Any) -> dict[str, Any]:
    return {"suite": {key: value}, "scenarios": [{"name": "a", "input": "hi", "tags": ["t"]}]}


def _load(tmp_path: Path, content: dict[str, Any]):
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(content, indent=1), "utf-8")
    (tmp_path / "more.include.yaml").write_text("suite: {irreversible: [refund]}", "utf-8")
    (tmp_path / "metrics.toml").write_text("[brevity]\nasks = 'Is it short?'\n", "utf-8")
    [suite] = load(path)
    return suite


def _plain(value: Any) -> Any:
    if isinstance(value, EventPattern):
        return str(value)
    if isinstance(value, msgspec.Struct):
        value = {key: item for key, item in msgspec.structs.asdict(value).items() if item not in (None, ())}
    return json.loads(json.dumps(value, default=_plain))


def _contains(actual: Any, expected: Any) -> bool:
    """Whether everything that was written is there; defaults may stand beside it."""
    if isinstance(expected, dict):
        return all(key in actual and _contains(actual[key], item) for key, item in expected.items())
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(map(_contains, actual, expected))
    return bool(actual == expected)


def test_every_key_has_a_case():
    assert SCENARIO_CASES.keys() == SCENARIO.keys.keys()
    assert CONFIG_CASES.keys() == CONFIG.keys.keys()
    assert SUITE_ONLY.keys() == SUITE.keys.keys()
    assert FILE.keys.keys() == {"suite", "scenarios"}


@pytest.mark.parametrize("key", sorted(SCENARIO_CASES.keys() - {"attach", "examples"}))
def test_a_scenario_keeps_what_its_key_says(key, tmp_path):
    right = SCENARIO_CASES[key][0]
    [scenario] = _load(tmp_path, _with_scenario(key, right)).scenarios
    assert _contains(_plain(getattr(scenario, key)), right)


@pytest.mark.parametrize("key", SCENARIO_CASES)
def test_a_scenario_refuses_a_wrong_value_by_its_key(key, tmp_path):
    with pytest.raises(FileProblems) as refused:
        _load(tmp_path, _with_scenario(key, SCENARIO_CASES[key][1]))
    assert any(problem.path.startswith(f"scenarios[0].{key}") for problem in refused.value.problems)


@pytest.mark.parametrize("key", [*SHARED, "thresholds"])
def test_a_key_of_the_config_holds_for_its_scenarios(key, tmp_path):
    right = CONFIG_CASES[key][0]
    content = _with_config(key, right)
    if key == "thresholds":
        content["scenarios"][0]["metrics"] = ["helpfulness"]
    [scenario] = _load(tmp_path, content).scenarios
    assert _contains(_plain(getattr(scenario, key)), right)


@pytest.mark.parametrize("key", sorted(CONFIG_ONLY.keys() - {"default_timeout", "thresholds"}))
def test_the_config_keeps_what_concerns_the_run(key, tmp_path):
    right = CONFIG_ONLY[key][0]
    assert _plain(getattr(_load(tmp_path, _with_config(key, right)).config, key)) == right


@pytest.mark.parametrize("key", CONFIG_CASES)
def test_the_config_refuses_a_wrong_value_by_its_key(key, tmp_path):
    with pytest.raises(FileProblems) as refused:
        _load(tmp_path, _with_config(key, CONFIG_CASES[key][1]))
    assert any(problem.path.startswith(f"suite.config.{key}") for problem in refused.value.problems)


@pytest.mark.parametrize("key", sorted(SUITE_ONLY.keys() - {"evaluators"}))
def test_a_suite_keeps_what_its_key_says(key, tmp_path):
    right = SUITE_ONLY[key][0]
    suite = _load(tmp_path, _with_suite(key, right)).suite
    assert _contains(_plain(getattr(suite, key)), right)


@pytest.mark.parametrize("key", SUITE_ONLY)
def test_a_suite_refuses_a_wrong_value_by_its_key(key, tmp_path):
    with pytest.raises(FileProblems) as refused:
        _load(tmp_path, _with_suite(key, SUITE_ONLY[key][1]))
    assert any(problem.path.startswith(f"suite.{key}") for problem in refused.value.problems)


def test_the_schema_describes_every_key():
    schema = json_schema()["else"]["properties"]
    scenario = schema["scenarios"]["items"]["properties"]
    suite = schema["suite"]["properties"]
    assert scenario.keys() == SCENARIO.keys.keys()
    assert suite["config"]["properties"].keys() == CONFIG.keys.keys()
    assert all(each["description"] for part in (schema, scenario, suite) for each in part.values())


def test_the_schema_accepts_what_the_loader_accepts():
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(json_schema())
    validator = Draft202012Validator(json_schema())
    for make, cases in ((_with_scenario, SCENARIO_CASES), (_with_config, CONFIG_CASES), (_with_suite, SUITE_ONLY)):
        for key, (right, _) in cases.items():
            validator.validate(make(key, right))
