"""Scenarios written in Python, by the same rules as files."""

import pytest

from seatrial.model.scenario import Expect, Scenario, Suite, Turn
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems

HEAD = "from seatrial.model.scenario import Expect, Scenario, Suite, SuiteConfig, Turn, User\n"


def _write(tmp_path, text: str, name: str = "shop_trials.py"):
    path = tmp_path / name
    path.write_text(HEAD + text, "utf-8")
    return path


def _refusal(path) -> str:
    with pytest.raises(FileProblems) as refused:
        load(path)
    return str(refused.value).replace(f"{path}:", "")


def test_scenarios_alone_or_in_lists_make_a_suite_named_after_the_file(tmp_path):
    text = "one = Scenario(name='a', input='x')\nmore = [Scenario(name='b', input='x'), one]\n"
    [suite] = load(_write(tmp_path, text))
    assert (suite.name, [each.name for each in suite.scenarios]) == ("shop_trials", ["a", "b"])


def test_scenarios_in_mappings_and_in_lists_of_lists_are_not_left_out(tmp_path):
    text = "one = Scenario(name='a', input='x')\nby_name = {'b': Scenario(name='b', input='x'), 'a': one}\n"
    text += "by_team = {'shop': [[Scenario(name='c', input='x')]]}\nround = [one]\nround.append(round)\n"
    [suite] = load(_write(tmp_path, text))
    assert [each.name for each in suite.scenarios] == ["a", "b", "c"]


def test_a_suite_takes_its_scenarios_and_leaves_the_others(tmp_path):
    text = (
        "a = Scenario(name='a', input='x')\nshop = Suite(name='shop', scenarios=[a], config=SuiteConfig(retries=2))\n"
    )
    text += "b = Scenario(name='b', input='x')\n"
    suites = load(_write(tmp_path, text))
    assert [(suite.name, [(each.name, each.retries) for each in suite.scenarios]) for suite in suites] == [
        ("shop", [("a", 2)]),
        ("shop_trials", [("b", 0)]),
    ]


def test_functions_may_stand_where_files_have_data(tmp_path):
    text = (
        "async def check(ctx): ...\n"
        "def user(conversation): ...\n"
        "def search(args, ctx): ...\n"
        "class Polite:\n    async def evaluate(self, ctx): ...\n"
        "a = Scenario(name='a', user=user, mocks={'search': search}, setup=search, teardown=search,\n"
        "             scorers=[Polite(), 'passfail'], expect=Expect(evaluators=[check]))\n"
        "s = Suite(name='s', scenarios=[a], agent=user, agents=None)\n"
    )
    [suite] = load(_write(tmp_path, text))
    [scenario] = suite.scenarios
    assert callable(scenario.user)
    assert callable(scenario.mocks["search"])
    assert callable(scenario.expect.evaluators[0])
    assert callable(suite.suite.agent)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = Scenario(name='a', input=5)", "scenario 'a': input: expected a string, got 5"),
        ("a = Scenario(name='a')", "scenario 'a': the user's side is missing"),
        ("a = Scenario(name='', input='x')", "scenario '': name: expected a text"),
        ("a = Scenario(name='a', input='x', expected_tools='f')", "expected_tools: expected a list of strings"),
        ("a = Scenario(name='a', input='x', scorers=[])", "scorers: the list is empty"),
        ("a = Scenario(name='a', input='x', scorers=['nope'])", "scorers[0]: unknown scorer 'nope'"),
        ("a = Scenario(name='a', input='x', trials=True)", "trials: expected a whole number"),
        (
            "a = Scenario(name='a', turns=[Turn(user='x', expect=Expect(reply_contains_any=[]))])",
            "turns[0].expect.reply",
        ),
        ("a = Scenario(name='a', user=User(goal='g'))", "scenario 'a': nothing is asserted"),
        ("a = Scenario(name='a', input='x')\nb = Scenario(name='a', input='y')", "the name 'a' is taken"),
        ("s = Suite(name='s')", "suite 's': scenarios: expected a list of at least one Scenario"),
        ("s = Suite(name='s', scenarios=[5])", "scenarios[0]: expected a Scenario, got 5"),
        (
            "s = Suite(name='s', scenarios=[Scenario(name='a', input='x')], agents={})",
            "suite 's': agents: the mapping is empty",
        ),
        ("x = 5", "there is no Scenario or Suite at the top level"),
    ],
)
def test_python_objects_are_checked_as_files_are(text, said, tmp_path):
    assert said in _refusal(_write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nimport no_such_module_here\n", "3: cannot be imported: ModuleNotFoundError: No module named"),
        ("\n\ndef f():\n    1 / 0\nf()\n", "5: cannot be imported: ZeroDivisionError: division by zero"),
        ("\nraise SystemExit(0)\n", "3: cannot be imported: SystemExit: 0"),
        ("\nx = = 1\n", "3: cannot be imported: SyntaxError: invalid syntax"),
        ("\na = Scenario(nme='a')\n", "3: cannot be imported: UsageError: Scenario has no 'nme'. Did you mean 'name'?"),
    ],
)
def test_a_file_that_fails_to_import_says_where_and_why(text, said, tmp_path):
    assert said in _refusal(_write(tmp_path, text))


def test_a_file_named_by_a_relative_path_tells_the_line_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, "x = = 1\n")
    with pytest.raises(FileProblems, match=r"^shop_trials\.py:2: cannot be imported: SyntaxError"):
        load("shop_trials.py")


def test_a_file_can_import_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "neighbour_of_trials.py").write_text("GREETING = 'hi'\n")
    path = _write(tmp_path, "from neighbour_of_trials import GREETING\na = Scenario(name='a', input=GREETING)\n")
    assert [each.input for each in load(path)[0].scenarios] == ["hi"]


def test_a_module_is_found_by_its_name(tmp_path, monkeypatch):
    _write(tmp_path, "a = Scenario(name='a', input='x')\n", "named_trials_module.py")
    monkeypatch.syspath_prepend(tmp_path)
    [suite] = load("named_trials_module")
    assert (suite.name, suite.count) == ("named_trials_module", 1)


def test_objects_can_be_loaded_as_they_are():
    alone = Scenario(name="a", turns=[Turn(user="x", expect=Expect(reply_contains_any=["y"]))])
    [suite, loose] = load([Suite(name="s", scenarios=[Scenario(name="b", input="x")]), alone])
    assert (suite.name, loose.name) == ("s", "scenarios")
    assert [each.turns[0].expect.reply_contains_any for each in loose.scenarios] == [("y",)]


def test_rows_and_defaults_hold_for_python_too():
    [suite] = load(Scenario(name="a", input="{q}", examples=[{"q": "x"}, {"q": "y"}]))
    assert [(each.name, each.trials) for each in suite.scenarios] == [("a[1]", 1), ("a[2]", 1)]


def test_mappings_may_stand_for_objects():
    [suite] = load(Scenario(name="a", turns=[{"user": "x", "expect": {"reply_contains_any": ["y"]}}]))
    assert [each.turns for each in suite.scenarios] == [(Turn(user="x", expect=Expect(reply_contains_any=("y",))),)]
