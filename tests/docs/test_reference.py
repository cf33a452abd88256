"""The generated reference leaves nothing out, and pages ask only for parts that there are."""

import re

import click
import pytest

import seatrial
from seatrial.scenarios.keys import EXPECT, TRAJECTORY, TURN
from seatrial.scenarios.suite_keys import CONFIG, FILE_KEYS, GROUP, SCENARIO, SUITE
from seatrial.settings import SETTINGS
from seatrial_docs.blocks import ROOT, pages
from seatrial_docs.reference import GENERATED, fill
from seatrial_docs.reference.commands import all_commands

ASKED = {name for page in pages() for name in re.findall(r"<!-- generated: ([\w-]+) -->", page.read_text("utf-8"))}


def test_every_generated_part_is_on_a_page() -> None:
    assert set(GENERATED) == ASKED


def test_a_part_that_there_is_not_stops_the_build() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        fill("<!-- generated: nonsense -->")


def test_every_command_and_flag_is_in_the_reference() -> None:
    text = GENERATED["commands"]()
    for name, command in all_commands():
        assert f"# `seatrial {name}`" in text
        section = text.partition(f"# `seatrial {name}`")[2].partition("\n## ")[0]
        flags = [flag for one in command.params if isinstance(one, click.Option) for flag in one.opts]
        assert [flag for flag in flags if f"`{flag}`" not in section] == []


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("the file", FILE_KEYS),
        ("suite", SUITE.keys),
        ("config", CONFIG.keys),
        ("scenario", SCENARIO.keys),
        ("turn", TURN.keys),
        ("expect", {name: key for name, key in EXPECT.keys.items() if not key.python_only}),
        ("trajectory", TRAJECTORY.keys),
        ("group", GROUP.keys),
        ("history", dict.fromkeys(("role", "content", "tool_calls", "tool_call_id"))),
    ],
)
def test_every_key_is_in_the_reference_with_what_it_means(heading: str, keys: dict[str, object]) -> None:
    section = GENERATED["keys"]().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\|[^|]*\| *(.*?) *\|$", section, re.MULTILINE))

    assert set(rows) == set(keys)
    assert all(rows.values())


def test_every_name_of_the_front_door_is_in_the_reference() -> None:
    text = GENERATED["python"]()

    assert [name for name in seatrial.__all__ if f"## `{name}`" not in text] == []
    assert " at 0x" not in text


def test_every_setting_is_in_the_reference() -> None:
    text = GENERATED["settings"]()

    assert [name for name, one in SETTINGS.items() if f"`{name}`" not in text or one.help not in text] == []


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = re.findall(r": (\S+\.md)$", nav, re.MULTILINE)

    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", ["docs/how-it-works.md", "CONTRIBUTING.md"])
def test_the_drawing_of_the_house_has_every_room(page: str) -> None:
    drawing = (ROOT / page).read_text(encoding="utf-8").partition("```text\ndoors")[2].partition("```")[0]
    rooms = [file.parent.name for file in (ROOT / "src" / "seatrial").glob("*/__init__.py")]

    assert [room for room in rooms if f"{room}/" not in f"doors{drawing}"] == []
