"""Outputs are the same if only times, ids and `...` differ."""

import pytest

from seatrial_docs.outputs import fits

RAN = "✓ a  (1 turn)\n1/1 scenario passed\nPASS\n1 trial, 13 ms, run 20261116-002709-63b5fc\n"


@pytest.mark.parametrize(
    "shown",
    [
        RAN,
        RAN.replace("13 ms", "1.2 s").replace("20261116-002709-63b5fc", "20270101-000000-abcdef"),
        "✓ a  (1 turn)\n...",
        "...\nPASS\n...",
        "✓ a ...\n1/1 scenario ...\nPASS\n...",
    ],
)
def test_what_varies_may_differ(shown: str) -> None:
    assert fits(RAN, shown)


@pytest.mark.parametrize(
    "shown",
    [
        RAN.replace("✓ a", "✗ a"),
        RAN.replace("PASS\n", ""),
        f"{RAN}one line more",
        "PASS",
        "...\nFAIL\n...",
        RAN.replace("1 trial,", "2 trials,"),
        RAN.replace("  (1 turn)", " (1 turn)"),
    ],
)
def test_anything_else_may_not(shown: str) -> None:
    assert not fits(RAN, shown)
