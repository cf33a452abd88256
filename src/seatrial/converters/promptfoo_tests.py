"""Prompts of promptfoo: templates that are filled with a test's variables."""

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

from . import conversion as regexes
from .conversion import Draft, DraftScenario, Source, Where

_VARIABLE = re.compile(r"\{\{-?\s*([\w.]+)\s*-?\}\}")
_LOGIC = re.compile(r"\{%|\{\{")
_DEEPEST = 3


class Unfilled(Exception):
    """A template that is more than a text with variables."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def read_prompts(config: Mapping[str, Any], draft: Draft) -> list[Any]:
    """The prompts, each a text or a list of messages; the variable that is the whole message where there are none."""
    given = config.get("prompts") or ["{{prompt}}"]
    prompts = []
    for index, prompt in enumerate(given if isinstance(given, list) else [given]):
        text = prompt.get("raw") or prompt.get("id") if isinstance(prompt, Mapping) else prompt
        found = _load(str(text), draft.source.path.parent)
        if found is None:
            draft.lose(("prompts", index), f"prompt {text!r}: a file that is not there, or code")
        else:
            prompts.append(found)
    return prompts or ["{{prompt}}"]


def _load(text: str, folder: Path) -> Any:
    """The prompt itself, from its file where it is one; None where that cannot be."""
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
    """A test file without prompts: the message is the variable with a telling name, or the only one."""
    for name in ("prompt", "input", "question", "query", "message"):
        if isinstance(variables.get(name), str):
            return str(variables[name])
    texts = [value for value in variables.values() if isinstance(value, str) and value.strip()]
    if len(texts) == 1:
        return texts[0]
    raise Unfilled("which variable is the message is not said", json.dumps(dict(variables), ensure_ascii=False) or "?")


def fill(template: str, variables: Mapping[str, Any]) -> str:
    """The text with `{{name}}` filled. Raises Unfilled for filters, conditions and variables that are not there."""
    if _LOGIC.search(_VARIABLE.sub("", template)):
        raise Unfilled("it has filters or conditions", template)

    def value(found: re.Match[str]) -> str:
        place: Any = variables
        for part in found[1].split("."):
            if not isinstance(place, Mapping) or part not in place:
                raise Unfilled(f"there is no variable {found[1]!r}", template)
            place = place[part]
        return place if isinstance(place, str) else json.dumps(place, ensure_ascii=False)

    # A variable may stand in another's text; one that stands in its own is left at that.
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
    "contains",
    "icontains",
    "equals",
    "regex",
    "similar",
    "levenshtein",
    "factuality",
    "javascript",
    "python",
    "fn",
    "eval",
    "grade",
}
_BARE = re.compile(
    r"(?P<type>(?:not-)?(?:is-[a-z-]+|contains-(?:json|html|sql|xml)|latency|cost))(?:\((?P<threshold>\d*\.?\d+)\))?"
)
"""Short forms that need no value."""
_SIMILAR_ENOUGH = 0.8
"""Of `similar` in its short form; elsewhere it is less."""


class Test(Struct, frozen=True, kw_only=True):
    """One row: variables, and what is asserted of the answer."""

    name: str
    where: Where
    variables: Mapping[str, Any]
    assertions: tuple[tuple[Where, Mapping[str, Any]], ...]
    """Each with its place."""
    description: str | None = None
    threshold: float | None = None
    metadata: Mapping[str, Any] | None = None
    transform: str | None = None
    """Code that changes the output before anything is asserted of it."""
    left_out: tuple[str, ...] = ()


def read_tests(config: Mapping[str, Any], draft: Draft, *, whole_file: bool) -> list[Test]:
    """All tests, those of `scenarios` included."""
    default = config.get("defaultTest") or {}
    if isinstance(default, str):
        draft.lose(("defaultTest",), f"defaultTest {default!r}: a file of its own")
        default = {}
    for key in _left_out(default):
        draft.lose((DEFAULT, *key.split(".")), f"{DEFAULT}.{key}")
    templates = config.get("assertionTemplates") or {}
    made: list[Test] = []
    for where, test in _rows(config, draft, whole_file=whole_file):
        for variables in _combinations({**(default.get("vars") or {}), **_variables(test, where, draft)}):
            made.append(_test(test, where, variables, default, templates, len(made) + 1))
    return made


def _rows(config: Mapping[str, Any], draft: Draft, *, whole_file: bool) -> Iterator[tuple[Where, Mapping[str, Any]]]:
    tests = config.get("tests")
    for index, entry in enumerate(tests if isinstance(tests, list) else [tests] if tests else []):
        where: Where = (index,) if whole_file else ("tests", index) if isinstance(tests, list) else ("tests",)
        if isinstance(entry, str):
            yield from ((where, test) for test in _from_file(entry, where, draft))
        else:
            yield where, entry
    for number, scenario in enumerate(config.get("scenarios") or ()):
        place: Where = ("scenarios", number)
        if not isinstance(scenario, Mapping):
            draft.lose(place, f"scenarios {scenario!r}: a file of its own")
            continue
        for given, (index, test) in product(scenario.get("config") or [{}], enumerate(scenario.get("tests") or [{}])):
            both = {**given, **test, "vars": {**(given.get("vars") or {}), **(test.get("vars") or {})}}
            both["assert"] = [*(given.get("assert") or ()), *(test.get("assert") or ())]
            yield (*place, "tests", index), both


def _from_file(text: str, where: Where, draft: Draft) -> list[Mapping[str, Any]]:
    file = draft.source.path.parent / text.removeprefix("file://")
    if file.suffix == ".csv" and file.is_file():
        return list(_from_csv(file))
    if file.suffix in (".yaml", ".yml", ".json") and file.is_file():
        data = Source(file).data
        return data if isinstance(data, list) else [data]
    draft.lose(where, f"tests {text!r}: a file that is not there, or code")
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
    """A test; columns with a meaning that is not known here keep their names, and are told of as left out."""
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
    """What another column says of the assertion in this one; the first is known by two names."""
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
    """`contains: yes` and `similar(0.8): hello` as assertions; anything else is the answer itself."""
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


def _variables(test: Mapping[str, Any], where: Where, draft: Draft) -> dict[str, Any]:
    variables = test.get("vars") or {}
    if isinstance(variables, str):
        draft.lose((*where, "vars"), f"vars {variables!r}: a file of its own")
        return {}
    return dict(variables)


def _combinations(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A list of texts as a variable makes a test of each of them; other lists are values."""
    choices = [
        value if isinstance(value, list) and value and all(isinstance(item, str) for item in value) else [value]
        for value in variables.values()
    ]
    for chosen in product(*choices):
        yield dict(zip(variables, chosen, strict=True))


def _test(
    test: Mapping[str, Any],
    where: Where,
    variables: Mapping[str, Any],
    default: Mapping[str, Any],
    templates: Mapping[str, Any],
    number: int,
) -> Test:
    options = {**(default.get("options") or {}), **(test.get("options") or {})}
    places: list[tuple[Where, Any]] = []
    if not (test.get("options") or {}).get("disableDefaultAsserts"):
        places += [((DEFAULT, "assert", i), a) for i, a in enumerate(default.get("assert") or ())]
    places += [((*where, "assert", i), a) for i, a in enumerate(test.get("assert") or ())]
    description = test.get("description")
    own = [variables[name] for name in test.get("vars") or {} if name in variables]
    texts = [value for value in own if isinstance(value, str) and value.strip()]
    return Test(
        name=_short(str(description or (texts[0] if texts else f"test {number}"))),
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
    """`$ref: "#/assertionTemplates/name"` as what it refers to."""
    if isinstance(assertion, str):
        return read_short_form(assertion)
    reference = str(assertion.get("$ref", ""))
    found = templates.get(reference.removeprefix("#/assertionTemplates/"))
    return {**(found or {}), **{key: value for key, value in assertion.items() if key != "$ref"}}


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 80 else f"{plain[:77]}..."


Carry = Callable[[DraftScenario, Any, Mapping[str, Any]], str | None]


def _has_wildcard(name: str) -> bool:
    return any(char in name for char in "*?[")


def _names(value: Any) -> list[str] | None:
    """The names of tools; None where one is a pattern or no name."""
    entries = value if isinstance(value, list) else [value]
    names = [entry.get("name") if isinstance(entry, Mapping) else entry for entry in entries]
    return [str(name) for name in names] if all(isinstance(n, str) and not _has_wildcard(n) for n in names) else None


def _used(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping):
        name = value.get("name") or value.get("pattern")
        if not isinstance(name, str) or _has_wildcard(name):
            return f"it looks for tools by the pattern {name!r}"
        least, most = value.get("min"), value.get("max")
        return _used_so_often(scenario, name, 1 if least is None else least, most)
    names = _names(value)
    if not names:
        return f"it looks for tools by the pattern {value!r}"
    expected = [{"name": name, "min": 1} for name in names]
    scenario.score({"trajectory": {"mode": "contains", "expected": expected}})
    return None


def _used_so_often(scenario: DraftScenario, name: str, least: int, most: int | None) -> str | None:
    if most == 0:
        scenario.score({"trajectory": {"mode": "contains", "forbidden": [{"name": name}]}})
        return None
    if least == 0 and most is None:
        return "it asks for nothing: any number of calls will do"
    often = {"min": least} if most is None else {"min": least, "max": most}
    scenario.score({"trajectory": {"mode": "contains", "expected": [{"name": name, **often}]}})
    return None


def _not_used(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    given = [value.get("name") or value.get("pattern")] if isinstance(value, Mapping) else value
    names = _names(given)
    if not names or (isinstance(value, Mapping) and ({"min", "max"} & set(value))):
        return f"it looks for tools by {value!r}"
    scenario.score({"trajectory": {"mode": "contains", "forbidden": [{"name": name} for name in names]}})
    return None


def _arguments(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    tool = (value.get("name") or value.get("tool")) if isinstance(value, Mapping) else None
    arguments = value.get("args") or value.get("arguments") if isinstance(value, Mapping) else None
    if not isinstance(tool, str) or _has_wildcard(tool) or not isinstance(arguments, Mapping):
        return "it names no tool with arguments"
    special = [key for key in ("defaults", "ignore") if value.get(key)]
    if special:
        return f"it uses {special[0]!r}"
    if value.get("mode") == "exact":
        entry = {"tool": tool, "args": dict(arguments), "mode": "exact"}
    else:  # there, mappings may hold more at any depth
        args = {key: {"$subset": dict(arg)} if isinstance(arg, Mapping) else arg for key, arg in arguments.items()}
        entry = {"tool": tool, "args": args}
    scenario.expect("tool_calls_args", [entry])
    return None


def _sequence(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    steps = value.get("steps") if isinstance(value, Mapping) else value
    names = _names(steps) if steps else None
    if not names:
        return "its steps are patterns, or there are none"
    mode = "strict" if isinstance(value, Mapping) and value.get("mode") == "exact" else "in_order"
    scenario.score({"trajectory": {"mode": mode, "expected": [{"name": name} for name in names]}})
    return None


def _steps(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    given = value if isinstance(value, Mapping) else {}
    if given.get("type") != "tool" or "max" not in given or given.keys() & {"min", "name", "pattern"}:
        return "only a maximum of all tool calls can be asked for: limits.tool_calls"
    scenario.limit("tool_calls", given["max"])
    return None


def _goal(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    goal = value.get("goal") if isinstance(value, Mapping) else value
    if not isinstance(goal, str) or not goal.strip():
        return "it names no goal"
    scenario.outcome(goal)
    return None


TRAJECTORIES: Mapping[str, Carry] = {
    "trajectory:tool-used": _used,
    "not-trajectory:tool-used": _not_used,
    "trajectory:tool-args-match": _arguments,
    "trajectory:tool-sequence": _sequence,
    "trajectory:step-count": _steps,
    "trajectory:goal-success": _goal,
}


CODE = ("javascript", "python", "ruby", "webhook")
_BESIDE_THE_OUTPUT = ("latency", "cost", "trajectory:", "not-trajectory:")
"""Assertions that do not look at the output, so that nothing done to it concerns them."""
_READ = {"type", "value", "threshold", "weight", "transform", "metric", "$ref"}
"""Adds the check to the scenario; or says why it cannot."""


def carry_assertions(test: Test, scenario: DraftScenario) -> None:
    for where, assertion in test.assertions:
        scenario.shared = where[0] == DEFAULT
        _carry(assertion, where, test, scenario)


def _carry(assertion: Mapping[str, Any], where: Where, test: Test, scenario: DraftScenario) -> None:
    kind = str(assertion.get("type", "equals"))
    if kind == "assert-set":
        _carry_set(assertion, where, test, scenario)
        return
    problem = _why_not(assertion, kind, test)
    if problem is None:
        try:
            value = _filled(assertion.get("value"), test.variables)
        except Unfilled as unfilled:
            problem = f"its value is a template: {unfilled}"
        else:
            problem = _add(kind, value, assertion, scenario)
    if problem is not None:
        scenario.lose_check(where, f"assertion {kind!r}: {problem}")
        return
    for key in assertion:
        if key not in _READ:
            scenario.lose((*where, key), f"assertion {kind!r}: its {key}")


def _why_not(assertion: Mapping[str, Any], kind: str, test: Test) -> str | None:
    value = assertion.get("value")
    if assertion.get("weight") == 0:
        return "it has the weight 0, so it never fails"
    transform = assertion.get("transform") or test.transform
    if transform and not kind.startswith(_BESIDE_THE_OUTPUT):
        return f"it looks at the output changed by {transform!r}"
    if kind.removeprefix("not-") in CODE:
        return f"it is code: {value!r:.80}; write it in Python, as an evaluator"
    if isinstance(value, str) and value.startswith("file://"):
        return f"its value is the file {value!r}"
    return None


def _carry_set(assertion: Mapping[str, Any], where: Where, test: Test, scenario: DraftScenario) -> None:
    threshold = assertion.get("threshold", 1)
    for index, inner in enumerate(assertion.get("assert") or ()):
        place = (*where, "assert", index)
        if threshold == 1:
            _carry(inner, place, test, scenario)
        else:
            scenario.lose_check(place, f"assertion {inner.get('type')!r} of a set of which {threshold} must hold")


def _add(kind: str, value: Any, assertion: Mapping[str, Any], scenario: DraftScenario) -> str | None:
    carry = _KNOWN.get(kind) or TRAJECTORIES.get(kind)
    if carry is None:
        return "has no counterpart here"
    return carry(scenario, value, assertion)


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


def _texts(value: Any) -> list[str]:
    """A list as it is; a text is divided at its commas, as promptfoo does."""
    given = value if isinstance(value, list) else str(value).split(",")
    return [_text(item).strip() if isinstance(value, str) else _text(item) for item in given if _text(item).strip()]


def _unusable(value: Any, *, several: bool) -> str | None:
    """Why the value cannot be looked for in a reply. A mapping's text is in none, so its `not-` would hold always."""
    items = value if several and isinstance(value, list) else [value]
    if any(isinstance(item, Mapping | list) for item in items):
        return f"{value!r:.80} is no text"
    return None if value is not None and (_texts(value) if several else _text(value)) else "it has no value"


def _pattern(make: Callable[[Any], str], *, several: bool = False) -> Carry:
    """A check of the reply by a regular expression made from the value."""

    def carry(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
        problem = _unusable(value, several=several)
        if problem is not None:
            return problem
        pattern = make(_texts(value) if several else _text(value))
        wrong = pattern_problem(pattern)
        if wrong is not None:
            return f"{value!r} is no regular expression of Python's: {wrong}"
        scenario.score({"regex": pattern})
        return None

    return carry


def _contains_all(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    problem = _unusable(value, several=True)
    for text in _texts(value) if problem is None else ():
        scenario.score({"regex": regexes.contains(text)})
    return problem


def _expected(key: str, *, several: bool) -> Carry:
    def carry(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
        problem = _unusable(value, several=several)
        if problem is None:
            scenario.expect(key, _texts(value) if several else [_text(value)])
        return problem

    return carry


def _equals(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping | list) or value is None:
        return "it compares with JSON; give `json_schema` with const"
    scenario.score({"exact": {"expected": _text(value), "normalize": False}})
    return None


def _is_json(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    if value is not None and not isinstance(value, Mapping):
        return "its schema is no mapping"
    scenario.score({"json_schema": {"schema": dict(value) if value else True}})
    return None


def _limit(key: str) -> Carry:
    def carry(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
        threshold = assertion.get("threshold")
        if not isinstance(threshold, int | float):
            return "it has no threshold"
        scenario.limit(key, threshold)
        return None

    return carry


def _similar(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "it has no text to compare with"
    threshold = assertion.get("threshold", 0.75)
    scenario.score({"similarity": {"expected": value, "threshold": threshold}})
    scenario.change(scenario.where, f"similar, by another embedding: look at the threshold {threshold}")
    return None


def _judge(wording: str = "{}") -> Carry:
    def carry(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
        rubrics = value if isinstance(value, list) else [value]
        if not value or not all(isinstance(rubric, str) and rubric.strip() for rubric in rubrics):
            return "it has no rubric that is a text"
        if assertion.get("threshold") not in (None, 1):
            scenario.change(scenario.where, f"a rubric that must score {assertion['threshold']}: here it holds or not")
        for rubric in rubrics:
            scenario.score({"judge": wording.replace("{}", rubric)})
        return None

    return carry


def _refusal(scenario: DraftScenario, value: Any, assertion: Mapping[str, Any]) -> str | None:
    scenario.score({"judge": "The reply refuses to do what was asked."})
    return None


_FACTS = "The reply agrees with these facts, and contradicts none of them: {}"
_NOT = "The following is not true of the reply: {}"
_KNOWN: Mapping[str, Carry] = {
    "equals": _equals,
    "not-equals": _pattern(lambda text: rf"\A(?!{regexes.contains(text)}\Z)"),
    "contains": _pattern(regexes.contains),
    "not-contains": _pattern(lambda text: regexes.none_of([text])),
    "contains-any": _pattern(regexes.any_of, several=True),
    "not-contains-any": _pattern(regexes.none_of, several=True),
    "contains-all": _contains_all,
    "icontains": _expected("reply_contains_all", several=False),
    "icontains-all": _expected("reply_contains_all", several=True),
    "icontains-any": _pattern(lambda texts: regexes.any_of(texts, ignore_case=True), several=True),
    "not-icontains": _expected("reply_excludes", several=False),
    "not-icontains-any": _expected("reply_excludes", several=True),
    "starts-with": _pattern(regexes.starts_with),
    "not-starts-with": _pattern(lambda text: rf"\A(?!{regexes.contains(text)})"),
    "regex": _pattern(str),
    "not-regex": _pattern(regexes.does_not_match),
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
}
