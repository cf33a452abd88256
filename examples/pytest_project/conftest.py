"""The agent that the tests talk to."""

import pytest
from shop import answer


@pytest.fixture
def seatrial_agent():
    # All its tools are marked with @seatrial.tool, so a call that was not seen was not made.
    return {"type": "python", "target": answer, "tools": "all_wrapped"}
