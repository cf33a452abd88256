"""Evaluators of the user's own: found per suite, registered nowhere."""

import pytest

from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems

MODULE = """
from seatrial.evaluators.passfail import PassFail
from seatrial.evaluators.registry import evaluator
from seatrial.model.protocols import Evaluator

@evaluator
def polite(ctx):
    return True

class IsShort:
    async def evaluate(self, ctx): ...

class Named:
    name = "by_its_name"
    async def evaluate(self, ctx): ...

class NotOne:
    def evaluate(self, ctx): ...
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    (tmp_path / "own_checks_here.py").write_text(MODULE)
    (tmp_path / "no_checks_here.py").write_text("x = 1\n")
    (tmp_path / "broken_checks_here.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)


def _load(tmp_path, suite: str, scorers: str):
    path = tmp_path / "suite.yaml"
    path.write_text(f"suite: {suite}\nscenarios: [{{name: a, input: x, scorers: {scorers}}}]\n")
    return load(path)


@pytest.mark.usefixtures("modules")
def test_scorers_may_name_what_the_suites_modules_define(tmp_path):
    [suite] = _load(tmp_path, "{evaluators: [own_checks_here]}", "[polite, is_short, by_its_name]")
    assert sorted(suite.evaluators) == ["by_its_name", "is_short", "polite"]


@pytest.mark.parametrize("name", ["passfail", "regex", "judge"])
def test_an_evaluator_with_the_name_of_a_built_in_one_is_refused(tmp_path, monkeypatch, name):
    text = f"from seatrial import evaluator\n@evaluator(name='{name}')\ndef strict(ctx): return False\n"
    (tmp_path / f"checks_named_{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FileProblems, match=f"the evaluator '{name}' has the name of a built-in evaluator"):
        _load(tmp_path, f"{{evaluators: [checks_named_{name}]}}", "[passfail]")


@pytest.mark.usefixtures("modules")
def test_a_suite_that_lists_no_module_knows_none_of_them(tmp_path):
    _load(tmp_path, "{evaluators: [own_checks_here]}", "[polite]")
    with pytest.raises(FileProblems, match="unknown scorer 'polite'"):
        _load(tmp_path, "{}", "[polite]")


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("no_checks_here", r":1:22: suite.evaluators\[0\]: the module 'no_checks_here' defines no evaluator"),
        ("broken_checks_here", "cannot import 'broken_checks_here': ZeroDivisionError: division by zero"),
        ("missing_checks_here", "cannot import 'missing_checks_here': ModuleNotFoundError"),
    ],
)
def test_a_module_without_evaluators_is_a_problem(module, said, tmp_path):
    with pytest.raises(FileProblems, match=said):
        _load(tmp_path, f"{{evaluators: [{module}]}}", "[passfail]")


@pytest.mark.usefixtures("modules")
def test_installed_packages_may_bring_evaluators(tmp_path, monkeypatch):
    info = tmp_path / "own_checks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-checks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[seatrial.evaluators]\nall = own_checks_here\nshort = own_checks_here:IsShort\n"
    )
    [suite] = _load(tmp_path, "{}", "[polite, short]")
    assert {"polite", "short", "by_its_name"} <= suite.evaluators.keys()
