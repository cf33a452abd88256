"""Configurations of promptfoo: prompts x tests become scenarios, assertions become scorers and expectations."""

from collections.abc import Mapping
from typing import Any

from .promptfoo_agents import read_agents
from .promptfoo_assertions import carry_assertions
from .promptfoo_prompts import Unfilled, fill_prompt, read_prompts
from .promptfoo_tests import Test, read_tests
from .target_suite import Draft

_EXPLAINED = {
    "redteam": "red-team plugins and strategies",
    "extensions": "code that runs around the evaluation; see `setup` and `teardown`",
    "derivedMetrics": "scores made from scores",
    "nunjucksFilters": "filters of templates",
    "outputPath": "use --report",
    "env": "set the environment, or use --env-file",
    "tracing": "tool calls are recorded without it",
}
_KNOWN = {
    "description",
    "prompts",
    "providers",
    "targets",
    "tests",
    "defaultTest",
    "scenarios",
    "evaluateOptions",
    "assertionTemplates",
    "tags",
    "$schema",
    "sharing",
    "commandLineOptions",
    "writeLatestResults",
}


def read(draft: Draft) -> None:
    data: Any = draft.source.data
    config: Mapping[str, Any] = {"tests": data} if isinstance(data, list) else data
    if config.get("description"):
        draft.suite["description"] = str(config["description"])
    read_agents(config, draft)
    _options(config, draft)
    prompts = read_prompts(config, draft)
    tests = read_tests(config, draft, whole_file=isinstance(data, list))
    for test in tests:
        for number, prompt in enumerate(prompts):
            name = test.name if len(prompts) == 1 else f"{test.name} [prompt {number + 1}]"
            _scenario(name, prompt, test, draft)
    for key in config:
        if key in _EXPLAINED or key not in _KNOWN:
            draft.lose((key,), f"{key}: {_EXPLAINED.get(key, 'has no counterpart here')}")


def _options(config: Mapping[str, Any], draft: Draft) -> None:
    for key, value in (config.get("evaluateOptions") or {}).items():
        if key == "repeat":
            draft.config["trials"] = value
        elif key == "maxConcurrency":
            draft.config["concurrency"] = value
        elif key not in ("showProgressBar", "cache"):
            draft.lose(("evaluateOptions", key), f"evaluateOptions.{key}")


def _scenario(name: str, prompt: Any, test: Test, draft: Draft) -> None:
    scenario = draft.scenario(name, test.where)
    if test.description:
        scenario.keys["description"] = test.description
    try:
        scenario.keys |= fill_prompt(prompt, test.variables)
    except Unfilled as problem:
        scenario.keys["input"] = problem.text
        scenario.change(test.where, f"the prompt is sent as it stands: {problem}")
    if test.metadata:
        scenario.keys["metadata"] = test.metadata
    if test.threshold is not None:
        scenario.change(test.where, f"threshold {test.threshold}: here every check must pass, not a share of them")
    for key in test.left_out:
        scenario.lose((*test.where, *key.split(".")), key)
    carry_assertions(test, scenario)
