"""Our scorers beside those of AgenticAssure: the same file, the same agent, verdicts compared.

Each case is a scenario and what the agent answers to it. Both tools load the same file and run it with the same
answers; passfail, exact and regex are compared alone and together. `similarity` needs a model and is left out.
"""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import agenticassure.results as their_results
import pytest
from agenticassure.loader import load_scenarios
from agenticassure.runner import Runner

import seatrial

CASES = 2000
WORDS = (
    "refund",
    "Refund",
    "30 days",
    "30  days",
    "ORD-7",
    "straße",
    "STRASSE",
    "İ",
    "ok",
    "\n",
)
BLANK = ("", " ", "\n\t")
PATTERNS = (r"ORD-\d+", "refund", "(?i)refund", "^ok$", r"(?=.*refund)(?=.*days)", "x?", r"\bdays\b", ".", r"\s")
TOOLS = ("look", "Look", "book", "pay")
VALUES = (1, 1.0, 2, 0, True, False, "1", "", "a", "A", None, [1], [1, 2], [2, 1], [True], {}, {"x": 1}, {"x": True})

BOOLEAN = "a boolean is no number"
BLANK_REPLY = "a blank reply fails, whatever the scorers ask for"
DIFFERENCES = {BOOLEAN: (True, False), BLANK_REPLY: (True, False)}
"""What AgenticAssure says, and what Seatrial says. docs/differences.md gives the reasons."""


class Case(NamedTuple):
    """A scenario as it stands in the file, and the agent's answer."""

    scenario: dict[str, Any]
    output: str | None
    """None: it raises instead."""
    calls: list[tuple[str, dict[str, Any]]]


def random_case(rng: random.Random, number: int) -> Case:
    scorers = rng.choice((["passfail"], ["passfail"], ["exact"], ["regex"], ["passfail", "regex"], ["exact", "regex"]))
    scenario: dict[str, Any] = {"name": f"case {number}", "input": str(number), "scorers": scorers}
    if "exact" in scorers or (rng.random() < 0.6 and "passfail" in scorers):
        scenario["expected_output"] = random_text(rng)
    if "regex" in scorers:
        scenario["metadata"] = {"regex_pattern": rng.choice(PATTERNS)}
    if "exact" in scorers and rng.random() < 0.4:
        scenario.setdefault("metadata", {})["exact_normalize"] = rng.random() < 0.5
    if "passfail" in scorers:
        scenario |= random_expectations(rng)
    return Case(scenario, random_answer(rng, scenario), random_calls(rng, scenario))


def random_text(rng: random.Random) -> str:
    return rng.choice(BLANK) if rng.random() < 0.15 else " ".join(rng.choices(WORDS, k=rng.randint(1, 2)))


def random_expectations(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rng.random() < 0.5:
        found["expected_tools"] = rng.choices(TOOLS, k=rng.randint(0, 2))
    if rng.random() < 0.5:
        found["expected_tool_args"] = {
            tool: {key: rng.choice(VALUES) for key in rng.sample(("city", "day"), rng.randint(0, 2))}
            for tool in rng.sample(TOOLS, rng.randint(0, 2))
        }
    return found


def random_answer(rng: random.Random, scenario: dict[str, Any]) -> str | None:
    if rng.random() < 0.03:
        return None
    expected = scenario.get("expected_output", "ok")
    around = rng.choice(("{}", "{}", " {} ", "So: {}.", "{}\n{}"))
    changed = rng.choice((expected, expected, expected.upper(), expected.lower(), random_text(rng)))
    return around.replace("{}", changed) if rng.random() < 0.8 else random_text(rng)


def random_calls(rng: random.Random, scenario: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The calls that are asked for, most of the time, and others."""
    wanted = scenario.get("expected_tool_args", {})
    calls = [(tool, changed(rng, arguments)) for tool, arguments in wanted.items() if rng.random() < 0.9]
    calls += [(tool, {}) for tool in scenario.get("expected_tools", ()) if tool not in wanted and rng.random() < 0.9]
    calls += [(rng.choice(TOOLS), {"city": rng.choice(VALUES)}) for _ in range(rng.randint(0, 1))]
    return calls


def changed(rng: random.Random, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same arguments in most cases; else with one more, less, changed, or of another type."""
    arguments, what = dict(arguments), rng.random()
    if what < 0.2:
        arguments[rng.choice(("city", "day", "unit"))] = rng.choice(VALUES)
    elif what < 0.3 and arguments:
        arguments.popitem()
    elif what < 0.6:
        arguments = {key: other_type(value) for key, value in arguments.items()}
    return arguments


def other_type(value: Any) -> Any:
    """A number for a boolean, a boolean for 0 and 1, a float for a whole number."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)):
        return bool(value) if value in (0, 1) else float(value)
    return value


def known_difference(case: Case) -> str | None:
    """Why Seatrial does not pass what AgenticAssure passes; None where it must. Asks neither of the two."""
    wanted = case.scenario.get("expected_tool_args", {})
    first = dict(reversed(case.calls))
    pairs = [(value, first.get(tool, {}).get(key)) for tool, args in wanted.items() for key, value in args.items()]
    if any(value == made and marked(value) != marked(made) for value, made in pairs):
        return BOOLEAN
    passes_blank = "passfail" not in case.scenario["scorers"] and "exact" not in case.scenario["scorers"]
    return BLANK_REPLY if not (case.output or "").strip() and passes_blank else None


def marked(value: Any) -> Any:
    """The value with booleans that equal no number."""
    if isinstance(value, bool):
        return f"boolean {value}"
    if isinstance(value, dict):
        return {key: marked(item) for key, item in value.items()}
    return [marked(item) for item in value] if isinstance(value, list) else value


def write(folder: Path, scenarios: list[dict[str, Any]]) -> Path:
    path = folder / "suite.yaml"
    path.write_text(json.dumps({"suite": {"name": "same"}, "scenarios": scenarios}), encoding="utf-8")
    return path


def theirs(path: Path, cases: dict[str, Case]) -> dict[str, bool]:
    class Adapter:
        def run(self, input: str, context: Any = None) -> their_results.AgentResult:
            case = cases[input]
            if case.output is None:
                raise RuntimeError("the agent is down")
            calls = [their_results.ToolCall(name=name, arguments=arguments) for name, arguments in case.calls]
            return their_results.AgentResult(output=case.output, tool_calls=calls)

    report = Runner(Adapter()).run_suite(load_scenarios(path))
    return {result.scenario.input: result.passed for result in report.scenario_results}


def ours(path: Path, cases: dict[str, Case]) -> dict[str, bool]:
    def agent(input: str) -> seatrial.AgentResult:
        case = cases[input]
        if case.output is None:
            raise RuntimeError("the agent is down")
        return seatrial.AgentResult(case.output, tool_calls=[seatrial.ToolCall(*call) for call in case.calls])

    report = seatrial.run(path, agent=agent, store=None)
    assert isinstance(report.passed, bool), "a run that fails is asked about on purpose"
    return {trial.transcript.turns[0].user: bool(trial) for trial in report.trials()}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Case, bool, bool]]:
    """Each case with what AgenticAssure and Seatrial say of it."""
    rng = random.Random("agenticassure")
    cases = {str(number): random_case(rng, number) for number in range(CASES)}
    path = write(tmp_path_factory.mktemp("same"), [case.scenario for case in cases.values()])
    said, found = theirs(path, cases), ours(path, cases)
    return {number: (case, said[number], found[number]) for number, case in cases.items()}


def test_random_scenarios_get_the_same_verdict_but_for_known_differences(verdicts: Any) -> None:
    for case, said, found in verdicts.values():
        difference = known_difference(case) if said else None
        wanted = (said, said) if difference is None else DIFFERENCES[difference]
        assert (said, found) == wanted, f"{difference or 'AgenticAssure and Seatrial differ'}: {case}"


@pytest.mark.parametrize("scorer", ["passfail", "exact", "regex"])
def test_both_verdicts_occur_often_for_each_scorer(verdicts: Any, scorer: str) -> None:
    alone = Counter(found for case, _, found in verdicts.values() if case.scenario["scorers"] == [scorer])
    assert min(alone[True], alone[False]) > 50


def test_every_known_difference_occurs(verdicts: Any) -> None:
    assert {known_difference(case) for case, said, found in verdicts.values() if said != found} == set(DIFFERENCES)


def answered(folder: Path, scenario: dict[str, Any], **config: Any) -> tuple[Path, dict[str, Case]]:
    """A file of one scenario, to which the agent answers "ok" and calls a tool."""
    case = Case({"name": "one", "input": "1", **scenario}, "ok", [("look", {"city": "Paris"})])
    path = folder / "suite.yaml"
    suite = {"suite": {"name": "one", "config": config}, "scenarios": [case.scenario]}
    path.write_text(json.dumps(suite), encoding="utf-8")
    return path, {"1": case}


NEVER_FAILS = {
    "an expectation that no scorer reads": {
        "scorers": ["regex"],
        "metadata": {"regex_pattern": "ok"},
        "expected_output": "no",
    },
    "an empty pattern": {"scorers": ["regex"], "metadata": {"regex_pattern": ""}},
}
NEVER_PASSES = {
    "no scorers": {"scorers": []},
    "a scorer that does not exist": {"scorers": ["passfial"]},
    "exact without a text": {"scorers": ["exact"]},
    "regex without a pattern": {"scorers": ["regex"]},
    "a pattern that is none": {"scorers": ["regex"], "metadata": {"regex_pattern": "("}},
    "arguments that are no mapping": {"expected_tool_args": {"look": "Paris"}},
}


@pytest.mark.parametrize(("name", "passes"), [*((n, True) for n in NEVER_FAILS), *((n, False) for n in NEVER_PASSES)])
def test_known_difference_a_scenario_that_can_only_end_one_way_is_refused(
    tmp_path: Path, name: str, passes: bool
) -> None:
    path, cases = answered(tmp_path, {**NEVER_FAILS, **NEVER_PASSES}[name])
    assert theirs(path, cases) == {"1": passes}
    with pytest.raises(seatrial.UsageError):
        ours(path, cases)


def test_known_difference_a_matcher_is_asked_not_compared(tmp_path: Path) -> None:
    asked = answered(tmp_path, {"expected_tool_args": {"look": {"city": {"$regex": "^P"}}}})
    assert (theirs(*asked), ours(*asked)) == ({"1": False}, {"1": True})


def test_known_difference_default_scorers_have_an_effect(tmp_path: Path) -> None:
    asked = answered(tmp_path, {"expected_output": "o"}, default_scorers=["exact"])
    assert (theirs(*asked), ours(*asked)) == ({"1": True}, {"1": False})


def test_known_difference_yes_is_a_text(tmp_path: Path) -> None:
    path, cases = answered(tmp_path, {})
    path.write_text("scenarios: [{name: one, input: '1', expected_output: ok, tags: [no]}]", encoding="utf-8")
    assert ours(path, cases) == {"1": True}
    with pytest.raises(ValueError, match="False is not of type 'string'"):
        load_scenarios(path)
