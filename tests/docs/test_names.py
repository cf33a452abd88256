"""Every flag, command and key that a page names exists."""

import inspect
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

import seatrial_pytest
from seatrial.agents.resolve import AGENT_TYPES
from seatrial.evaluators.registry import EVALUATORS
from seatrial.judges.metrics import _KEYS as METRIC_KEYS
from seatrial.scenarios.keys import json_schema
from seatrial.settings import SETTINGS
from seatrial_docs.blocks import ROOT, blocks_of, pages
from seatrial_docs.names import Named, named_in
from seatrial_docs.reference.commands import all_commands

PYTEST_OWN = {"--lf", "--collect-only", "--durations", "--junit-xml"}
"""Flags of pytest itself that pages mention."""
MOCK_KEYS = {"returns", "raises", "sequence", "when", "fault", "python", "delay_ms", "args"}
TOOL_KEYS = {"name", "description", "parameters", "output_schema"}


@cache
def flags_of(command: str) -> frozenset[str]:
    found = dict(all_commands())[command]
    return frozenset(flag for one in found.params if isinstance(one, click.Option) for flag in one.opts) | {"--help"}


@cache
def known_flags() -> frozenset[str]:
    ours = {flag for name, _ in all_commands() for flag in flags_of(name)} | {"--version"}
    plugin = set(re.findall(r'"(--seatrial-[\w-]+)"', inspect.getsource(seatrial_pytest)))
    return frozenset(ours | plugin | PYTEST_OWN)


@cache
def known_keys() -> frozenset[str]:
    agents = {key for kind in AGENT_TYPES.values() for key in (*kind.required, *kind.optional)} | {"type"}
    scorers = {name for kind in EVALUATORS.values() for name in inspect.signature(kind).parameters}
    metrics = {name.partition(":")[0].strip() for name in METRIC_KEYS}
    return frozenset(
        properties(json_schema()) | agents | scorers | metrics | MOCK_KEYS | TOOL_KEYS | set(SETTINGS) | {"scenario"}
    )


def properties(node: Any) -> set[str]:
    if isinstance(node, list):
        return {found for item in node for found in properties(item)}
    if not isinstance(node, Mapping):
        return set()
    own = set(node["properties"]) if isinstance(node.get("properties"), Mapping) else set()
    return own.union(*(properties(item) for item in node.values()), set())


def command_of(words: list[str]) -> str | None:
    """The longest command at the start of the words."""
    known = dict(all_commands())
    return next((name for name in (" ".join(words[:2]), words[0]) if name in known), None)


def wrong_command(text: str) -> str | None:
    """What is wrong with `COMMAND --flags …`."""
    words = text.split()
    if words[0] == "COMMAND":
        return None
    command = command_of(words)
    if command is None:
        return f"there is no command {words[0]!r}"
    unknown = [flag for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", text) if flag not in flags_of(command)]
    return f"{command} has no {', '.join(unknown)}" if unknown else None


def problems(named: Named) -> list[str]:
    if named.command is not None:
        wrong = wrong_command(named.command)
        return [f"{named.where}: {wrong}"] if wrong else []
    if named.code.split()[:1] and command_of(named.code.split()) and named.flags:  # `run --dry-run`
        wrong = wrong_command(named.code)
        return [f"{named.where}: {wrong}"] if wrong else []
    flags = named.flags if named.code.startswith("-") else []  # others belong to other programs: `mypy --strict`
    found = [f"{named.where}: no command has {flag}" for flag in flags if flag not in known_flags()]
    return found + [f"{named.where}: there is no key {key!r}" for key in named.keys if key not in known_keys()]


@pytest.mark.parametrize("page", pages())
def test_every_name_on_a_page_exists(page: Path) -> None:
    wrong = [problem for named in named_in(page) for problem in problems(named)]

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", pages())
def test_every_command_in_a_file_of_a_page_exists(page: Path) -> None:
    """Workflows are not run, but their commands can be looked up."""
    wrong = [
        f"{block.where}: seatrial {text}: {problem}"
        for block in blocks_of(page)
        if block.language in ("yaml", "text", "toml")
        for text in re.findall(r"(?:^|[ -])seatrial ([a-z][a-z]+ .*)$", block.text, re.MULTILINE)
        if (problem := wrong_command(text))
    ]

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("seatrial nonsense", "no command 'nonsense'"),
        ("seatrial run --nonsense", "run has no --nonsense"),
        ("seatrial baseline set --nonsense RUN", "baseline set has no --nonsense"),
        ("run --nonsense", "run has no --nonsense"),
        ("--nonsense", "no command has --nonsense"),
        ("nonsense: true", "no key 'nonsense'"),
        ("suite.nonsense", "no key 'nonsense'"),
    ],
)
def test_a_name_that_does_not_exist_is_found(code: str, problem: str) -> None:
    [found] = problems(Named(page="docs/a.md", line=1, code=code, column=""))

    assert problem in found


@pytest.mark.parametrize("code", ["seatrial run --trials 3 --report html=a", "trials: auto", "suite.config", "--lf"])
def test_a_name_that_exists_passes(code: str) -> None:
    assert problems(Named(page="docs/a.md", line=1, code=code, column="")) == []


def test_names_are_found_in_tables_and_in_sentences() -> None:
    names = {(named.code, named.column) for named in named_in(ROOT / "docs" / "mocks.md")}

    assert {("delay_ms", "key"), ("unmocked_tools: error", "")} <= names
