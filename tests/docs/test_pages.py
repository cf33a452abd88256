"""Every block of README and docs is executed and prints what the page shows, except those in not_executed.toml."""

import os
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial_docs.blocks import blocks_of, name_of, pages
from seatrial_docs.run_page import Workspace, correct, run_page

REASONS: dict[str, dict[str, str]] = tomllib.loads(
    (Path(__file__).parent / "not_executed.toml").read_text(encoding="utf-8")
)
LISTED = frozenset((page, line) for page, lines in REASONS.items() for line in lines)


def programs_of(page: Path) -> set[str]:
    """The programs that a page runs and that do not come with Python."""
    text = page.read_text(encoding="utf-8")
    return {name for name, sign in {"curl": "\n$ curl ", "node": "[node, "}.items() if sign in text}


@pytest.mark.parametrize("page", pages())
def test_what_a_page_shows_is_what_happens(
    page: Path, workspace: Callable[[Path, frozenset[tuple[str, str]]], Workspace]
) -> None:
    absent = [program for program in sorted(programs_of(page)) if shutil.which(program) is None]
    if absent:
        pytest.skip(f"{name_of(page)} needs {', '.join(absent)}")
    done = run_page(page, workspace(page, LISTED))

    if done.corrections and os.environ.get("SEATRIAL_WRITE_DOCS"):
        correct(page, done)
    assert not done.problems, "\n\n".join(done.problems)


def test_the_list_names_blocks_that_are_there(capfd: pytest.CaptureFixture[str]) -> None:
    blocks = [block for page in pages() for block in blocks_of(page)]
    there = {(block.page, block.first_line) for block in blocks}

    assert there >= LISTED, f"no such blocks: {sorted(LISTED - there)}"
    fragments = sum(block.title is None and block.language in ("yaml", "json") for block in blocks)
    with capfd.disabled():
        print(
            f"\ndocs: {len(blocks)} blocks; {len(LISTED)} are not executed (tests/docs/not_executed.toml), "
            f"{fragments} are fragments, which are validated",
            file=sys.stderr,
        )


def test_every_reason_says_something() -> None:
    assert all(len(reason.split()) > 3 for lines in REASONS.values() for reason in lines.values())


def test_every_page_is_read() -> None:
    assert {"README.md", "docs/agents.md"} <= {name_of(page) for page in pages()}
