"""Evaluators of the user's own: found per suite, registered nowhere."""

import sys

import pytest

from seatrial import UsageError, run
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

class Plain:
    def evaluate(self, ctx): ...

class NotOne:
    evaluate = None
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
    [suite] = _load(tmp_path, "{evaluators: [own_checks_here]}", "[polite, is_short, by_its_name, plain]")
    assert sorted(suite.evaluators) == ["by_its_name", "is_short", "plain", "polite"]


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


PACKAGE = """
from seatrial import EvalResult, evaluator

@evaluator
def polite(ctx):
    return "please" in ctx.reply

class Mentions:
    def __init__(self, word):
        self.word = word

    def evaluate(self, ctx):
        return EvalResult(passed=self.word in ctx.reply, reasoning=f"looked for {self.word}")

def short(ctx):
    return len(ctx.reply) < 20, "too long"

number = 5
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package that names these evaluators as its entry points."""

    def install(entry_points: str, name: str = "own_checks") -> None:
        site = tmp_path / "site"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / f"{name}.py").write_text(PACKAGE)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[seatrial.evaluators]\n{entry_points}\n")
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return install


@pytest.mark.parametrize(
    ("scorer", "passes"),
    [
        ("polite", True),
        ("brief", True),
        ("{has: {word: name}}", True),
        ("{has: {word: refund}}", False),
        ("short", True),
    ],
)
def test_evaluators_of_an_installed_package_decide(tmp_path, install, scorer, passes):
    install("polite = own_checks:polite\nbrief = own_checks:short\nhas = own_checks:Mentions\nshort = own_checks:short")
    _load(tmp_path, "{}", f"[{scorer}]")

    report = run(tmp_path / "suite.yaml", agent=lambda input: "Your name, please?", store=None)

    assert report.passed is passes
    assert {result.error for trial in report.trials("a") for result in trial.results} == {None}


def test_a_module_as_entry_point_brings_all_its_evaluators(tmp_path, install):
    install("all = own_checks")
    [suite] = _load(tmp_path, "{}", "[polite, {mentions: {word: x}}]")
    assert set(suite.evaluators) == {"polite", "mentions"}


@pytest.mark.parametrize(
    ("entry_point", "problem"),
    [
        ("regex = own_checks:polite", "the package 'own_checks' has an evaluator 'regex', but that name is built in"),
        (
            "polite = own_checks:absent",
            "the entry point 'own_checks:absent' of seatrial.evaluators fails: ",
        ),
        ("polite = own_checks:number", "the entry point 'own_checks:number' of seatrial.evaluators is no evaluator"),
    ],
)
def test_a_package_whose_entry_point_cannot_be_used_is_named(tmp_path, install, entry_point, problem):
    install(entry_point)
    with pytest.raises(UsageError, match=problem):
        _load(tmp_path, "{}", "[polite]")


def test_two_packages_with_an_evaluator_of_one_name_are_refused(tmp_path, install):
    install("polite = own_checks:polite")
    install("polite = more_checks:short", name="more_checks")
    with pytest.raises(UsageError, match="has an evaluator 'polite', and so has another package"):
        _load(tmp_path, "{}", "[polite]")


def test_packages_are_not_searched_for_built_in_evaluators(tmp_path, install):
    install("regex = own_checks:polite")
    [suite] = _load(tmp_path, "{}", "[passfail, {regex: a}]")
    assert suite.evaluators == {}
