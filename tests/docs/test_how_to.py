"""The README and the how-to pages stay short, show what happens, and link to pages that exist."""

import re
from pathlib import Path

import pytest

from seatrial.statistics.intervals import wilson_interval
from seatrial_docs.blocks import ROOT, blocks_of, pages, steps_of

HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
"""A link to a file, without its anchor; addresses have a colon."""


@pytest.mark.parametrize("page", HOW_TO)
def test_a_how_to_page_shows_a_command_and_its_output(page: Path) -> None:
    steps = [step for block in blocks_of(page) if block.language == "console" for step in steps_of(block)]

    assert any(step.command.startswith(("seatrial ", "pytest")) and step.shown.strip() for step in steps)


@pytest.mark.parametrize("page", HOW_TO)
def test_a_how_to_page_fits_on_two_screens(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)

    assert len(prose.split()) <= 350


@pytest.mark.parametrize("page", HOW_TO)
def test_a_how_to_page_is_linked_from_the_index_and_the_readme(page: Path) -> None:
    index, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/index.md", "README.md"))

    assert f"(how-to/{page.name})" in index
    assert f"(docs/how-to/{page.name})" in readme


def test_the_page_on_trials_shows_the_right_intervals() -> None:
    text = (ROOT / "docs" / "how-to" / "run-five-trials.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) of (\d+) \| ([\d.]+) to ([\d.]+) \|$", text, re.MULTILINE)

    assert len(rows) == 4
    for passed, trials, low, high in rows:
        assert tuple(f"{bound:.2f}" for bound in wilson_interval(int(passed), int(trials))) == (low, high)


def test_the_readme_is_short_and_names_both_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert len(text.split()) <= 650
    assert {"$ make demo", "$ make test"} <= {line.partition("  ")[0] for line in text.splitlines()}


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_files_that_exist(page: Path) -> None:
    links = _LINK.findall(re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL))

    assert [link for link in links if not (page.parent / link).exists()] == []
