"""Blocks are found as a reader sees them, and mistakes on pages are found."""

from pathlib import Path
from typing import Any

import pytest

from seatrial_docs.blocks import ROOT, blocks_of, steps_of
from seatrial_docs.run_page import PageRun, run_page

PAGE = ROOT / "docs" / "made-up.md"
AGENT = '```python title="agent.py"\ndef answer(input): return "Hello!"\n```\n'
SUITE = '```yaml title="a.yaml"\nsuite: {agent: "agent:answer"}\nscenarios: [{name: a, input: b}]\n```\n'


def test_a_command_has_the_lines_below_it_as_its_output() -> None:
    text = "```console\n$ one \\\n> two\nout 1\nout 2\n$ three\n```\n"
    [block] = blocks_of(PAGE, text)

    first, second = steps_of(block)

    assert (first.command, first.shown) == ("one \\\ntwo", "out 1\nout 2")
    assert text.splitlines()[first.start : first.end] == ["out 1", "out 2"]
    assert (second.command, second.shown) == ("three", "")


def test_an_indented_block_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"made-up.md:3: an indented code block"):
        blocks_of(PAGE, "text\n\n    $ command\n")


def run(workspace: Any, tmp_path: Path, text: str) -> PageRun:
    page = ROOT / "docs" / "index.md"
    made_up = tmp_path / "page.md"
    made_up.write_text(text, encoding="utf-8")
    return run_page(made_up, workspace(page, frozenset()), name="page.md")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{AGENT}{SUITE}```console\n$ seatrial run a.yaml\n✗ a  (1 turn)\n...\n```\n", "the page shows"),
        (f"{AGENT}{SUITE}```console\n$ seatrial run a.yaml --tag no\n```\n", "ended with 1"),
        ("```console\n$ seatrial run --no-such-flag\n```\n", "ended with 2"),
        ("```console\n$ pip install 'seatrial[nonsense]'\n```\n", "there is no extra nonsense"),
        ("```console\n$ make nonsense\n```\n", "no target nonsense"),
        ("```python\nassert 1 == 2\n```\n", "page.md:2"),
        ("```yaml\nscenarios: [{name: a, input: b, nonsense: c}]\n```\n", "unknown key 'nonsense'"),
        ("```yaml\nexpected_outputs: x\n```\n", "neither a suite nor keys of a scenario"),
        ('```yaml title="b.yaml"\nscenarios: [{name: a}]\n```\n', "the user's side is missing"),
        (AGENT, "agent.py is never run"),
        ("```\nsomething\n```\n", "not_executed.toml"),
        ("```text\n$ seatrial run\n```\n", "not_executed.toml"),
    ],
)
def test_a_mistake_on_a_page_is_found(workspace: Any, tmp_path: Path, text: str, problem: str) -> None:
    assert problem in "\n".join(run(workspace, tmp_path, text).problems)


def test_a_correct_page_has_no_problems(workspace: Any, tmp_path: Path) -> None:
    shown = "✓ a  (1 turn)\n1/1 scenario passed\nPASS\n1 trial, 1 ms, run 20261116-002709-63b5fc"
    text = f"{AGENT}{SUITE}```console\n$ seatrial run a.yaml\n{shown}\n$ echo $?\n0\n```\n"

    assert run(workspace, tmp_path, text).problems == []
