"""Environment variables in agent settings, and nowhere else."""

import pytest

from seatrial.errors import UsageError
from seatrial.scenarios.load import load
from seatrial.scenarios.problems import FileProblems
from seatrial.scenarios.suite_reader import fill_environment


def test_variables_and_defaults_are_filled_at_any_depth():
    spec = {"headers": {"Authorization": "Bearer ${KEY}"}, "argv": ["${SHELL_NAME:-sh}", "${EMPTY:-x}", "$HOME", 5]}
    filled = fill_environment(spec, {"KEY": "s3cret", "EMPTY": ""})
    assert filled == {"headers": {"Authorization": "Bearer s3cret"}, "argv": ["sh", "x", "$HOME", 5]}


def test_an_empty_default_is_a_default():
    assert fill_environment("a${NONE:-}b", {}) == "ab"


def test_a_value_is_not_filled_again():
    assert fill_environment("${A}", {"A": "${B}", "B": "c"}) == "${B}"


def test_every_variable_that_is_not_set_is_named():
    with pytest.raises(UsageError) as refused:
        fill_environment({"url": "${HOST}", "headers": {"X": "${TOKEN}"}}, {})
    assert "'HOST'" in str(refused.value)
    assert "headers.X: the environment variable 'TOKEN' is not set" in str(refused.value)


FILE = "suite: {agent: {type: openai, base_url: '${KEY}'}}\nscenarios: [{name: a, input: 'say ${KEY}'}]\n"


def test_a_variable_that_is_not_set_is_a_problem_of_the_file(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(FILE)
    with pytest.raises(FileProblems, match=r":1:41: suite.agent.base_url: the environment variable 'KEY' is not set"):
        load(path, environ={})


def test_the_file_keeps_what_was_written_so_that_no_secret_is_stored(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(FILE)
    [suite] = load(path, environ={"KEY": "s3cret"})
    assert suite.suite.agent == {"type": "openai", "base_url": "${KEY}"}


def test_test_data_is_never_filled(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(FILE)
    assert [each.input for each in load(path, environ={"KEY": "s3cret"})[0].scenarios] == ["say ${KEY}"]


def test_the_agents_of_a_file_are_not_looked_at_when_others_take_their_place(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(FILE)
    assert load(path, environ={}, check_agents=False)[0].count == 1
