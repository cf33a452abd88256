"""Pictures show what commands print."""

from pathlib import Path

import pytest

from seatrial_docs.blocks import ROOT
from seatrial_docs.outputs import fits
from seatrial_docs.picture import PICTURES, drawn, run_of_the_picture, text_of

IMAGES = ROOT / "docs" / "images"


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_a_real_run(name: str, tmp_path: Path) -> None:
    shown = text_of((IMAGES / name).read_text(encoding="utf-8"))

    assert fits(run_of_the_picture(name, tmp_path), shown), "out of date: make readme-picture"


def test_the_text_of_a_picture_is_the_text_it_was_drawn_from() -> None:
    text = "$ seatrial run\n✓ <a> & 'b'  (1 turn)\n  ✗ trial-2\nFAIL: 1 scenario failed"

    assert text_of(drawn(text)) == text


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_loads_nothing_from_elsewhere(name: str) -> None:
    assert (IMAGES / name).read_text(encoding="utf-8").count("http") == 1  # the namespace of SVG
