"""Our trajectories beside those of agentevals: random calls, verdicts compared, known differences named.

| agentevals | Seatrial |
|---|---|
| `strict` | `strict` |
| `unordered` | `unordered` |
| `superset` | `contains` |
| `subset` | `within` with `max: 1` for each entry, since agentevals uses a call of the reference once |
| arguments `exact`, `ignore` | `exact`, `ignore` |
| arguments `superset` (in mode `subset`: arguments `subset`) | `partial` |
"""

import asyncio
import json
import random
from collections import Counter
from itertools import permutations
from typing import Any, NamedTuple

import pytest
from agentevals.trajectory.match import create_trajectory_match_evaluator

from seatrial import ToolCall, Trajectory, TurnContext

CASES = 300
MODES = {"strict": "strict", "unordered": "unordered", "superset": "contains", "subset": "within"}
ARGUMENTS = ("exact", "ignore", "partial")
VALUES = (1, 1.0, 2, 0, True, False, "1", "", "a", "A", None, [1], [1, 2], [2, 1], [True], {}, {"x": 1}, {"x": True})

BOOLEAN = "a boolean is no number"
FIRST_COME = "calls are assigned, not taken first come, first served"
BOTH_WAYS = "partial arguments are asked for in one direction"
DIFFERENCES = {BOOLEAN: (True, False), FIRST_COME: (False, True), BOTH_WAYS: (False, True)}
"""What agentevals says, and what Seatrial says. docs/differences.md gives the reasons."""

Call = tuple[str, dict[str, Any]]


class Case(NamedTuple):
    """What was expected, and what was called."""

    mode: str
    arguments: str
    expected: list[Call]
    actual: list[Call]


def random_case(rng: random.Random, mode: str, arguments: str) -> Case:
    expected = [random_call(rng) for _ in range(rng.randint(0, 4))]
    actual = [changed(rng, call) for call in expected]
    if rng.random() < 0.5:
        rng.shuffle(actual)
    if rng.random() < 0.3 and actual:
        actual.pop()
    if rng.random() < 0.3:
        actual.append(random_call(rng))
    return Case(mode, arguments, expected, actual)


def random_call(rng: random.Random) -> Call:
    keys = rng.sample(("city", "day"), rng.randint(0, 2))
    return rng.choice(("look", "book")), {key: rng.choice(VALUES) for key in keys}


def changed(rng: random.Random, call: Call) -> Call:
    """The same call in most cases; else with an argument more, less, changed, or of another type."""
    name, arguments = call[0], dict(call[1])
    what = rng.random()
    if what < 0.2:
        arguments[rng.choice(("city", "day", "unit"))] = rng.choice(VALUES)
    elif what < 0.3 and arguments:
        arguments.popitem()
    elif what < 0.6:
        arguments = {key: not value if value in (0, 1) else value for key, value in arguments.items()}
        arguments = {key: not value if isinstance(value, bool) else value for key, value in arguments.items()}
    return name, arguments


def theirs(case: Case, *, in_one_message: bool = False) -> bool:
    arguments = case.arguments
    if arguments == "partial":
        arguments = "subset" if case.mode == "subset" else "superset"
    evaluator = create_trajectory_match_evaluator(trajectory_match_mode=case.mode, tool_args_match_mode=arguments)
    made, wanted = (messages(calls, in_one=in_one_message) for calls in (case.actual, case.expected))
    return bool(evaluator(outputs=made, reference_outputs=wanted)["score"])


def messages(calls: list[Call], *, in_one: bool) -> list[dict[str, Any]]:
    functions = [
        {"id": "", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for name, arguments in calls
    ]
    groups = [functions] if in_one else [[function] for function in functions]
    made = [{"role": "assistant", "content": "", "tool_calls": group} for group in groups if group]
    return [{"role": "user", "content": "Book it."}, *made, {"role": "assistant", "content": "Done."}]


def ours(case: Case) -> bool:
    once = {"max": 1} if case.mode == "subset" else {}
    expected = [{"name": name, "args": args, "arg_match": case.arguments, **once} for name, args in case.expected]
    trajectory = Trajectory(mode=MODES[case.mode], expected=expected)
    calls = [ToolCall(name, args) for name, args in case.actual]
    return asyncio.run(trajectory.evaluate(TurnContext(reply="Done.", tool_calls=calls))).passed


def known_difference(case: Case) -> str | None:
    """Why the verdicts differ; None where they must not. Asks neither of the two, but tries every assignment."""
    if not can_be_assigned(case):
        return None
    told_apart = case._replace(expected=marked(case.expected), actual=marked(case.actual))
    if not can_be_assigned(told_apart):
        return BOOLEAN if is_taken_first_come(case) and asked_both_ways(case) else None
    if not asked_both_ways(case):
        return BOTH_WAYS
    return None if is_taken_first_come(case) else FIRST_COME


def can_be_assigned(case: Case) -> bool:
    """Whether one assignment, of all there are, satisfies the mode."""
    if case.mode in ("strict", "unordered") and len(case.expected) != len(case.actual):
        return False
    if case.mode == "strict":
        return all(accepts(case, *pair) for pair in zip(case.expected, case.actual, strict=True))
    few, many = (case.actual, case.expected) if case.mode == "subset" else (case.expected, case.actual)
    return any(
        all(accepts(case, *(pair[::-1] if case.mode == "subset" else pair)) for pair in zip(few, order, strict=True))
        for order in permutations(many, len(few))
    )


def accepts(case: Case, expected: Call, actual: Call) -> bool:
    """By the equality of Python, in which True is 1."""
    if expected[0] != actual[0] or (case.arguments == "exact" and expected[1] != actual[1]):
        return False
    wanted = expected[1] if case.arguments == "partial" else {}
    return all(key in actual[1] and actual[1][key] == value for key, value in wanted.items())


def marked(value: Any) -> Any:
    """The value with booleans that equal no number."""
    if isinstance(value, bool):
        return f"boolean {value}"
    if isinstance(value, dict):
        return {key: marked(item) for key, item in value.items()}
    return type(value)(map(marked, value)) if isinstance(value, (list, tuple)) else value


def is_taken_first_come(case: Case) -> bool:
    """Whether each call still finds one where the first that fits is taken, without a second thought."""
    if case.mode == "strict":
        return True
    takers, free = (case.actual, list(case.expected)) if case.mode == "subset" else (case.expected, list(case.actual))
    for taker in takers:
        pairs = [(one, taker) if case.mode == "subset" else (taker, one) for one in free]
        found = next((index for index, pair in enumerate(pairs) if accepts(case, *pair)), None)
        if found is None:
            return False
        del free[found]
    return case.mode != "unordered" or is_taken_first_come(Case("superset", case.arguments, case.actual, case.expected))


def asked_both_ways(case: Case) -> bool:
    """agentevals' `unordered` asks whether each side is a superset of the other, arguments included."""
    if case.mode != "unordered" or case.arguments != "partial":
        return True
    return can_be_assigned(case._replace(expected=case.actual, actual=case.expected))


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("mode", MODES)
def test_random_calls_get_the_same_verdict_but_for_known_differences(mode: str, arguments: str) -> None:
    rng = random.Random(f"{mode} {arguments}")
    verdicts: Counter[tuple[bool, bool]] = Counter()
    for _ in range(CASES):
        case = random_case(rng, mode, arguments)
        found, difference = (theirs(case), ours(case)), known_difference(case)
        if difference is None:
            assert found[0] == found[1], f"agentevals {found[0]}, Seatrial {found[1]}: {case}"
        else:
            assert found == DIFFERENCES[difference], f"{difference}: {case}"
        verdicts[found] += 1
    assert min(verdicts[True, True], verdicts[False, False]) > CASES / 20, "cases of both verdicts"


def test_every_known_difference_occurs() -> None:
    rng = random.Random(0)
    asked = [random_case(rng, mode, how) for mode in MODES for how in ARGUMENTS for _ in range(CASES)]
    assert {difference for case in asked if (difference := known_difference(case))} == set(DIFFERENCES)


LOOK_BOOK = [("look", {}), ("book", {})]


def test_known_difference_the_calls_of_one_message_have_an_order() -> None:
    """agentevals' `strict` keeps the order of messages, and lets the calls inside one come in any order."""
    case = Case("strict", "exact", LOOK_BOOK, LOOK_BOOK[::-1])
    assert theirs(case, in_one_message=True)
    assert not theirs(case)
    assert not ours(case)


def test_known_difference_within_alone_allows_a_call_any_number_of_times() -> None:
    case = Case("subset", "exact", [("look", {})], [("look", {}), ("look", {})])
    allowed = Trajectory(mode="within", expected=["look"])
    calls = [ToolCall(name, args) for name, args in case.actual]
    assert asyncio.run(allowed.evaluate(TurnContext(tool_calls=calls))).passed
    assert not theirs(case)
    assert not ours(case), "with max: 1, as agentevals means it"


def test_known_difference_a_matcher_is_asked_not_compared() -> None:
    case = Case("superset", "partial", [("look", {"day": {"$gt": 1}})], [("look", {"day": 2})])
    assert ours(case)
    assert not theirs(case)
