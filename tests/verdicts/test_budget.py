import pytest

from seatrial.model.results import ModelUse
from seatrial.verdicts.run import Spending


def spent(*trials: tuple[float | None, ModelUse | None]) -> Spending:
    spending = Spending()
    for agent, use in trials:
        spending.add(agent, use)
    return spending


def asked(cost: float | None) -> ModelUse:
    return ModelUse(calls=1, cost_usd=cost)


def test_agents_and_models_are_added_up() -> None:
    spending = spent((0.5, asked(0.1)), (0.25, None))
    assert spending.total_usd == pytest.approx(0.85)
    assert not spending.agent_is_silent


def test_an_unknown_cost_counts_as_the_dearest_known_one() -> None:
    assert spent((0.0, asked(0.1)), (0.0, asked(0.3)), (0.0, asked(None))).total_usd == pytest.approx(0.7)


def test_where_no_cost_is_known_the_budget_is_spent() -> None:
    spending = spent((0.0, asked(None)))
    assert spending.total_usd is None
    assert spending.reaches(1_000_000)


def test_answers_from_the_cache_cost_nothing() -> None:
    assert spent((0.0, ModelUse(cached=3, cost_usd=0.0))).total_usd == 0


def test_a_budget_is_reached_when_exactly_spent() -> None:
    assert spent((1.0, None)).reaches(1.0)
    assert not spent((0.99, None)).reaches(1.0)


def test_an_agent_that_does_not_say_what_it_costs_is_noticed() -> None:
    assert spent((None, asked(0.1))).agent_is_silent
