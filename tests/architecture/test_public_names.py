"""The public names of `seatrial`: they exist, they are few, and importing them is cheap."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import seatrial

LOADED = """
import json, sys
before = set(sys.modules)
{work}
print(json.dumps(sorted(set(sys.modules) - before)), file=sys.__stdout__)
"""


def loaded_by(work: str, folder: Path) -> set[str]:
    """The modules that a new Python process has loaded after it ran the code."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(work=work)], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def third_parties(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"seatrial"}


def test_importing_seatrial_loads_no_third_party_and_no_package_of_ours(tmp_path: Path) -> None:
    loaded = loaded_by("import seatrial", tmp_path)

    assert third_parties(loaded) == set()
    assert {name for name in loaded if name.startswith("seatrial")} == {"seatrial"}
    assert "asyncio" not in loaded


def test_a_plain_run_loads_no_package_that_it_does_not_use(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(input): return 'ok'\n")
    (tmp_path / "one.yaml").write_text("suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x}]\n")
    work = (
        "from seatrial.cli import main\ntry: main(['run', 'one.yaml'])\nexcept SystemExit as end: assert end.code == 0"
    )

    loaded = loaded_by(work, tmp_path)

    unused = {"httpx2", "httpx", "pydantic_ai", "openai", "rich", "jinja2", "psycopg", "numpy"}
    assert third_parties(loaded) & unused == set()


def test_there_are_at_most_forty_one_public_names_and_four_aliases() -> None:
    objects = {id(getattr(seatrial, name)) for name in seatrial.__all__}

    assert len(objects) <= 41
    assert len(seatrial.__all__) - len(objects) == 4


def test_every_public_name_exists() -> None:
    assert [name for name in seatrial.__all__ if getattr(seatrial, name, None) is None] == []


def checked_imports(file: Path) -> dict[str, str]:
    """Name -> module, for every import under TYPE_CHECKING."""
    found = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If):
            for inner in node.body:
                assert isinstance(inner, ast.ImportFrom)
                module = f"{'.' * inner.level}{inner.module}"
                found |= {alias.asname or alias.name: module for alias in inner.names}
    return found


def test_type_checkers_see_the_public_names() -> None:
    seen = checked_imports(Path(seatrial.__file__))

    assert set(seen) == set(seatrial.__all__)
    for name, module in seen.items():
        assert getattr(seatrial, name) is getattr(import_module(module), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(seatrial, "Nope")


def test_the_promised_names_are_public() -> None:
    named = """
        Suite Scenario Turn User ToolCall AgentResult run load compare PassFail Exact Regex Similarity
        Contains ToolCalls ToolArgs Trajectory Judge Limits JsonSchema Evaluator EvalResult
        ContainsEvaluator ToolCallEvaluator ToolCallArgsEvaluator JudgeEvaluator
        TurnContext TrialContext evaluator ToolError UsageError arun
    """

    assert set(named.split()) <= set(seatrial.__all__)
