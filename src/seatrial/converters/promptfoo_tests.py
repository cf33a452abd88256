"""Tests of promptfoo, from wherever they stand, with their defaults and combinations worked out."""

import csv
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

from .source_file import Source, Where
from .target_suite import Draft

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
