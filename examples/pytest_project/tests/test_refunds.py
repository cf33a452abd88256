"""What a scenario file cannot say, in Python."""

import pytest

from seatrial import Scenario, ToolCalls


@pytest.mark.money
@pytest.mark.parametrize("days", [0, 30, 31])
def test_thirty_days_are_the_limit(seatrial, days):
    mocks = {"lookup_order": {"returns": {"days": days, "euros": 5}}, "pay_back": {"returns": {"paid": True}}}
    result = seatrial.run(Scenario(name=f"{days} days", input="Money back for R-9, please.", mocks=mocks))
    expected = {"must_include": ["pay_back"]} if days <= 30 else {"must_exclude": ["pay_back"]}
    seatrial.check(result, ToolCalls(**expected))


@pytest.mark.seatrial(trials=3)
def test_it_asks_before_it_acts(seatrial):
    result = seatrial.run("I want my money back.")
    assert result.passed
    assert "Which order" in result.reply
