"""What holds for all tests of Seatrial itself."""

import pytest

from seatrial.runs import api


@pytest.fixture(autouse=True)
def runs_may_fail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test look at the trials of a run that failed. In a user's test such a run fails it: see tests/plugin."""
    if "plugin" not in request.path.parts:
        monkeypatch.setattr(api, "in_a_test", lambda: False)
