"""Which files the given paths stand for."""

import pytest

from seatrial import Scenario
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems

ONE = "scenarios: [{name: a, input: x}]\n"


def test_a_folder_is_taken_with_its_folders_in_the_order_of_names(tmp_path):
    for name in ("b.yaml", "a/z.yml", "a/a.jsonl", "c_trials.py", "d.trial.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        text = ONE
        if name.endswith(".jsonl"):
            text = '{"name": "a", "input": "x"}'
        elif name.endswith(".json"):
            text = '{"scenarios": [{"name": "a", "input": "x"}]}'
        elif name.endswith(".py"):
            text = "from seatrial.model.scenario import Scenario\na = Scenario(name='a', input='x')\n"
        path.write_text(text)
    assert [suite.name for suite in load(tmp_path)] == ["a", "z", "b", "c_trials", "d.trial"]


def test_a_json_file_of_scenarios_is_taken_and_other_json_is_left_alone(tmp_path):
    (tmp_path / "a.yaml").write_text(ONE)
    (tmp_path / "b.json").write_text('{\n  "scenarios": [{"name": "a", "input": "x"}]\n}')
    (tmp_path / "c.json").write_text('{"suite": {"name": "shop"}, "scenarios": [{"name": "a", "input": "x"}]}')
    for name, text in (("data.json", '{"rows": [{"suite": 1}]}'), ("list.json", '["scenarios"]'), ("empty.json", "")):
        (tmp_path / name).write_text(text)
    assert [suite.name for suite in load(tmp_path)] == ["a", "b", "shop"]


def test_an_ending_in_capitals_is_an_ending(tmp_path):
    (tmp_path / "a.yaml").write_text(ONE)
    (tmp_path / "B.YAML").write_text(ONE)
    assert [suite.name for suite in load(tmp_path)] == ["B", "a"]


def test_hidden_and_foreign_things_in_a_folder_are_left_alone(tmp_path):
    (tmp_path / "a.yaml").write_text(ONE)
    for name in (
        ".hidden.yaml",
        ".seatrial/x.yaml",
        "node_modules/x.yaml",
        ".venv/x.yaml",
        "package.json",
        "conftest.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("not: a suite\n")
    assert [suite.name for suite in load(tmp_path)] == ["a"]


def test_linked_folders_are_taken_too_and_a_link_that_leads_back_does_no_harm(tmp_path):
    for name in ("suite/a.yaml", "shared/b.yaml"):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(ONE)
    (tmp_path / "suite/shared").symlink_to(tmp_path / "shared")
    (tmp_path / "shared/back").symlink_to(tmp_path / "suite")
    assert [suite.name for suite in load(tmp_path / "suite")] == ["a", "b"]


def test_a_yaml_file_in_a_folder_that_is_no_suite_is_a_problem(tmp_path):
    (tmp_path / "a.yaml").write_text(ONE)
    (tmp_path / "settings.yaml").write_text("debug: true\n")
    with pytest.raises(FileProblems) as refused:
        load(tmp_path)
    assert "settings.yaml:1:1: debug: unknown key 'debug'" in str(refused.value)
    assert "'scenarios' is missing" in str(refused.value)


def test_a_file_that_is_named_twice_is_loaded_once(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(ONE)
    assert len(load([path, tmp_path, str(path)])) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.yaml", "there is no such file, folder or module. See what is there: seatrial list"),
        (
            "empty",
            "no scenario file in this folder: *.yaml, *.yml, *.jsonl, *.json of scenarios and *_trials.py. "
            "Make a first one: seatrial init",
        ),
        ("notes.txt", "expected a folder or a file of .yaml, .yml, .json, .jsonl, .py, got '.txt'"),
        ("no_such_module_here", "there is no such file, folder or module. See what is there: seatrial list"),
    ],
)
def test_a_path_that_leads_nowhere_is_a_usage_error(name, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(FileProblems) as refused:
        load(name)
    assert str(refused.value) == f"{name}: {said}"


def test_no_path_at_all_is_a_usage_error():
    with pytest.raises(FileProblems, match="nothing is given to load"):
        load([])


@pytest.mark.parametrize("given", [{"name": "a"}, [Scenario(name="a", input="x"), {"name": "b"}], None, 5])
def test_what_can_not_be_loaded_is_told_and_not_left_out(given):
    with pytest.raises(FileProblems, match="expected a path, a Suite or a Scenario, got"):
        load(given)


def test_places_are_told_by_the_path_that_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("scenarios: [{name: a, inputt: x}]\n")
    with pytest.raises(FileProblems) as refused:
        load("a.yaml")
    assert str(refused.value) == "a.yaml:1:23: scenarios[0].inputt: unknown key 'inputt'. Did you mean 'input'?"


def test_a_foreign_transcript_with_sound_is_refused_by_name(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("id: t\nturns:\n  - user: hi\n    audio: hi.wav\n")
    with pytest.raises(FileProblems, match=r":4:5: turns\[0\].audio: 'audio' is not supported"):
        load(path)


def test_a_foreign_transcript_becomes_one_scenario(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        "id: t\nruns: 5\nthreshold: 0.6\ntags: [x]\nturns:\n  - user: hi\n    expect: {judge: {rubric: Good.}}\n"
    )
    [scenario] = load(path)[0].scenarios
    assert (scenario.name, scenario.trials, scenario.threshold, scenario.tags) == ("t", 5, 0.6, ("x",))
    assert scenario.turns[0].expect.judge.rubric == "Good."
