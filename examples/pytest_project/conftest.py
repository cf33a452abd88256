"""The agent that the tests talk to."""

import pytest
from shop import answer


@pytest.fixture
def seatrial_agent():
    return answer
