"""Runs one page: writes its files, types its commands, runs its Python, validates its fragments of YAML."""

import json
import os
import re
import shutil
import socket
import subprocess
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from seatrial.scenarios.keys import FILE, SCENARIO, SUITE
from seatrial.settings import read_settings

from .blocks import Block, Step, blocks_of, name_of, steps_of
from .outputs import fits
from .shell import Shell

EXECUTED, CHECKED, LISTED = "executed", "checked", "not executed"
_PORT = re.compile(r"\b8000\b")
"""The port of servers on pages; each page gets its own free port, so that pages can run at the same time."""


@dataclass(slots=True)
class PageRun:
    """The result of running a page."""

    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    corrections: list[tuple[Step, str]] = field(default_factory=list)
    """Where the page shows something other than what was printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where a page runs."""

    folder: Path
    given: Path
    """A folder with files that the page needs and does not show."""
    environ: dict[str, str]
    listed: frozenset[tuple[str, str]]
    """(page, first line) of the blocks that are not executed."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Addresses that pages name, and the local ones that are used instead."""


def run_page(page: Path, workspace: Workspace, *, name: str | None = None) -> PageRun:
    """Run everything on the page, in order. A problem does not stop the page."""
    port = str(_free_port())
    text = _PORT.sub(port, page.read_text(encoding="utf-8"))
    for address, local in workspace.addresses.items():
        text = text.replace(address, local)
    done = PageRun()
    if workspace.given.is_dir():
        shutil.copytree(workspace.given, workspace.folder, dirs_exist_ok=True)
    with Shell(workspace.folder, workspace.environ) as shell:
        part = _Reader(shell, done, workspace)
        for block in blocks_of(page, text, name=name):
            try:
                done.counts[part.read(block)] += 1
            except AssertionError as problem:
                done.problems.append(f"{block.where}: {problem}")
            except Exception as problem:
                done.problems.append(f"{block.where}: {type(problem).__name__}: {problem}")
        done.problems += part.end()
    done.corrections = [(step, _as_on_the_page(printed, port, workspace)) for step, printed in done.corrections]
    return done


def _as_on_the_page(printed: str, port: str, workspace: Workspace) -> str:
    for address, local in workspace.addresses.items():
        printed = printed.replace(local, address)
    return printed.replace(port, "8000")


def correct(page: Path, done: PageRun) -> None:
    """Write what was printed into the page, where it shows something else."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for step, printed in reversed(done.corrections):
        lines[step.start : step.end] = [line.rstrip() for line in printed.strip("\n").splitlines()]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


class _Reader:
    def __init__(self, shell: Shell, done: PageRun, workspace: Workspace) -> None:
        self.shell = shell
        self.done = done
        self.workspace = workspace
        self.namespace: dict[str, object] = {"__name__": "page"}
        self.waiting: list[Block] = []
        """Suites that no command has used yet."""
        self.written: list[tuple[Block, Path, int]] = []
        """Python files, and how many programs had run before each."""

    def read(self, block: Block) -> str:
        """Check the block, and return how. Raises AssertionError if it is wrong."""
        if (block.page, block.first_line) in self.workspace.listed:
            _parse(block)
            return LISTED
        if block.language == "console":
            for step in steps_of(block):
                self._type(block, step)
            self.waiting.clear()
            return EXECUTED
        if block.title is not None:
            return self._write(block)
        return self._fragment(block)

    def end(self) -> list[str]:
        """The problems of files that no command used: suites must be valid, Python must run."""
        problems = [
            f"{block.where}: {block.title} is never run; use it in a command, or add it to tests/docs/not_executed.toml"
            for block, file, before in self.written
            if file not in self.shell.imported and self.shell.programs == before
        ]
        for block in self.waiting:
            try:
                self._validate(str(block.title), block.where)
            except AssertionError as problem:
                problems.append(str(problem))
        return problems

    def _type(self, block: Block, step: Step) -> None:
        printed = self.shell.run(step.command, shown=step.shown)
        if not step.shown.strip() and self.shell.code != 0:
            raise AssertionError(f"$ {step.command}\nended with {self.shell.code}:\n{printed}")
        if step.shown.strip() and not fits(printed, step.shown):
            self.done.corrections.append((step, printed))
            self.done.problems.append(
                f"{block.page}:{step.start}: $ {step.command}\nprints\n{_indented(printed)}\nthe page shows\n"
                f"{_indented(step.shown)}"
            )

    def _write(self, block: Block) -> str:
        assert block.title is not None
        file = self.shell.folder / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")
        parsed = _parse(block)
        if block.language == "python":
            self.written.append((block, file, self.shell.programs))
        if file.name == "pyproject.toml":
            read_settings(file.parent, {})
        elif block.language == "yaml":
            assert {"suite", "scenarios", "id"} & set(parsed), (
                "no suite, so nothing runs it; add it to tests/docs/not_executed.toml"
            )
            self.waiting.append(block)
        elif block.language == "js":
            return self._check_js(file)
        return EXECUTED

    def _fragment(self, block: Block) -> str:
        """Check a block that is neither a file nor a command: run Python, complete and validate YAML."""
        if block.language == "python":
            self.shell.execute(block.text, block.where, self.namespace)
            return EXECUTED
        if block.language == "yaml":
            file = self.shell.folder / "fragment.yaml"
            file.write_text(_complete(block), encoding="utf-8")
            self._validate("fragment.yaml", "this fragment")
            file.unlink()
            return CHECKED
        if block.language == "json":
            _parse(block)
            return CHECKED
        raise AssertionError(
            f"a block of {block.language or 'no language'!r} that is no file, no `console`, and not on the list: "
            'give it a title="…", begin its commands with $, or add it to tests/docs/not_executed.toml'
        )

    def _validate(self, name: str, what: str) -> None:
        printed = self.shell.run(f"seatrial validate {name}")
        assert self.shell.code == 0, f"{what} is not valid:\n{printed}"

    def _check_js(self, file: Path) -> str:
        node = shutil.which("node")
        if node is not None:
            subprocess.run([node, "--check", str(file)], check=True, capture_output=True)
        return EXECUTED if node is not None else CHECKED


def _parse(block: Block) -> Any:
    """The block as data, where its language is data. Raises an error if it is not valid in its language."""
    if block.language == "yaml":
        return yaml.safe_load(block.text)
    if block.language == "json":
        return json.loads(block.text)
    if block.language == "toml":
        return tomllib.loads(block.text)
    if block.language == "python":
        compile(block.text, block.where, "exec")
    return None


def _complete(block: Block) -> str:
    """The fragment as a complete file: with a suite, a scenario or a user added as needed."""
    keys = list(yaml.safe_load(block.text))
    if "id" in keys or "scenarios" in keys:
        return block.text
    if set(keys) <= set(FILE.keys):
        return f"{block.text}\nscenarios: [{{name: a, input: b}}]\n"
    if set(keys) <= set(SCENARIO.keys):
        side = "" if {"input", "turns", "user"} & set(keys) else "    input: hello\n"
        name = "" if "name" in keys else "    name: fragment\n"
        body = re.sub(r"(?m)^(?=.)", "    ", block.text)
        return f"scenarios:\n  -\n{name}{side}{body}"
    unknown = sorted(set(keys) - set(SCENARIO.keys) - set(SUITE.keys))
    raise AssertionError(f"neither a suite nor keys of a scenario: {', '.join(unknown)}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip("\n").splitlines())


def plain_environ() -> dict[str, str]:
    """The environment of a reader: nothing of ours, no key, no colour."""
    models = ("OPENAI_", "ANTHROPIC_", "OLLAMA_", "AWS_")
    ours = (*models, "SEATRIAL_", "GITHUB_", "GITLAB_", "PYTEST_", "COV_", "COVERAGE_", "CI")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {"NO_COLOR": "1"}


def title_of(page: Path) -> str:
    return name_of(page).removesuffix(".md").replace("/", "-").lower()
