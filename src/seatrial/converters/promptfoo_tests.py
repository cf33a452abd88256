"""Tests of promptfoo: prompts that are filled with variables, rows of files, and assertions."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.struct import Struct
from seatrial.patterns import problem as pattern_problem
from seatrial.scenarios.problems import KeyPath

from .conversion import NOT_IN_FRONT, ConvertedScenario, ConvertedSuite, SourceFile, any_of, escape, none_of, short_name

_VARIABLE = re.compile(r"\{\{-?\s*([\w.]+)\s*-?\}\}")
_LOGIC = re.compile(r"\{%|\{\{")
_DEEPEST = 3


class Unfilled(Exception):
    """A template that cannot be filled: it has logic, or a variable is missing."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def read_prompts(config: Mapping[str, Any], target: ConvertedSuite) -> list[Any]:
    """The prompts, each a text or a list of messages; `{{prompt}}` if there are none."""
    given = config.get("prompts") or ["{{prompt}}"]
    prompts = []
    for index, prompt in enumerate(given if isinstance(given, list) else [given]):
        text = prompt.get("raw") or prompt.get("id") if isinstance(prompt, Mapping) else prompt
        found = _load(str(text), target.source.path.parent)
        if found is None:
            target.lose(("prompts", index), f"prompt {text!r}: a missing file, or code")
        else:
            prompts.append(found)
    return prompts or ["{{prompt}}"]


def _load(text: str, folder: Path) -> Any:
    """The prompt, read from its file if it names one; None if that is not possible."""
    is_file = text.startswith("file://") or re.fullmatch(r"[\w./-]+\.(txt|md|json|yaml|yml|py|js|ts)", text)
    if is_file:
        file = folder / text.removeprefix("file://")
        if file.suffix not in (".txt", ".md", ".json") or not file.is_file():
            return None
        text = file.read_text(encoding="utf-8").strip()
    try:
        messages = json.loads(text)
    except ValueError:
        return text
    return messages if isinstance(messages, list) and all(isinstance(m, Mapping) for m in messages) else text


def fill_prompt(prompt: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a scenario: `input`, and `system` and `history` for a prompt of several messages."""
    if isinstance(prompt, str):
        if prompt.strip() in ("{{prompt}}", "{{ prompt }}") and "prompt" not in variables:
            return {"input": _only_text(variables)}
        return {"input": fill(prompt, variables)}
    messages = [{"role": m.get("role"), "content": fill(str(m.get("content", "")), variables)} for m in prompt]
    if not messages or messages[-1]["role"] != "user":
        raise Unfilled("its last message is not the user's", json.dumps(prompt, ensure_ascii=False))
    keys: dict[str, Any] = {}
    if messages[0]["role"] == "system":
        keys["system"] = messages.pop(0)["content"]
    last = messages.pop()
    if messages:
        keys["history"] = messages
    return {**keys, "input": last["content"]}


def _only_text(variables: Mapping[str, Any]) -> str:
    """The message of a test without prompts: the variable with a usual name, or the only text."""
    for name in ("prompt", "input", "question", "query", "message"):
        if isinstance(variables.get(name), str):
            return str(variables[name])
    texts = [value for value in variables.values() if isinstance(value, str) and value.strip()]
    if len(texts) == 1:
        return texts[0]
    raise Unfilled(
        "it is unclear which variable is the message", json.dumps(dict(variables), ensure_ascii=False) or "?"
    )


def fill(template: str, variables: Mapping[str, Any]) -> str:
    """The text with `{{name}}` filled. Raises Unfilled for filters, conditions and missing variables."""
    if _LOGIC.search(_VARIABLE.sub("", template)):
        raise Unfilled("it has filters or conditions", template)

    def value(found: re.Match[str]) -> str:
        place: Any = variables
        for part in found[1].split("."):
            if not isinstance(place, Mapping) or part not in place:
                raise Unfilled(f"there is no variable {found[1]!r}", template)
            place = place[part]
        return place if isinstance(place, str) else json.dumps(place, ensure_ascii=False)

    # A variable may contain another one. The limit ends a variable that contains itself.
    for _ in range(_DEEPEST):
        if not _VARIABLE.search(template):
            break
        template = _VARIABLE.sub(value, template)
    return template


DEFAULT = "defaultTest"
_CARRIED = {"vars", "assert", "description", "threshold", "metadata", "options"}
_OPTIONS = {"transform", "postprocess", "disableDefaultAsserts"}
_SHORT = re.compile(r"(?P<type>[a-z][a-z:_-]*)(?:\((?P<threshold>\d*\.?\d+)\))?\s*:\s*(?P<value>.*)", re.DOTALL)
_SHORT_TYPES = {
    *("contains", "icontains", "equals", "regex", "similar", "levenshtein", "factuality"),
    *("javascript", "python", "fn", "eval", "grade"),
}
_BARE = re.compile(
    r"(?P<type>(?:not-)?(?:is-[a-z-]+|contains-(?:json|html|sql|xml)|latency|cost))(?:\((?P<threshold>\d*\.?\d+)\))?"
)
"""Short forms without a value."""
_SIMILAR_ENOUGH = 0.8
"""The default threshold of `similar` in its short form."""


class Test(Struct, frozen=True, kw_only=True):
    """One test: variables and assertions."""

    name: str
    where: KeyPath
    variables: Mapping[str, Any]
    assertions: tuple[tuple[KeyPath, Mapping[str, Any]], ...]
    """Each with its path."""
    description: str | None = None
    threshold: float | None = None
    metadata: Mapping[str, Any] | None = None
    transform: str | None = None
    """Code that changes the output before it is checked."""
    left_out: tuple[str, ...] = ()


def read_tests(config: Mapping[str, Any], target: ConvertedSuite, *, whole_file: bool) -> list[Test]:
    """All tests, those of `scenarios` included."""
    default = config.get("defaultTest") or {}
    if isinstance(default, str):
        target.lose(("defaultTest",), f"defaultTest {default!r}: a file of its own")
        default = {}
    for key in _left_out(default):
        target.lose((DEFAULT, *key.split(".")), f"{DEFAULT}.{key}")
    templates = config.get("assertionTemplates") or {}
    made: list[Test] = []
    for where, test in _rows(config, target, whole_file=whole_file):
        for variables in _combinations({**(default.get("vars") or {}), **_variables(test, where, target)}):
            made.append(_test(test, where, variables, default, templates, len(made) + 1))
    return made


def _rows(
    config: Mapping[str, Any], target: ConvertedSuite, *, whole_file: bool
) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    tests = config.get("tests")
    for index, entry in enumerate(tests if isinstance(tests, list) else [tests] if tests else []):
        where: KeyPath = (index,) if whole_file else ("tests", index) if isinstance(tests, list) else ("tests",)
        if isinstance(entry, str):
            yield from ((where, test) for test in _from_file(entry, where, target))
        else:
            yield where, entry
    for number, scenario in enumerate(config.get("scenarios") or ()):
        place: KeyPath = ("scenarios", number)
        if not isinstance(scenario, Mapping):
            target.lose(place, f"scenarios {scenario!r}: a file of its own")
            continue
        for given, (index, test) in product(scenario.get("config") or [{}], enumerate(scenario.get("tests") or [{}])):
            both = {**given, **test, "vars": {**(given.get("vars") or {}), **(test.get("vars") or {})}}
            both["assert"] = [*(given.get("assert") or ()), *(test.get("assert") or ())]
            yield (*place, "tests", index), both


def _from_file(text: str, where: KeyPath, target: ConvertedSuite) -> list[Mapping[str, Any]]:
    file = target.source.path.parent / text.removeprefix("file://")
    if file.suffix == ".csv" and file.is_file():
        return list(_from_csv(file))
    if file.suffix in (".yaml", ".yml", ".json") and file.is_file():
        data = SourceFile(file).data
        return data if isinstance(data, list) else [data]
    target.lose(where, f"tests {text!r}: a missing file, or code")
    return []


def _from_csv(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            rows = csv.DictReader(stream)
            for row in rows:
                if None in row:
                    raise UsageError(f"{file}:{rows.line_num}: has more values than the header has columns")
                yield _from_row(row, f"{file}:{rows.line_num}")
    except (OSError, csv.Error) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None


def _from_row(row: Mapping[str, str], place: str) -> dict[str, Any]:
    """A test. Columns with an unknown meaning become keys, which are noted as lost."""
    test: dict[str, Any] = {"vars": {}, "assert": [], "metadata": {}}
    for key, value in row.items():
        if not key.startswith("__"):
            test["vars"][key] = value
        elif key.startswith("__expected") and value:
            test["assert"].append({**read_short_form(value), **_threshold(key, row, place)})
        elif key.startswith("__metadata:"):
            test["metadata"][key.removeprefix("__metadata:")] = value
        elif value and not key.endswith(":threshold") and key != "__metric":
            test[{"__description": "description", "__threshold": "threshold"}.get(key, key)] = value
    return test


def _threshold(column: str, row: Mapping[str, str], place: str) -> dict[str, float]:
    """The threshold of an assertion, from its own column; the first assertion has two names."""
    first = ("__expected", "__expected1")
    for name in first if column in first else (column,):
        text = row.get(f"__config:{name}:threshold")
        try:
            if text:
                return {"threshold": float(text)}
        except ValueError:
            raise UsageError(f"{place}: the threshold of {column} is no number: {text!r}") from None
    return {}


def read_short_form(text: str) -> dict[str, Any]:
    """`contains: yes` and `similar(0.8): hello` as assertions; any other text is the expected output."""
    bare = _BARE.fullmatch(text.strip())
    if bare is not None:
        return {"type": bare["type"], **({"threshold": float(bare["threshold"])} if bare["threshold"] else {})}
    found = _SHORT.fullmatch(text.strip())
    if found is None or not ("-" in found["type"] or found["type"] in _SHORT_TYPES):
        return {"type": "equals", "value": text}
    kind = {"fn": "javascript", "eval": "javascript", "grade": "llm-rubric"}.get(found["type"], found["type"])
    threshold = {} if found["threshold"] is None else {"threshold": float(found["threshold"])}
    if kind == "similar":
        threshold = {"threshold": _SIMILAR_ENOUGH, **threshold}
    return {"type": kind, "value": found["value"].strip(), **threshold}


def _variables(test: Mapping[str, Any], where: KeyPath, target: ConvertedSuite) -> dict[str, Any]:
    variables = test.get("vars") or {}
    if isinstance(variables, str):
        target.lose((*where, "vars"), f"vars {variables!r}: a file of its own")
        return {}
    return dict(variables)


def _combinations(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One mapping for each combination: a variable that is a list of texts has several values."""
    choices = [
        value if isinstance(value, list) and value and all(isinstance(item, str) for item in value) else [value]
        for value in variables.values()
    ]
    for chosen in product(*choices):
        yield dict(zip(variables, chosen, strict=True))


def _test(
    test: Mapping[str, Any],
    where: KeyPath,
    variables: Mapping[str, Any],
    default: Mapping[str, Any],
    templates: Mapping[str, Any],
    number: int,
) -> Test:
    options = {**(default.get("options") or {}), **(test.get("options") or {})}
    places: list[tuple[KeyPath, Any]] = []
    if not (test.get("options") or {}).get("disableDefaultAsserts"):
        places += [((DEFAULT, "assert", i), a) for i, a in enumerate(default.get("assert") or ())]
    places += [((*where, "assert", i), a) for i, a in enumerate(test.get("assert") or ())]
    description = test.get("description")
    own = [variables[name] for name in test.get("vars") or {} if name in variables]
    texts = [value for value in own if isinstance(value, str) and value.strip()]
    return Test(
        name=short_name(str(description or (texts[0] if texts else f"test {number}"))),
        where=where,
        variables=variables,
        assertions=tuple((place, _resolved(assertion, templates)) for place, assertion in places),
        description=str(description) if description and len(str(description)) > 80 else None,
        threshold=test.get("threshold", default.get("threshold")),
        metadata={**(default.get("metadata") or {}), **(test.get("metadata") or {})} or None,
        transform=options.get("transform") or options.get("postprocess"),
        left_out=_left_out(test),
    )


def _left_out(test: Mapping[str, Any]) -> tuple[str, ...]:
    options = test.get("options") or {}
    return (
        *(key for key in test if key not in _CARRIED),
        *(f"options.{key}" for key in options if key not in _OPTIONS),
    )


def _resolved(assertion: Any, templates: Mapping[str, Any]) -> Mapping[str, Any]:
    """The assertion with its `$ref: "#/assertionTemplates/name"` resolved."""
    if isinstance(assertion, str):
        return read_short_form(assertion)
    reference = str(assertion.get("$ref", ""))
    found = templates.get(reference.removeprefix("#/assertionTemplates/"))
    return {**(found or {}), **{key: value for key, value in assertion.items() if key != "$ref"}}


Carry = Callable[[ConvertedScenario, Any, Mapping[str, Any]], None]
"""Adds an assertion, with its value, to the scenario. Raises Unsupported if it cannot."""


class Unsupported(Exception):
    """Why an assertion cannot be carried over."""


def carry_assertions(test: Test, scenario: ConvertedScenario) -> None:
    for where, assertion in test.assertions:
        scenario.shared = where[0] == DEFAULT
        _carry(assertion, where, test, scenario)


def _carry(assertion: Mapping[str, Any], where: KeyPath, test: Test, scenario: ConvertedScenario) -> None:
    kind = str(assertion.get("type", "equals"))
    if kind == "assert-set":
        _carry_set(assertion, where, test, scenario)
        return
    try:
        _require_supported(assertion, kind, test)
        value = _filled(assertion.get("value"), test.variables)
        _CARRIERS[kind](scenario, value, assertion)
    except Unsupported as problem:
        scenario.lose_check(where, f"assertion {kind!r}: {problem}")
    except Unfilled as problem:
        scenario.lose_check(where, f"assertion {kind!r}: its value is a template: {problem}")
    else:
        for key in assertion:
            if key not in _READ:
                scenario.lose((*where, key), f"assertion {kind!r}: its {key}")


def _require_supported(assertion: Mapping[str, Any], kind: str, test: Test) -> None:
    value = assertion.get("value")
    if assertion.get("weight") == 0:
        raise Unsupported("it has the weight 0, so it never fails")
    transform = assertion.get("transform") or test.transform
    if transform and not kind.startswith(_NOT_ABOUT_OUTPUT):
        raise Unsupported(f"it checks the output after {transform!r}")
    if kind.removeprefix("not-") in _CODE:
        raise Unsupported(f"it is code: {value!r:.80}; write it in Python, as an evaluator")
    if isinstance(value, str) and value.startswith("file://"):
        raise Unsupported(f"its value is the file {value!r}")
    if kind not in _CARRIERS:
        raise Unsupported("has no counterpart here")


def _carry_set(assertion: Mapping[str, Any], where: KeyPath, test: Test, scenario: ConvertedScenario) -> None:
    threshold = assertion.get("threshold", 1)
    for index, inner in enumerate(assertion.get("assert") or ()):
        place = (*where, "assert", index)
        if threshold == 1:
            _carry(inner, place, test, scenario)
        else:
            scenario.lose_check(place, f"assertion {inner.get('type')!r} of a set of which {threshold} must hold")


def _filled(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return fill(value, variables)
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    if isinstance(value, Mapping):
        return {key: _filled(item, variables) for key, item in value.items()}
    return value


def _text(value: Any) -> str:
    """A value as JavaScript writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one_text(value: Any) -> str:
    """The text to find in the reply. A mapping is refused: no reply contains it, so its `not-` would always pass."""
    if isinstance(value, Mapping | list):
        raise Unsupported(f"{value!r:.80} is no text")
    if value is None or not _text(value):
        raise Unsupported("it has no value")
    return _text(value)


def _several_texts(value: Any) -> list[str]:
    """The texts to find in the reply. A text is split at its commas, as promptfoo does."""
    items = value if isinstance(value, list) else [value]
    if any(isinstance(item, Mapping | list) for item in items):
        raise Unsupported(f"{value!r:.80} is no text")
    texts = [part.strip() for part in value.split(",")] if isinstance(value, str) else map(_text, items)
    found = [text for text in texts if text.strip()] if value is not None else []
    if not found:
        raise Unsupported("it has no value")
    return found


def _pattern(make: Callable[[str], str]) -> Carry:
    """A check of the reply by a regular expression that is made from one text."""
    return lambda scenario, value, assertion: _add_pattern(scenario, make(_one_text(value)), value)


def _pattern_of_several(make: Callable[[list[str]], str]) -> Carry:
    return lambda scenario, value, assertion: _add_pattern(scenario, make(_several_texts(value)), value)


def _add_pattern(scenario: ConvertedScenario, pattern: str, value: Any) -> None:
    wrong = pattern_problem(pattern)
    if wrong is not None:
        raise Unsupported(f"{value!r} is not a regular expression of Python: {wrong}")
    scenario.add_scorer({"regex": pattern})


def _contains_all(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    for text in _several_texts(value):
        scenario.add_scorer({"regex": escape(text)})


def _expected(key: str, *, several: bool) -> Carry:
    return lambda scenario, value, assertion: scenario.add_expectation(
        key, _several_texts(value) if several else [_one_text(value)]
    )


def _equals(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    if isinstance(value, Mapping | list) or value is None:
        raise Unsupported("it compares with JSON; give `json_schema` with const")
    scenario.add_scorer({"exact": {"expected": _text(value), "normalize": False}})


def _is_json(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise Unsupported("its schema is no mapping")
    scenario.add_scorer({"json_schema": {"schema": dict(value) if value else True}})


def _limit(key: str) -> Carry:
    def carry(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
        threshold = assertion.get("threshold")
        if not isinstance(threshold, int | float):
            raise Unsupported("it has no threshold")
        scenario.add_limit(key, threshold)

    return carry


def _similar(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    if not isinstance(value, str) or not value.strip():
        raise Unsupported("it has no text to compare with")
    threshold = assertion.get("threshold", 0.75)
    scenario.add_scorer({"similarity": {"expected": value, "threshold": threshold}})
    scenario.change(scenario.where, f"similar, with another embedding: check the threshold {threshold}")


def _judge(wording: str = "{}") -> Carry:
    def carry(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
        rubrics = value if isinstance(value, list) else [value]
        if not value or not all(isinstance(rubric, str) and rubric.strip() for rubric in rubrics):
            raise Unsupported("it has no rubric that is a text")
        if assertion.get("threshold") not in (None, 1):
            scenario.change(scenario.where, f"a rubric that must score {assertion['threshold']}: here it holds or not")
        for rubric in rubrics:
            scenario.add_scorer({"judge": wording.replace("{}", rubric)})

    return carry


def _refusal(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    scenario.add_scorer({"judge": "The reply refuses to do what was asked."})


def _has_wildcard(name: str) -> bool:
    return any(char in name for char in "*?[")


def _tool_names(value: Any) -> list[str]:
    entries = value if isinstance(value, list) else [value]
    names: list[Any] = [entry.get("name") if isinstance(entry, Mapping) else entry for entry in entries]
    if not names or not all(isinstance(name, str) and not _has_wildcard(name) for name in names):
        raise Unsupported(f"it finds tools by the pattern {value!r}")
    return names


def _add_trajectory(scenario: ConvertedScenario, mode: str, **calls: list[dict[str, Any]]) -> None:
    scenario.add_scorer({"trajectory": {"mode": mode, **calls}})


def _used(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    if not isinstance(value, Mapping):
        _add_trajectory(scenario, "contains", expected=[{"name": name, "min": 1} for name in _tool_names(value)])
        return
    [name] = _tool_names(value.get("name") or value.get("pattern"))
    least, most = 1 if value.get("min") is None else value["min"], value.get("max")
    if most == 0:
        _add_trajectory(scenario, "contains", forbidden=[{"name": name}])
    elif least == 0 and most is None:
        raise Unsupported("it asks for nothing: any number of calls will do")
    else:
        often = {"min": least} if most is None else {"min": least, "max": most}
        _add_trajectory(scenario, "contains", expected=[{"name": name, **often}])


def _not_used(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    if isinstance(value, Mapping) and ({"min", "max"} & set(value)):
        raise Unsupported(f"it counts calls: {value!r}")
    given = value.get("name") or value.get("pattern") if isinstance(value, Mapping) else value
    _add_trajectory(scenario, "contains", forbidden=[{"name": name} for name in _tool_names(given)])


def _arguments(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    tool = (value.get("name") or value.get("tool")) if isinstance(value, Mapping) else None
    arguments = value.get("args") or value.get("arguments") if isinstance(value, Mapping) else None
    if not isinstance(tool, str) or _has_wildcard(tool) or not isinstance(arguments, Mapping):
        raise Unsupported("it names no tool with arguments")
    special = [key for key in ("defaults", "ignore") if value.get(key)]
    if special:
        raise Unsupported(f"it uses {special[0]!r}")
    if value.get("mode") == "exact":
        entry = {"tool": tool, "args": dict(arguments), "mode": "exact"}
    else:  # there, mappings may have more keys at any depth
        args = {key: {"$subset": dict(arg)} if isinstance(arg, Mapping) else arg for key, arg in arguments.items()}
        entry = {"tool": tool, "args": args}
    scenario.add_expectation("tool_calls_args", [entry])


def _sequence(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    steps = value.get("steps") if isinstance(value, Mapping) else value
    mode = "strict" if isinstance(value, Mapping) and value.get("mode") == "exact" else "in_order"
    _add_trajectory(scenario, mode, expected=[{"name": name} for name in _tool_names(steps or [])])


def _steps(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    given = value if isinstance(value, Mapping) else {}
    if given.get("type") != "tool" or "max" not in given or given.keys() & {"min", "name", "pattern"}:
        raise Unsupported("only a maximum of all tool calls is possible: limits.tool_calls")
    scenario.add_limit("tool_calls", given["max"])


def _goal(scenario: ConvertedScenario, value: Any, assertion: Mapping[str, Any]) -> None:
    goal = value.get("goal") if isinstance(value, Mapping) else value
    if not isinstance(goal, str) or not goal.strip():
        raise Unsupported("it names no goal")
    scenario.add_outcome(goal)


_CODE = ("javascript", "python", "ruby", "webhook")
_NOT_ABOUT_OUTPUT = ("latency", "cost", "trajectory:", "not-trajectory:")
"""Types of assertions that do not check the output, so a transform of it does not matter."""
_READ = {"type", "value", "threshold", "weight", "transform", "metric", "$ref"}
_FACTS = "The reply agrees with these facts, and contradicts none of them: {}"
_NOT = "The following is not true of the reply: {}"
_CARRIERS: Mapping[str, Carry] = {
    "equals": _equals,
    "not-equals": _pattern(lambda text: rf"\A(?!{escape(text)}\Z)"),
    "contains": _pattern(escape),
    "not-contains": _pattern(lambda text: none_of([text])),
    "contains-any": _pattern_of_several(any_of),
    "not-contains-any": _pattern_of_several(none_of),
    "contains-all": _contains_all,
    "icontains": _expected("reply_contains_all", several=False),
    "icontains-all": _expected("reply_contains_all", several=True),
    "icontains-any": _pattern_of_several(lambda texts: f"(?i){any_of(texts)}"),
    "not-icontains": _expected("reply_excludes", several=False),
    "not-icontains-any": _expected("reply_excludes", several=True),
    "starts-with": _pattern(lambda text: rf"\A{escape(text)}"),
    "not-starts-with": _pattern(lambda text: rf"\A(?!{escape(text)})"),
    "regex": _pattern(str),
    "not-regex": _pattern(lambda pattern: f"{NOT_IN_FRONT}(?:{pattern}))"),
    "is-json": _is_json,
    "latency": _limit("latency_ms"),
    "cost": _limit("cost_usd"),
    "similar": _similar,
    "llm-rubric": _judge(),
    "agent-rubric": _judge(),
    "not-llm-rubric": _judge(_NOT),
    "model-graded-closedqa": _judge(),
    "g-eval": _judge(),
    "factuality": _judge(_FACTS),
    "model-graded-factuality": _judge(_FACTS),
    "is-refusal": _refusal,
    "trajectory:tool-used": _used,
    "not-trajectory:tool-used": _not_used,
    "trajectory:tool-args-match": _arguments,
    "trajectory:tool-sequence": _sequence,
    "trajectory:step-count": _steps,
    "trajectory:goal-success": _goal,
}
