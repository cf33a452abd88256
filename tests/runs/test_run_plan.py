"""What is settled when a run is planned, before any agent has its say."""

from pathlib import Path

import pytest

from seatrial import Scenario
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan


def test_the_cache_stays_where_it_was_when_the_current_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = RunPlan(RunRequest(sources=(Scenario(name="a", input="x"),), agent=lambda input: "hi", cache="answers"))
    assert plan.models.cache == tmp_path / "answers"
