"""Calls are spaced evenly over a minute."""

import asyncio

import pytest

from seatrial.engine.schedule import RateLimit


def test_calls_at_once_are_given_places_one_gap_apart() -> None:
    pace = RateLimit(per_minute=30)
    assert [pace.reserve(100.0) for _ in range(4)] == [0.0, 2.0, 4.0, 6.0]


def test_a_call_that_comes_late_does_not_wait() -> None:
    pace = RateLimit(per_minute=60)
    assert [pace.reserve(now) for now in (10.0, 10.5, 20.0, 20.0)] == [0.0, 0.5, 0.0, 1.0]


def test_time_without_calls_is_not_saved_up() -> None:
    pace = RateLimit(per_minute=60)
    pace.reserve(0.0)
    assert [pace.reserve(100.0) for _ in range(3)] == [0.0, 1.0, 2.0]


def test_waiting_tells_how_long_it_was() -> None:
    async def wait() -> list[float]:
        pace = RateLimit(per_minute=6000)
        return [await pace.wait(), await pace.wait()]

    first, second = asyncio.run(wait())
    assert first == 0.0
    assert second == pytest.approx(0.01, abs=0.01)
