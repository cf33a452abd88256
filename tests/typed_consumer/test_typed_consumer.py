"""A user's project in strict mode: type checkers accept what is right and report what is wrong, line by line."""

import ast
import json
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import seatrial
from seatrial import UsageError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CORRECT, MISTAKES = HERE / "correct.py", HERE / "mistakes.py"
LINES = MISTAKES.read_text(encoding="utf-8").splitlines()
EXPECTED = {(MISTAKES.name, number) for number, line in enumerate(LINES, 1) if line.endswith("# mistake")}
OF_EVALUATORS = [
    line for line in LINES if re.match(r"(Contains|Exact|Regex|Tool|Trajectory|Judge|Limits)\w*\([^\n]*\)  #", line)
]


def output_of(*command: str) -> str:
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_mypy_finds_the_mistakes_and_no_others() -> None:
    # With the settings of the project, which are strict: then the cache of its own check is used.
    report = output_of("mypy", str(CORRECT), str(MISTAKES))

    assert {(Path(name).name, int(line)) for name, line in re.findall(r"^(.+?):(\d+): error", report, re.M)} == EXPECTED


def test_pyright_finds_the_mistakes_and_no_others() -> None:
    report = output_of("pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(HERE))

    found = json.loads(report)["generalDiagnostics"]
    assert {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in found} == EXPECTED


def test_the_consumer_uses_every_public_name() -> None:
    imported = [
        alias.name
        for node in ast.walk(ast.parse(CORRECT.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "seatrial"
        for alias in node.names
    ]
    assert imported == seatrial.__all__


def test_the_consumer_runs() -> None:
    spec = spec_from_file_location("typed_consumer", CORRECT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)

    assert len(module.by_position) == len(module.by_keyword) == 12


@pytest.mark.parametrize("line", OF_EVALUATORS)
def test_a_wrong_argument_of_an_evaluator_is_a_usage_error(line: str) -> None:
    with pytest.raises(UsageError, match=r"^[\w.\[\]]+( has no |: )"):
        exec(line, vars(seatrial) | {name: getattr(seatrial, name) for name in seatrial.__all__})
