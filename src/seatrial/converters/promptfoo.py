"""Providers of promptfoo as agents, where they are endpoints; those that are code are named by --agent."""

import re
from collections.abc import Mapping
from typing import Any

from .conversion import Draft, Where
from .promptfoo_tests import Test, Unfilled, carry_assertions, fill_prompt, read_prompts, read_tests

_OPENAI = "https://api.openai.com/v1"


def read_agents(config: Mapping[str, Any], draft: Draft) -> None:
    key = "targets" if "targets" in config else "providers"
    given = config.get(key)
    entries = given if isinstance(given, list) else [given] if given else []
    agents: dict[str, Any] = {}
    for index, entry in enumerate(entries):
        where: Where = (key, index) if isinstance(given, list) else (key,)
        name, agent = _agent(entry, where, draft)
        if agent is not None:
            agents[name] = agent
    if len(agents) == 1:
        draft.suite["agent"] = next(iter(agents.values()))
    elif agents:
        draft.suite["agents"] = agents


def _agent(entry: Any, where: Where, draft: Draft) -> tuple[str, dict[str, Any] | None]:
    if isinstance(entry, Mapping) and "id" not in entry and len(entry) == 1:
        name, options = next(iter(entry.items()))
        entry = {"id": name, **(options if isinstance(options, Mapping) else {})}
    spec = entry if isinstance(entry, Mapping) else {"id": entry}
    identity, config = str(spec.get("id", "")), dict(spec.get("config") or {})
    name = str(spec.get("label") or identity)
    if identity.startswith(("http", "https")):
        return name, _http(identity, config, where, draft)
    provider, _, model = identity.partition(":")
    if provider == "openai" and model and not model.startswith(("agents", "assistant", "realtime", "codex")):
        return name, _chat(model, config, where, draft)
    draft.lose(where, f"provider {identity!r}: give your agent with --agent, or under `suite.agent`")
    return name, None


def _chat(model: str, config: Mapping[str, Any], where: Where, draft: Draft) -> dict[str, Any]:
    agent: dict[str, Any] = {
        "type": "openai",
        "base_url": config.get("apiBaseUrl", _OPENAI),
        "model": model.removeprefix("chat:"),
    }
    if "apiBaseUrl" not in config or "apiKey" in config or "apiKeyEnvar" in config:
        agent["api_key"] = f"${{{config.get('apiKeyEnvar', 'OPENAI_API_KEY')}:-none}}"
    body = {key: config[key] for key in ("temperature", "max_tokens", "top_p", "seed") if key in config}
    if body:
        agent["body"] = body
    for key in config:
        if key not in ("apiBaseUrl", "apiKey", "apiKeyEnvar", *body):
            draft.lose((*where, "config", key), f"provider setting {key!r}")
    return agent


def _http(identity: str, config: Mapping[str, Any], where: Where, draft: Draft) -> dict[str, Any] | None:
    url = config.get("url") or identity
    if url in ("http", "https") or "request" in config:
        draft.lose(where, "an HTTP provider without url: write it as {type: http, url, body, output}")
        return None
    agent: dict[str, Any] = {"type": "http", "url": url}
    if config.get("method"):
        agent["method"] = str(config["method"]).upper()
    if config.get("headers"):
        agent["headers"] = {name: _from_environment(str(value)) for name, value in config["headers"].items()}
    agent["body"] = _with_placeholders(config.get("body") or {"prompt": "{{prompt}}"})
    transform = config.get("transformResponse") or config.get("responseParser")
    path = _as_path(transform) if transform else None
    if path is not None:
        agent["output"] = path
    elif transform:
        draft.lose((*where, "config"), f"transformResponse {transform!r}: set `output` to the JMESPath of the reply")
    for key in config:
        if key not in ("url", "method", "headers", "body", "transformResponse", "responseParser"):
            draft.lose((*where, "config", key), f"provider setting {key!r}")
    return agent


def _with_placeholders(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("{{prompt}}", "{{input}}").replace("{{ prompt }}", "{{input}}")
    if isinstance(value, Mapping):
        return {key: _with_placeholders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_placeholders(item) for item in value]
    return value


def _from_environment(text: str) -> str:
    """`{{env.TOKEN}}` as `${TOKEN:-none}`."""
    return re.sub(r"\{\{\s*env\.(\w+)\s*\}\}", r"${\1:-none}", text)


def _as_path(transform: Any) -> str | None:
    """`json.choices[0].text` as the JMESPath `choices[0].text`; None where it is more than a path."""
    text = str(transform).strip()
    path = text.removeprefix("json.").replace("?.", ".")
    simple = all(char.isalnum() or char in "._[]" for char in path)
    return path if text.startswith("json.") and simple else None


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
