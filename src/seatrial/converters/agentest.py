"""Agentest: configurations and scenarios, in TypeScript, YAML or JSON. Code in TypeScript is not converted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.scenarios.problems import KeyPath

from .conversion import ConvertedScenario, ConvertedSuite, short_name
from .javascript import Code

_JUDGED = ("helpfulness", "coherence", "relevance", "faithfulness", "verbosity", "goal_completion")
_FAILURES = ("agent_behavior_failure", "tool_call_behavior_failure")
_CONFIG = {"conversationsPerScenario": "trials", "maxTurns": "max_turns", "concurrency": "concurrency"}
_WITHOUT_PLACE = {
    "include": "give files or folders to `seatrial run`",
    "exclude": "give files or folders to `seatrial run`",
    "reporters": "use --report",
    "debounceMs": "use `rpm` to limit requests per minute",
    "customMetrics": "define them under `metrics`",
}
_KNOWN = {
    *_CONFIG,
    *_WITHOUT_PLACE,
    *("agent", "agents", "compare", "provider", "model", "providerOptions", "requestTimeoutMs", "unmockedTools"),
    *("metrics", "thresholds", "failOnErrorSeverity", "scenarios"),
}
_OF_SCENARIO = {
    *("name", "profile", "goal", "knowledge", "turns", "conversationsPerScenario", "maxTurns", "mocks", "assertions"),
    *("userPromptTemplate", "agent"),
}


def read(target: ConvertedSuite) -> None:
    data = target.source.data
    entries, place = _scenarios(data)
    config = data if isinstance(data, Mapping) and not (entries and place == ()) else {}
    config = _without_code({key: value for key, value in config.items() if key != "scenarios"}, (), target.lose)
    _agents(config, target)
    _config(config, target)
    for index, entry in enumerate(entries):
        where: KeyPath = place if place == () and isinstance(data, Mapping) else (*place, index)
        _scenario(entry, where, target, config)
    if not entries:
        target.config |= _judged(config)
        made = target.add_scenario("to be written", ())
        made.keys["input"] = "Hello"
        made.lose_check((), "scenarios: they are in files of their own (*.sim.ts); convert these as well")


def _scenarios(data: Any) -> tuple[Sequence[Mapping[str, Any]], KeyPath]:
    """The scenarios, and their path: under a key, as a list, or the file itself is one."""
    if isinstance(data, list):
        return data, ()
    if isinstance(data.get("scenarios"), list):
        return data["scenarios"], ("scenarios",)
    return ([data], ()) if "turns" in data or "profile" in data else ([], ())


def _without_code(value: Any, where: KeyPath, lose: Callable[[KeyPath, str], None]) -> Any:
    """The data, without parts that are code. Each of them is noted, except mocks, which `_mocks` notes."""
    if not isinstance(value, Mapping | list) or where[-2:] == ("mocks", "tools"):
        return value
    entries = value.items() if isinstance(value, Mapping) else enumerate(value)
    found: dict[Any, Any] = {}
    for key, item in entries:
        if isinstance(item, Code):
            name = key if isinstance(key, str) else f"{where[-1]}[{key}]"
            lose((*where, key), f"{name}: it is code: {short_name(item)}")
        else:
            found[key] = _without_code(item, (*where, key), lose)
    return found if isinstance(value, Mapping) else list(found.values())


def _agents(config: Mapping[str, Any], target: ConvertedSuite) -> None:
    found = {}
    for name, where in (("agent", ("agent",)), *((name, ("agents", name)) for name in config.get("agents") or {})):
        spec = config.get("agent") if where == ("agent",) else config["agents"][name]
        if spec:
            agent = _agent(spec, where, target)
            if agent is not None:
                found[str(spec.get("name", name))] = agent
    for index, entry in enumerate(config.get("compare") or ()):
        agent = _agent({**config.get("agent", {}), **entry}, ("compare", index), target)
        if agent is not None:
            found[str(entry["name"])] = agent
    target.set_agents(found)
    if len(found) > 1 and config.get("agents"):
        target.change(("agents",), "agents: every scenario is run with each of them")


def _agent(spec: Mapping[str, Any], where: KeyPath, target: ConvertedSuite) -> dict[str, Any] | None:
    if spec.get("type", "chat_completions") != "chat_completions" or "endpoint" not in spec:
        target.lose(where, "an agent that is a function: give yours with --agent package.module:function")
        return None
    endpoint = str(spec["endpoint"])
    if not endpoint.rstrip("/").endswith("/chat/completions"):
        target.change((*where, "endpoint"), "endpoint: /chat/completions is added to an address that does not end so")
    agent: dict[str, Any] = {"type": "openai", "base_url": endpoint}
    if spec.get("headers"):
        agent["headers"] = dict(spec["headers"])
    if spec.get("body"):
        agent["body"] = dict(spec["body"])
    if spec.get("streaming"):
        agent["stream"] = True
    return agent


def _config(config: Mapping[str, Any], target: ConvertedSuite) -> None:
    for theirs, ours in _CONFIG.items():
        if theirs in config:
            target.config[ours] = config[theirs]
    if "requestTimeoutMs" in config:
        target.config["timeout_seconds"] = config["requestTimeoutMs"] / 1000
        target.change(("requestTimeoutMs",), "requestTimeoutMs: here for a whole turn, with its tool rounds")
    if config.get("unmockedTools"):
        target.config["unmocked_tools"] = config["unmockedTools"]
    if "provider" in config or "model" in config:
        target.config["models"] = dict.fromkeys(("judge", "user", "dedup"), _model(config))
    for name in config.get("thresholds") or {}:
        if name not in _JUDGED:
            target.lose(("thresholds", name), f"a threshold for {name!r}, which is no number there either")
    for name in config.get("metrics") or ():
        if name not in (*_JUDGED, *_FAILURES):
            target.lose(("metrics",), f"the metric {name!r}: define it under `metrics`")
    target.lose_unknown((key for key, value in config.items() if value), _KNOWN, _WITHOUT_PLACE)


def _model(config: Mapping[str, Any]) -> Any:
    provider, model = config.get("provider", "anthropic"), config.get("model", "claude-sonnet-4-20250514")
    options = config.get("providerOptions") or {}
    if provider in ("ollama", "openai-compatible"):
        default = "http://localhost:11434/v1"
        return {"model": f"openai:{model}", "base_url": options.get("baseURL", default)}
    named = f"{provider}:{model}"
    return {"model": named, "base_url": options["baseURL"]} if options.get("baseURL") else named


def _scenario(entry: Mapping[str, Any], where: KeyPath, target: ConvertedSuite, config: Mapping[str, Any]) -> None:
    named = entry.get("name")
    name = target.source.path.stem if not named or isinstance(named, Code) else str(named)
    made = target.add_scenario(name, where)
    entry = _without_code(entry, where, lambda place, text: _lose_code(place, text, where, made))
    turns = entry.get("turns") or []
    if not turns and not entry.get("goal"):
        made.keys |= {"input": "to be written", "skip": "the user's goal could not be carried over"}
    elif turns:
        made.keys["turns"] = [_turn(turn, (*where, "turns", index), made) for index, turn in enumerate(turns)]
    else:
        facts = [fact.get("content") if isinstance(fact, Mapping) else fact for fact in entry.get("knowledge") or ()]
        knowledge = [fact for fact in facts if fact]
        user = {"profile": entry.get("profile"), "goal": entry["goal"], "knowledge": knowledge}
        made.keys["user"] = {key: value for key, value in user.items() if value}
    if "conversationsPerScenario" in entry or turns:
        made.keys["trials"] = entry.get("conversationsPerScenario", 1)
    if "maxTurns" in entry and not turns:
        made.keys["max_turns"] = entry["maxTurns"]
    _mocks((entry.get("mocks") or {}).get("tools") or {}, (*where, "mocks", "tools"), made)
    made.lose_unknown(entry.get("mocks") or {}, ("tools",), (*where, "mocks"))
    trajectory = _asserted(entry, where, made)
    if trajectory:
        made.keys["trajectory"] = trajectory
    made.lose_unknown(entry, _OF_SCENARIO, where)
    if entry.get("goal"):
        _judge(config, made)
    for key, instead in (("userPromptTemplate", "ours is used"), ("agent", "every agent of the suite is run")):
        if key in entry:
            made.lose((*where, key), f"{key}: {instead}")


def _lose_code(place: KeyPath, text: str, where: KeyPath, made: ConvertedScenario) -> None:
    """Note code; as a check if it is part of the assertions."""
    lose = made.lose_check if "assertions" in place[len(where) :] else made.lose
    lose(place, text)


def _turn(turn: Mapping[str, Any], where: KeyPath, made: ConvertedScenario) -> dict[str, Any]:
    played: dict[str, Any] = {"user": turn["userMessage"]}
    made.lose_unknown(turn, ("userMessage", "assertions"), where, checks=True)
    trajectory = _asserted(turn, where, made)
    return {**played, "trajectory": trajectory} if trajectory else played


def _asserted(entry: Mapping[str, Any], where: KeyPath, made: ConvertedScenario) -> dict[str, Any] | None:
    """The trajectory of a turn or a scenario."""
    assertions = entry.get("assertions") or {}
    made.lose_unknown(assertions, ("toolCalls",), (*where, "assertions"), checks=True)
    calls = assertions.get("toolCalls")
    if not calls:
        return None
    place = (*where, "assertions", "toolCalls")
    made.lose_unknown(calls, ("matchMode", "expected", "forbidden"), place, checks=True)
    return _trajectory(calls, place, made)


def _trajectory(calls: Mapping[str, Any], where: KeyPath, made: ConvertedScenario) -> dict[str, Any] | None:
    mode, expected = calls.get("matchMode", "contains"), calls.get("expected") or []
    forbidden = calls.get("forbidden") or []
    if not expected and not forbidden and mode == "contains":
        made.lose_check(where, "assertions.toolCalls that expect nothing and forbid nothing")
        return None
    made.count_check()
    found: dict[str, Any] = {"mode": mode, "expected": _calls(expected, (*where, "expected"), made)}
    if forbidden:
        found["forbidden"] = _calls(forbidden, (*where, "forbidden"), made)
    return found


def _calls(entries: Sequence[Mapping[str, Any]], where: KeyPath, made: ConvertedScenario) -> list[dict[str, Any]]:
    found = []
    for index, entry in enumerate(entries):
        call: dict[str, Any] = {"name": entry["name"]}
        made.lose_unknown(entry, ("name", "args", "argMatchMode"), (*where, index), checks=True)
        checks_args = entry.get("argMatchMode", "ignore") != "ignore"
        if "args" in entry and checks_args:
            call |= {"args": entry["args"], "arg_match": entry["argMatchMode"]}
        elif "args" in entry:
            made.lose((*where, index, "args"), f"args of {entry['name']!r}: without argMatchMode they are not checked")
        found.append(call)
    return found


def _mocks(tools: Mapping[str, Any], where: KeyPath, made: ConvertedScenario) -> None:
    mocks = {}
    for name, answer in tools.items():
        if isinstance(answer, Mapping) and isinstance(answer.get("sequence"), list):
            mocks[name] = {"sequence": [{"returns": value} for value in answer["sequence"]]}
        elif isinstance(answer, Code) or (isinstance(answer, str) and _looks_like_code(answer)):
            made.lose((*where, name), f"the mock of {name!r}, which is code: write it as returns, when or python")
        else:
            mocks[name] = {"returns": answer}
    if mocks:
        made.keys["mocks"] = mocks


def _looks_like_code(text: str) -> bool:
    return "=>" in text or text.lstrip().startswith("function")


def _judge(config: Mapping[str, Any], made: ConvertedScenario) -> None:
    keys = _judged(config)
    made.keys |= keys
    if "thresholds" in keys or "fail_on_error_severity" in keys:
        made.count_check()


def _judged(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys for what decides there besides calls: thresholds of metrics, and the severity of failures."""
    thresholds = {name: value for name, value in (config.get("thresholds") or {}).items() if name in _JUDGED}
    chosen = config.get("metrics") or [*_JUDGED[:-1], *_FAILURES]
    metrics = [name for name in _JUDGED if name in chosen or name in thresholds]
    keys: dict[str, Any] = {"metrics": metrics} if metrics else {}
    if thresholds:
        keys["thresholds"] = thresholds
    if any(name in chosen for name in _FAILURES):
        keys["fail_on_error_severity"] = config.get("failOnErrorSeverity", "critical")
    return keys
