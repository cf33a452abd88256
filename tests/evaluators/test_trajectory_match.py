"""The matcher against a reference that tries every assignment, and what it says about a mismatch."""

from collections.abc import Iterator
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.evaluators.trajectory import Trajectory, compare_calls
from seatrial.model.conversation import ToolCall
from seatrial.model.results import TrajectoryMatch
from seatrial.model.scenario import ExpectedCall, TrajectoryMode

FREE = ("contains", "in_order")

# Few names and values, so that calls compete for entries.
names = st.sampled_from("aaab")
arguments = st.sampled_from([{}, {"x": 1}, {"x": 2}, {"x": 1, "y": True}])
calls = st.lists(st.builds(ToolCall, names, arguments), max_size=5)
times = st.one_of(
    st.just({}),
    st.builds(lambda count: {"count": count}, st.integers(0, 3)),
    st.builds(lambda low: {"min": low}, st.integers(0, 3)),
    st.builds(lambda high: {"max": high}, st.integers(0, 3)),
    st.builds(lambda low, more: {"min": low, "max": low + more}, st.integers(0, 2), st.integers(0, 2)),
    st.just({"optional": True}),
)
single = st.builds(
    ExpectedCall,
    name=names,
    args=st.one_of(st.none(), arguments),
    arg_match=st.sampled_from([None, "partial", "exact", "ignore"]),
)
entries = st.one_of(
    st.builds(
        lambda call, how: ExpectedCall(name=call.name, args=call.args, arg_match=call.arg_match, **how), single, times
    ),
    st.builds(
        lambda any_of, how: ExpectedCall(any_of=tuple(any_of), **how), st.lists(single, min_size=1, max_size=2), times
    ),
)
modes = st.sampled_from(["strict", "unordered", "contains", "in_order", "within"])


def accepts(expected: ExpectedCall, call: ToolCall) -> bool:
    if expected.any_of:
        return any(accepts(option, call) for option in expected.any_of)
    if expected.name != call.name:
        return False
    if expected.args is None or expected.arg_match == "ignore":
        return True
    if expected.arg_match == "exact":
        return bool(expected.args == call.arguments)
    return all(key in call.arguments and call.arguments[key] == value for key, value in expected.args.items())


def bounds(expected: ExpectedCall, mode: str) -> tuple[int, float]:
    low, high = 1, 1.0
    if expected.count is not None:
        low, high = expected.count, expected.count
    elif expected.optional:
        low, high = 0, 1
    elif expected.min is not None or expected.max is not None:
        low, high = expected.min or 0, float("inf") if expected.max is None else expected.max
    if mode == "within":
        return 0, high if is_capped(expected) else float("inf")
    return low, high


def is_capped(expected: ExpectedCall) -> bool:
    return expected.count is not None or expected.max is not None or expected.optional


def assignments(expected: list[ExpectedCall], made: list[ToolCall], mode: str) -> Iterator[tuple[int, int]]:
    """(calls missing, calls that have no place although they need one) of every possible assignment."""
    options = [[None, *(index for index, entry in enumerate(expected) if accepts(entry, call))] for call in made]
    for owners in product(*options):
        taken = [owner for owner in owners if owner is not None]
        if mode in ("strict", "in_order") and taken != sorted(taken):
            continue
        counts = [taken.count(index) for index in range(len(expected))]
        limits = [bounds(entry, mode) for entry in expected]
        if any(count > high for count, (_, high) in zip(counts, limits, strict=True)):
            continue
        missing = sum(max(0, low - count) for count, (low, _) in zip(counts, limits, strict=True))
        homeless = sum(
            owner is None and (mode not in FREE or any(is_capped(e) and accepts(e, call) for e in expected))
            for owner, call in zip(owners, made, strict=True)
        )
        yield missing, homeless


def matched(
    mode: TrajectoryMode, expected: list[ExpectedCall], made: list[ToolCall], **more: list[ExpectedCall]
) -> TrajectoryMatch:
    return compare_calls(Trajectory(mode=mode, expected=expected, **more), made).match


@settings(max_examples=600, deadline=None)
@given(modes, st.lists(entries, max_size=4), calls)
def test_a_trajectory_matches_when_some_assignment_does(
    mode: TrajectoryMode, expected: list[ExpectedCall], made: list[ToolCall]
) -> None:
    found = matched(mode, expected, made)

    assert found.matched == ((0, 0) in assignments(expected, made, mode))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["unordered", "contains"]), st.lists(entries, max_size=4), calls)
def test_the_fewest_calls_are_missing_and_among_those_the_fewest_extra(
    mode: TrajectoryMode, expected: list[ExpectedCall], made: list[ToolCall]
) -> None:
    found = matched(mode, expected, made)

    assert (len(found.missing_calls), len(found.extra_calls)) == min(assignments(expected, made, mode))


@settings(max_examples=200, deadline=None)
@given(modes, st.lists(entries, max_size=3), st.lists(single, max_size=2), calls)
def test_a_forbidden_call_fails_any_mode_and_changes_nothing_else(
    mode: TrajectoryMode, expected: list[ExpectedCall], rules: list[ExpectedCall], made: list[ToolCall]
) -> None:
    without = matched(mode, expected, made)
    found = matched(mode, expected, made, forbidden=rules)
    broken = [rule for rule in rules if any(accepts(rule, call) for call in made)]

    assert len(found.forbidden_calls) == len(broken)
    assert found.matched == (without.matched and not broken)
    assert found.missing_calls == without.missing_calls


@settings(max_examples=300, deadline=None)
@given(modes, st.lists(entries, max_size=4), calls)
def test_a_mismatch_always_says_why(mode: TrajectoryMode, expected: list[ExpectedCall], made: list[ToolCall]) -> None:
    found = matched(mode, expected, made)

    assert found.matched != bool(found.missing_calls or found.extra_calls or found.ordering_issues)
    assert found.matched or found.diff
    assert all(line[:2] in ("  ", "- ", "+ ", "! ") for line in found.diff)


LOOSE = ExpectedCall(name="a")
FIRST, SECOND = ToolCall("a", {"x": 1}), ToolCall("a", {"x": 2})


def test_a_call_that_needs_a_place_moves_another_to_an_entry_that_can_take_it_too() -> None:
    picky = ExpectedCall(name="a", args={"x": 1}, optional=True)

    assert matched("unordered", [LOOSE, picky], [FIRST, SECOND]).matched


def test_a_call_that_needs_a_place_takes_it_from_one_that_needs_none() -> None:
    picky = ExpectedCall(name="a", args={"x": 1}, count=1)

    found = matched("contains", [LOOSE, picky], [SECOND, FIRST, FIRST])

    assert found.matched
    assert found.other_calls == ("a",)


def named(*words: str) -> list[ExpectedCall]:
    return [ExpectedCall(name=word) for word in words]


def made(*words: str) -> list[ToolCall]:
    return [ToolCall(word, {}) for word in words]


def test_calls_that_nobody_expected_are_listed_where_they_are_allowed() -> None:
    found = matched("in_order", named("a", "b"), made("x", "a", "a", "b"))

    assert found.matched
    assert found.other_calls == ("x", "a")
    assert found.extra_calls == ()


def test_a_capped_entry_makes_the_surplus_extra() -> None:
    found = matched("contains", [ExpectedCall(name="pay", count=1)], made("pay", "look", "pay"))

    assert not found.matched
    assert found.extra_calls == ("pay",)
    assert found.other_calls == ("look",)


def test_an_order_issue_names_both_calls() -> None:
    found = matched("in_order", named("check", "book"), made("book", "check"))

    assert found.missing_calls == ()
    assert found.ordering_issues == ('"check" was not called before "book"',)


def test_a_call_that_never_came_is_missing_and_not_out_of_order() -> None:
    found = matched("in_order", named("check", "book"), made("check"))

    assert found.missing_calls == ("book",)
    assert found.ordering_issues == ()


def test_the_expectation_reads_as_words() -> None:
    expected = [
        ExpectedCall(name="create_booking"),
        ExpectedCall(name="create_booking", args={"service": "haircut"}, count=2),
        ExpectedCall(any_of=(ExpectedCall(name="update"), ExpectedCall(name="delete"))),
        ExpectedCall(name="poll", min=1),
        ExpectedCall(name="poll", min=1, max=3),
        ExpectedCall(name="mail", optional=True),
        ExpectedCall(name="pay", args={"amount": 1}, arg_match="exact"),
        ExpectedCall(name="pay", args={"amount": 1}, arg_match="ignore"),
    ]

    assert matched("contains", expected, []).expected == (
        "create_booking",
        "create_booking(service='haircut') x2",
        "update|delete",
        "poll x1 or more",
        "poll x1-3",
        "mail (optional)",
        "pay(amount=1) exactly",
        "pay",
    )


def test_the_diff_aligns_the_calls_and_shows_which_argument_differs() -> None:
    expected = [
        ExpectedCall(name="check"),
        ExpectedCall(name="book", args={"service": "haircut"}),
        ExpectedCall(name="mail"),
    ]
    calls = [
        ToolCall("check", {"day": "Tue"}),
        ToolCall("book", {"service": "massage"}),
        ToolCall("drop", {}),
        ToolCall("mail", {}),
    ]

    found = matched("strict", expected, calls, forbidden=named("drop"))

    assert found.diff == (
        "  check(day='Tue')",
        "- book(service='haircut')",
        "    book.service: expected 'haircut', got 'massage'",
        "+ book(service='massage')",
        "! drop()",
        "  mail()",
    )


def test_a_forbidden_rule_about_arguments_does_not_excuse_a_call_whose_arguments_are_unknown() -> None:
    rule = ExpectedCall(name="delete", args={"hard": True})

    assert not matched("contains", [], [ToolCall("delete")], forbidden=[rule]).matched
    assert matched("contains", [], [ToolCall("delete", {"hard": False})], forbidden=[rule]).matched


def test_a_thousand_calls_are_matched_in_every_mode() -> None:
    expected = [ExpectedCall(name=f"t{index % 7}") for index in range(1000)]
    calls = [ToolCall(f"t{index % 7}", {"i": index}) for index in range(1000)]

    for mode in ("strict", "unordered", "contains", "in_order", "within"):
        assert matched(mode, expected, calls).matched  # type: ignore[arg-type]


def test_a_thousand_calls_with_arguments_of_their_own_are_told_apart() -> None:
    expected = [ExpectedCall(name="get", args={"i": index}) for index in reversed(range(1000))]
    calls = [ToolCall("get", {"i": index}) for index in range(1000)]

    assert matched("unordered", expected, calls).matched
    assert not matched("in_order", expected, calls).matched


def test_a_thousand_calls_that_differ_in_one_place_get_a_short_diff() -> None:
    expected = named(*("a" for _ in range(500)), "b", *("a" for _ in range(500)))
    calls = made(*("a" for _ in range(500)), "c", *("a" for _ in range(500)))

    found = matched("strict", expected, calls)

    assert found.missing_calls == ("b",)
    assert found.extra_calls == ("c",)
    assert "- b" in found.diff
    assert "+ c()" in found.diff
    assert len(found.diff) < 30
