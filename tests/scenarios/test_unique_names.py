"""Names taken twice, also in files too large to hold."""

import json
import tracemalloc

import pytest

from seatrial.scenarios import cross_checks as unique_names
from seatrial.scenarios import suite_files as jsonl_files
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems


@pytest.fixture(autouse=True)
def _large_from_the_second_line_on(monkeypatch):
    monkeypatch.setattr(jsonl_files, "KEEP", 2)


def _jsonl(tmp_path, file: str, given, *, suite: str = "s"):
    lines = [{"suite": {"name": suite}}, *(line if isinstance(line, dict) else {"name": line} for line in given)]
    path = tmp_path / file
    path.write_text("\n".join(json.dumps({"input": "x", **line} if "suite" not in line else line) for line in lines))
    return path


def _yaml(tmp_path, file: str, given):
    path = tmp_path / file
    path.write_text(f"suite: {{name: s}}\nscenarios: {json.dumps([{'name': name, 'input': 'x'} for name in given])}\n")
    return path


def _refusal(*paths) -> list[str]:
    with pytest.raises(FileProblems) as refused:
        load(paths)
    return [f"{problem.file}:{problem.line}: {problem.message}" for problem in refused.value.problems]


def _taken(place, name, by) -> str:
    return f"{place}: the name {name!r} is taken in the suite 's' by {by}"


def test_each_name_that_a_large_file_gives_twice_is_told_with_both_places(tmp_path):
    path = _jsonl(tmp_path, "many.jsonl", ["a", "b", "c", "d", "e", "d", "f", "a", "d"])
    assert _refusal(path) == [
        _taken(f"{path}:7", "d", f"{path}:5"),
        _taken(f"{path}:9", "a", f"{path}:2"),
        _taken(f"{path}:10", "d", f"{path}:5"),
    ]


def test_lines_that_are_wrong_have_no_name_in_a_large_file(tmp_path):
    path = _jsonl(tmp_path, "many.jsonl", ["a", "b", "c", {"name": "d", "inputt": "x"}, "d", "e", "d"])
    wrong, twice = _refusal(path)
    assert "inputt" in wrong
    assert twice == _taken(f"{path}:8", "d", f"{path}:6")


def test_rows_of_one_line_may_not_have_the_same_name_in_a_large_file(tmp_path):
    rows = {"name": "row", "input": "{word}", "examples": [{"id": 1, "word": "x"}, {"id": 1, "word": "y"}]}
    path = _jsonl(tmp_path, "many.jsonl", ["a", "b", "c", rows])
    assert _refusal(path) == [_taken(f"{path}:5", "row[1]", f"{path}:5")]


def test_a_small_file_after_a_large_one_may_not_take_its_names(tmp_path):
    large = _jsonl(tmp_path, "a.jsonl", ["a", "b", "c", "d"])
    small = _yaml(tmp_path, "b.yaml", ["e", "d"])
    assert _refusal(large, small) == [_taken(f"{small}:2", "d", f"{large}:5")]


def test_a_large_file_after_a_small_one_may_not_take_its_names(tmp_path):
    small = _yaml(tmp_path, "a.yaml", ["e", "d"])
    large = _jsonl(tmp_path, "b.jsonl", ["a", "b", "c", "d"])
    assert _refusal(small, large) == [_taken(f"{large}:5", "d", f"{small}:2")]


def test_two_large_files_of_one_suite_may_not_share_a_name(tmp_path):
    one = _jsonl(tmp_path, "a.jsonl", ["a", "b", "c", "d"])
    two = _jsonl(tmp_path, "b.jsonl", ["e", "f", "g", "h", "d", "c"])
    assert _refusal(one, two) == [
        _taken(f"{two}:6", "d", f"{one}:5"),
        _taken(f"{two}:7", "c", f"{one}:4"),
    ]


def test_two_large_files_of_different_suites_may_share_names(tmp_path):
    files = [_jsonl(tmp_path, f"{name}.jsonl", ["a", "b", "c", "d"], suite=name) for name in ("one", "two")]
    assert [suite.count for suite in load(files)] == [4, 4]


def test_different_names_with_the_same_hash_are_different(tmp_path, monkeypatch):
    monkeypatch.setattr(unique_names, "hash", lambda name: 7, raising=False)
    path = _jsonl(tmp_path, "many.jsonl", ["a", "b", "c", "d", "e", "f", "d"])
    assert _refusal(path) == [_taken(f"{path}:8", "d", f"{path}:5")]


def test_a_group_knows_the_names_of_a_large_file(tmp_path):
    path = _jsonl(tmp_path, "many.jsonl", ["a", "b", "c", "door"])
    lines = path.read_text().splitlines()
    lines[0] = json.dumps({"suite": {"name": "s", "groups": [{"name": "g", "must_pass": ["door"]}]}})
    path.write_text("\n".join(lines))
    assert load(path)[0].count == 4
    path.write_text("\n".join(lines).replace('["door"]', '["doors"]'))
    with pytest.raises(
        FileProblems, match=r"must_pass names 'doors', but no scenario has that name.*Did you mean 'door'"
    ):
        load(path)


def test_loading_a_large_file_takes_less_memory_than_its_names(tmp_path):
    def peak(count: int) -> int:
        path = _jsonl(
            tmp_path, "many.jsonl", [f"{'a name that is rather long ' * 20}{number}" for number in range(count)]
        )
        tracemalloc.start()
        try:
            load(path)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    grown = (peak(5_000) - peak(1_000)) / 4_000
    assert grown < 300, f"{grown:.0f} bytes for each further scenario; its name has 570"
