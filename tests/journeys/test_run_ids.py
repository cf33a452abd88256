"""The id of a run, chosen by whoever starts it."""

from typing import Any

import pytest


@pytest.fixture
def project(folder: Any) -> Any:
    folder.write("agent.py", "def answer(input): return 'yes'\n")
    folder.write("scenarios/one.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: a}]\n")
    return folder


def test_a_run_has_the_id_that_it_was_given(project: Any) -> None:
    assert project.seatrial("run", "--id", "job-17").code == 0

    assert project.results()["run"]["id"] == "job-17"


def test_an_id_is_not_taken_twice(project: Any) -> None:
    project.seatrial("run", "--id", "job-17")
    again = project.seatrial("run", "--id", "job-17")

    assert again.code == 2
    assert "run job-17: is stored already" in again.err


@pytest.mark.parametrize("chosen", ["latest", "baseline", "a b", "../up", "", "x" * 101])
def test_what_cannot_be_an_id_is_refused(project: Any, chosen: str) -> None:
    refused = project.seatrial("run", "--id", chosen)

    assert refused.code == 2
    assert "--id" in refused.err


@pytest.mark.parametrize("chosen", ["latest", "baseline", "", "  "])
def test_a_name_that_means_another_run_or_none_is_refused(project: Any, chosen: str) -> None:
    project.seatrial("run", "--id", "job-17")

    for command in (["run"], ["regrade", "job-17"]):
        refused = project.seatrial(*command, "--name", chosen)
        assert refused.code == 2
        assert f"--name {chosen!r}: expected a name" in refused.err


def test_a_resumed_run_keeps_its_own_id(project: Any) -> None:
    project.seatrial("run", "--id", "job-17")

    assert "Leave out --id" in project.seatrial("run", "--resume", "job-17", "--id", "other").err
