"""JSON and JSONL, as strict as YAML."""

import json

import pytest

from seatrial.errors import UsageError
from seatrial.scenarios import suite_files as jsonl_files
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems


def _write(tmp_path, name: str, text: str | bytes):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _refusal(path) -> str:
    with pytest.raises(FileProblems) as refused:
        load(path)
    return str(refused.value).replace(f"{path}:", "")


def test_a_json_file_has_the_keys_of_a_yaml_file(tmp_path):
    path = _write(tmp_path, "suite.json", '{"suite": {"name": "s"},\n "scenarios": [\n  {"name": "a", "input": "x"}]}')
    [suite] = load(path)
    assert suite.name == "s"
    assert [scenario.source for scenario in suite.scenarios] == [f"{path}:3"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"scenarios": [\n {"name": "a", "inputt": "x"}]}', "2:16: scenarios[0].inputt: unknown key 'inputt'"),
        ('{"scenarios": [\n {"name": "a", "input": 5}]}', "2:25: scenarios[0].input: expected a string"),
        (
            '{"scenarios": [{"name": "a",\n "input": "x", "input": "y"}]}',
            "2:16: scenarios[0].input: the key 'input' is",
        ),
        ('{"a": 1,}', "not JSON"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": ' + "9" * 5000 + "}", "a number with too many digits"),
        ("[" * 100_000, "nested more than 100 levels deep"),
        ("[" * 200 + "]" * 200, "nested more than 100 levels deep"),
        ("", "not JSON"),
        ("5", "expected a mapping with 'scenarios', got 5"),
        (b'{"a": "\xff"}', "1:8: not UTF-8"),
    ],
)
def test_a_wrong_json_file_is_refused_at_its_place(text, said, tmp_path):
    assert said in _refusal(_write(tmp_path, "suite.json", text))


def test_brackets_inside_texts_are_no_nesting(tmp_path):
    text = json.dumps({"scenarios": [{"name": "a", "input": "[{" * 300}]})
    assert load(_write(tmp_path, "suite.json", text))[0].count == 1


def test_a_line_of_jsonl_is_a_scenario_and_the_first_may_be_the_suite(tmp_path):
    lines = [
        '{"suite": {"name": "s", "tags": ["t"]}}',
        "",
        '{"name": "a", "input": "x"}',
        '{"name": "b", "input": "y"}',
    ]
    path = _write(tmp_path, "suite.jsonl", "\r\n".join(lines))
    [suite] = load(path)
    assert (suite.name, suite.count) == ("s", 2)
    assert [(each.name, each.source, each.tags) for each in suite.scenarios] == [
        ("a", f"{path}:3", ("t",)),
        ("b", f"{path}:4", ("t",)),
    ]


def test_all_wrong_lines_of_jsonl_are_told(tmp_path):
    lines = [b'{"name": "a", "inputt": "x"}', b"{", b'{"name": "c", "input": "\xff"}', b'{"name": "", "name": "d"}']
    said = _refusal(_write(tmp_path, "suite.jsonl", b"\n".join(lines)))
    assert "1:15: inputt: unknown key" in said
    assert "2:2: not JSON" in said
    assert "3:25: not UTF-8" in said
    assert "4:14: name: the key 'name' is given twice; first at line 4, column 2" in said


def test_a_suite_line_further_down_is_a_mistake(tmp_path):
    said = _refusal(_write(tmp_path, "suite.jsonl", '{"name": "a", "input": "x"}\n{"suite": {}}'))
    assert "2:2: suite: unknown key 'suite'" in said


@pytest.mark.parametrize("text", ["", "\n\n", '{"suite": {"name": "s"}}'])
def test_a_jsonl_file_without_scenarios_is_refused(text, tmp_path):
    assert "nothing would run" in _refusal(_write(tmp_path, "suite.jsonl", text))


def test_a_name_given_twice_in_jsonl_is_refused(tmp_path):
    path = _write(tmp_path, "suite.jsonl", '{"name": "a", "input": "x"}\n{"name": "a", "input": "y"}')
    assert "2:10: name: the name 'a' is taken" in _refusal(path)


def test_a_large_jsonl_file_is_read_again_each_time(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl_files, "KEEP", 2)
    lines = ['{"suite": {"config": {"retries": 2}}}', *(f'{{"name": "n{i}", "input": "x"}}' for i in range(5))]
    path = _write(tmp_path, "suite.jsonl", "\n".join(lines))
    [suite] = load(path)
    assert suite.count == 5
    assert (
        [each.name for each in suite.scenarios]
        == [each.name for each in suite.scenarios]
        == [f"n{i}" for i in range(5)]
    )
    assert [each.retries for each in suite.scenarios] == [2] * 5


def test_a_large_jsonl_file_that_was_changed_meanwhile_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonl_files, "KEEP", 0)
    path = _write(tmp_path, "suite.jsonl", '{"name": "a", "input": "x"}')
    [suite] = load(path)
    for changed in ('{"name": "a"}', "{"):
        path.write_text(changed)
        with pytest.raises(UsageError, match="changed after it was checked"):
            list(suite.scenarios)
