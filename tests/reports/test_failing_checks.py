"""The failing check in a few words, equal failures as groups, Markdown of agents, and two replies word by word."""

from datetime import UTC, datetime

import pytest

from seatrial.model.run import ScenarioKey, Status, TrialSummary
from seatrial.reports.aligned_turns import diff_words
from seatrial.reports.failing_checks import failing_check, group_failures
from seatrial.reports.prose import prose

PASSED_BEFORE = "passfail: Output produced: PASS. "


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (f'{PASSED_BEFORE}Expected output found: FAIL ("shipped" not found in output).', 'reply lacks "shipped"'),
        ("turn 2: passfail: Output produced: FAIL (empty output).", "turn 2: empty reply"),
        (f"{PASSED_BEFORE}Expected tools called: FAIL (missing: a, b).", "missing call: a, b"),
        ("exact: Exact match: FAIL (got 'x').", "reply differs: got 'x'"),
        ("turn 1: contains: Reply did not contain any of ['paid']", 'turn 1: reply lacks "paid"'),
        ("contains: Reply did not contain any of ['paid', 'card']", "reply has none of 'paid', 'card'"),
        ("contains: Reply missing required strings: ['RF-1']", "reply lacks 'RF-1'"),
        ("contains: Reply contained forbidden strings: ['sorry']", "reply contains 'sorry'"),
        ("end_state: End state differs: a.b: expected 1, got 2", "end state: a.b: expected 1, got 2"),
        ("mine: too long\nsecond line", "mine: too long"),
        ("3/5 trials passed (threshold: 0.8)", "3/5 trials passed (threshold: 0.8)"),
    ],
)
def test_a_reason_is_shown_as_its_failing_check(reason: str, shown: str) -> None:
    assert failing_check(reason) == shown


def a_summary(index: int, reason: str, status: Status = Status.FAILED, name: str = "one") -> TrialSummary:
    return TrialSummary(
        key=ScenarioKey("suite", name),
        index=index,
        status=status,
        failure_reasons=(reason,),
        started_at=datetime(2026, 5, 1, tzinfo=UTC),
    )


def test_failures_that_differ_only_in_ids_and_numbers_are_one_group() -> None:
    groups = group_failures(
        [
            a_summary(0, "mine: order ORD-17 not found"),
            a_summary(1, "mine: order ORD-18 not found", name="two"),
            a_summary(2, "mine: no reply"),
            a_summary(3, "fine", Status.PASSED),
        ]
    )

    assert [(group.trials, group.text, len(group.scenarios)) for group in groups] == [
        (2, "mine: order ORD-17 not found", 2),
        (1, "mine: no reply", 1),
    ]


def test_an_error_and_a_failure_with_the_same_text_are_two_groups() -> None:
    assert len(group_failures([a_summary(0, "boom"), a_summary(1, "boom", Status.ERRORED)])) == 2


HOSTILE = """<script>alert(1)</script> **bold** [a](javascript:alert(2)) ![b](http://x/y.png) <http://z>
<img src=x onerror=alert(3)>

| <b>a</b> | b |
|---|---|
| 1 | 2 |

```"><script>
x
```
# Head
"""


def test_markdown_is_rendered_and_nothing_in_it_is_markup_or_clickable() -> None:
    shown = str(prose(HOSTILE))

    assert "<strong>bold</strong>" in shown
    assert "<table>" in shown
    for tag in ("<script", "<img", "<a ", "<b>a", "<h1", "<iframe"):
        assert tag not in shown
    assert 'href="' not in shown


def test_equal_words_of_two_replies_are_not_marked() -> None:
    left, right = diff_words("Your order was refunded today.", "Your order was cancelled today.")

    assert [piece.text for piece in left if not piece.same] == ["refunded"]
    assert [piece.text for piece in right if not piece.same] == ["cancelled"]
    assert "".join(piece.text for piece in right) == "Your order was cancelled today."


def test_replies_with_nothing_in_common_are_shown_without_marks() -> None:
    left, right = diff_words("I refunded it just now", "No such order exists here, sorry!")

    assert all(piece.same for piece in (*left, *right))
