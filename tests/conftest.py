"""What holds for all tests of Seatrial itself."""

import pytest

from seatrial.runs import api


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pytest that a test starts load only what it needs: all plugins of this environment take 0.8 s of CPU."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "seatrial_pytest,xdist.plugin,anyio.pytest_plugin")


@pytest.fixture(autouse=True)
def runs_may_fail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test look at the trials of a run that failed. In a user's test such a run fails it: see tests/plugin."""
    if "plugin" not in request.path.parts:
        monkeypatch.setattr(api, "in_a_test", lambda: False)
