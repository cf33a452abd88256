"""The reference pages are up to date, and they leave nothing out."""

import ast
import re
from pathlib import Path

import click
import pytest

import seatrial
from seatrial.evaluators.registry import EVALUATORS
from seatrial.evaluators.trajectory import Trajectory
from seatrial.judges.metrics import load_categories, load_metrics
from seatrial.model.scenario import Expect, Group, Scenario, Suite, SuiteConfig, SuiteFile, Turn
from seatrial.scenarios.keys import struct_reader
from seatrial.scenarios.merge import CONFIDENCE, DEFAULTS, SEQUENTIAL
from seatrial.settings import SETTINGS
from seatrial_docs.blocks import GENERATED_PART, ROOT
from seatrial_docs.reference import GENERATED, reference_pages, refreshed
from seatrial_docs.reference.commands import all_commands
from seatrial_docs.reference.python_names import annotation_text, default_text
from seatrial_docs.reference.tables import constraint_of, table, type_of

PAGES = {page.name: page.read_text(encoding="utf-8") for page in reference_pages()}
OF_PROGRAMS = re.compile(r"(SEATRIAL|OTEL|GITHUB|RAY)_[A-Z_]+|NO_COLOR")
NOT_FOR_USERS = {"SEATRIAL_REQUIRE_BROWSER", "RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"}
"""Variables of our own tests, and variables that Seatrial sets for Ray."""


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading: the other cells by the first."""
    section = PAGES[page].partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {first.strip("`"): [cell.strip() for cell in rest] for first, *rest in found}


@pytest.mark.parametrize("page", reference_pages())
def test_a_reference_page_is_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert refreshed(text) == text, f"docs/reference/{page.name} is stale. Run: make reference"


def test_every_generated_part_is_on_one_page() -> None:
    found = [part[2] for text in PAGES.values() for part in GENERATED_PART.finditer(text)]

    assert sorted(found) == sorted(GENERATED)


def test_every_marker_belongs_to_a_generated_part() -> None:
    for name, text in PAGES.items():
        assert re.findall("<!--", GENERATED_PART.sub("", text)) == [], name


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        refreshed("<!-- generated: nonsense -->\n<!-- end of nonsense -->\n")


def test_an_edit_in_a_generated_part_is_undone() -> None:
    text = PAGES["evaluators.md"]

    assert refreshed(text.replace("| `exact` |", "| `inexact` |")) == text


def test_an_edit_outside_of_generated_parts_is_kept() -> None:
    text = f"Introduction\n\n{PAGES['evaluators.md']}\nThe end\n"

    assert refreshed(text) == text


def test_no_page_depends_on_the_machine() -> None:
    for name, text in PAGES.items():
        assert " at 0x" not in text, name
        assert str(Path.home()) not in text, name
        assert str(ROOT) not in text, name


def test_every_command_and_flag_is_in_the_reference() -> None:
    text = PAGES["cli.md"]
    for name, command in all_commands():
        assert f"# `seatrial {name}`" in text
        section = text.partition(f"# `seatrial {name}`")[2].partition("\n## ")[0]
        options = [one for one in command.params if isinstance(one, click.Option)]
        assert [flag for one in options for flag in one.opts if f"`{flag}`" not in section] == []
        assert [one.name for one in options if " ".join((one.help or "").split())[:20] not in section] == []


def test_every_command_has_its_exit_codes_in_the_reference() -> None:
    named = re.findall(r"`([\w-]+)", PAGES["exit-codes.md"])

    assert [name for name, _ in all_commands() if name.split()[0] not in named] == []


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("the file", struct_reader(SuiteFile).file_keys),
        ("suite", struct_reader(Suite).file_keys),
        ("config", struct_reader(SuiteConfig).file_keys),
        ("scenario", struct_reader(Scenario).file_keys),
        ("turn", struct_reader(Turn).file_keys),
        ("expect", struct_reader(Expect).file_keys),
        ("trajectory", struct_reader(Trajectory).file_keys),
        ("group", struct_reader(Group).file_keys),
        ("history", dict.fromkeys(("role", "content", "tool_calls", "tool_call_id"))),
    ],
)
def test_every_key_is_in_the_reference_with_its_meaning(heading: str, keys: dict[str, object]) -> None:
    found = rows("scenario-files.md", heading)

    assert set(found) == set(keys)
    assert all(meaning for *_, meaning in found.values())


def test_the_defaults_in_the_reference_are_those_of_the_code() -> None:
    scenario = {name: default for name, (_, default, *_) in rows("scenario-files.md", "scenario").items()}
    sequential = {name: default for name, (_, default, *_) in rows("scenario-files.md", "sequential").items()}

    assert {name: float(scenario[name].strip("`")) for name in DEFAULTS} == DEFAULTS
    assert {name: float(text.strip("`")) for name, text in sequential.items()} == {
        name: getattr(SEQUENTIAL, name) for name in sequential
    }
    assert rows("scenario-files.md", "gate")["confidence"][1] == f"`{CONFIDENCE}`"


def test_keys_show_their_constraints() -> None:
    found = {name: constraint for name, (_, _, constraint, _) in rows("scenario-files.md", "scenario").items()}

    assert found["threshold"] == "above 0, at most 1"
    assert found["trials"] == "at least 1"
    assert found["turns"] == "not empty"
    assert found["scorers"] == "not empty, each not blank"


def test_every_public_name_is_in_the_reference() -> None:
    assert [name for name in seatrial.__all__ if f"## `{name}`\n" not in PAGES["python.md"]] == []


def test_every_setting_is_in_the_reference() -> None:
    text = PAGES["environment.md"]

    assert [name for name, one in SETTINGS.items() if f"`{name}`" not in text or one.help[1:] not in text] == []


def test_every_environment_variable_is_in_the_reference() -> None:
    used = {
        node.value
        for file in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and OF_PROGRAMS.fullmatch(node.value)
    }

    assert {"SEATRIAL_TOKEN", "SEATRIAL_STORE", "NO_COLOR"} <= used
    assert [name for name in sorted(used - NOT_FOR_USERS) if f"`{name}`" not in PAGES["environment.md"]] == []


def test_every_evaluator_metric_and_failure_is_in_the_reference() -> None:
    names = [*EVALUATORS, *load_metrics(), *load_categories()]

    assert [name for name in names if f"`{name}`" not in PAGES["evaluators.md"]] == []


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = re.findall(r": (\S+\.md)$", nav, re.MULTILINE)

    assert sorted(listed) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1}, "whole number"),
        ({"type": ["string", "null"]}, "text or null"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
        ({"type": "array", "items": {"type": "string"}}, "list of texts"),
        ({"type": "array", "items": {"properties": {}, "oneOf": [{}]}}, "list of mappings"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "mapping of names to numbers"),
        ({"$ref": "#/$defs/model_use"}, "[Model use](#model-use)"),
        ({"$ref": "#/components/schemas/ResultsStatus"}, "[Status](results.md#status)"),
        ({}, "any value"),
    ],
)
def test_a_schema_in_words(schema: dict[str, object], words: str) -> None:
    assert type_of(schema) == words


def test_a_constraint_in_words() -> None:
    assert constraint_of({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}) == "above 0, below 1"
    assert constraint_of({"type": "array", "minItems": 1, "items": {"type": "string", "pattern": r"\S"}}) == (
        "not empty, each not blank"
    )


def test_code_in_a_table_is_not_escaped() -> None:
    assert table(("a",), [("`<b>` <c>",)]).splitlines()[-1] == "| `<b>` &lt;c> |"


def test_signatures_name_no_module_and_no_address() -> None:
    assert annotation_text(Path | None) == "Path | None"
    assert annotation_text(dict[str, tuple[int, ...]]) == "dict[str, tuple[int, ...]]"
    assert default_text(test_a_constraint_in_words) == "test_a_constraint_in_words"
    assert default_text(object()) == "object()"
