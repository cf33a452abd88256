"""promptfoo: providers as agents, and each test with each prompt as a scenario."""

import re
from collections.abc import Mapping
from typing import Any

from seatrial.scenarios.problems import KeyPath

from .conversion import ConvertedSuite
from .promptfoo_tests import Test, Unfilled, carry_assertions, fill_prompt, read_prompts, read_tests

_OPENAI = "https://api.openai.com/v1"


def read_agents(config: Mapping[str, Any], target: ConvertedSuite) -> None:
    key = "targets" if "targets" in config else "providers"
    given = config.get(key)
    entries = given if isinstance(given, list) else [given] if given else []
    agents: dict[str, Any] = {}
    for index, entry in enumerate(entries):
        where: KeyPath = (key, index) if isinstance(given, list) else (key,)
        name, agent = _agent(entry, where, target)
        if agent is not None:
            agents[name] = agent
    target.set_agents(agents)


def _agent(entry: Any, where: KeyPath, target: ConvertedSuite) -> tuple[str, dict[str, Any] | None]:
    if isinstance(entry, Mapping) and "id" not in entry and len(entry) == 1:
        name, options = next(iter(entry.items()))
        entry = {"id": name, **(options if isinstance(options, Mapping) else {})}
    spec = entry if isinstance(entry, Mapping) else {"id": entry}
    identity, config = str(spec.get("id", "")), dict(spec.get("config") or {})
    name = str(spec.get("label") or identity)
    if identity.startswith(("http", "https")):
        return name, _http(identity, config, where, target)
    provider, _, model = identity.partition(":")
    if provider == "openai" and model and not model.startswith(("agents", "assistant", "realtime", "codex")):
        return name, _chat(model, config, where, target)
    target.lose(where, f"provider {identity!r}: give your agent with --agent, or under `suite.agent`")
    return name, None


def _chat(model: str, config: Mapping[str, Any], where: KeyPath, target: ConvertedSuite) -> dict[str, Any]:
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
            target.lose((*where, "config", key), f"provider setting {key!r}")
    return agent


def _http(identity: str, config: Mapping[str, Any], where: KeyPath, target: ConvertedSuite) -> dict[str, Any] | None:
    url = config.get("url") or identity
    if url in ("http", "https") or "request" in config:
        target.lose(where, "an HTTP provider without url: write it as {type: http, url, body, output}")
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
        target.lose((*where, "config"), f"transformResponse {transform!r}: set `output` to the JMESPath of the reply")
    for key in config:
        if key not in ("url", "method", "headers", "body", "transformResponse", "responseParser"):
            target.lose((*where, "config", key), f"provider setting {key!r}")
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
    """`json.choices[0].text` as the JMESPath `choices[0].text`; None if it is not only a path."""
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
    *("description", "prompts", "providers", "targets", "tests", "defaultTest", "scenarios", "evaluateOptions"),
    *("assertionTemplates", "tags", "$schema", "sharing", "commandLineOptions", "writeLatestResults"),
}


def read(target: ConvertedSuite) -> None:
    data: Any = target.source.data
    config: Mapping[str, Any] = {"tests": data} if isinstance(data, list) else data
    if config.get("description"):
        target.suite["description"] = str(config["description"])
    read_agents(config, target)
    _options(config, target)
    prompts = read_prompts(config, target)
    tests = read_tests(config, target, whole_file=isinstance(data, list))
    for test in tests:
        for number, prompt in enumerate(prompts):
            name = test.name if len(prompts) == 1 else f"{test.name} [prompt {number + 1}]"
            _scenario(name, prompt, test, target)
    target.lose_unknown(config, _KNOWN, _EXPLAINED)


def _options(config: Mapping[str, Any], target: ConvertedSuite) -> None:
    for key, value in (config.get("evaluateOptions") or {}).items():
        if key == "repeat":
            target.config["trials"] = value
        elif key == "maxConcurrency":
            target.config["concurrency"] = value
        elif key not in ("showProgressBar", "cache"):
            target.lose(("evaluateOptions", key), f"evaluateOptions.{key}")


def _scenario(name: str, prompt: Any, test: Test, target: ConvertedSuite) -> None:
    scenario = target.add_scenario(name, test.where)
    if test.description:
        scenario.keys["description"] = test.description
    try:
        scenario.keys |= fill_prompt(prompt, test.variables)
    except Unfilled as problem:
        scenario.keys["input"] = problem.text
        scenario.change(test.where, f"the prompt is sent unchanged: {problem}")
    if test.metadata:
        scenario.keys["metadata"] = test.metadata
    if test.threshold is not None:
        scenario.change(test.where, f"threshold {test.threshold}: here every check must pass, not a share of them")
    for key in test.left_out:
        scenario.lose((*test.where, *key.split(".")), key)
    carry_assertions(test, scenario)
