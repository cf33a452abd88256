"""The end of a Python test: a scenario that did not pass fails it, unless the test asserts the verdict."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from seatrial.assertions import unsettled
from seatrial.model.run import Status

from .exceptions import COLLECTED, ScenarioErrored, ScenarioFailed, known_notes
from .pytest_run import read_marker

if TYPE_CHECKING:
    from seatrial.runs.report import Report

_REMEDY = (
    "If the test expects this, assert it, as in `assert report.status == 'failed'`, or mark the test with "
    "@pytest.mark.seatrial(expect_failure=True)"
)


def settle(item: pytest.Item) -> None:
    """Fail the test for scenarios that did not pass. Raises ScenarioFailed or ScenarioErrored."""
    __tracebackhide__ = True
    notes = known_notes(item)
    fixture = None if notes is None else notes.fixture
    reports, unsettled[:] = list(unsettled), []
    if fixture is not None:
        fixture.settle()
    expects_failure = bool((fixture or reports) and read_marker(item).get("expect_failure"))
    for report in reports:
        _settle_report(report, expects_failure=expects_failure)
    passed = [report.record.outcome.verdict.passed for report in reports]
    passed += [] if fixture is None else fixture.passed
    if expects_failure and passed and all(passed):
        raise ScenarioFailed(f"{item.nodeid}: the marker says expect_failure, and every scenario passed")


def _settle_report(report: "Report", *, expects_failure: bool) -> None:
    __tracebackhide__ = True
    verdict = report.record.outcome.verdict
    if report.asserted or verdict.passed or (expects_failure and verdict.status is Status.FAILED):
        return
    text = "\n  ".join((f"run {report.run.id}: {verdict.status}", *report.failure_reasons, _REMEDY))
    raise ScenarioFailed(text) if verdict.status is Status.FAILED else ScenarioErrored(text)


@contextmanager
def refusing_return(item: Any) -> Iterator[None]:
    """A test that plays scenarios by the fixture returns nothing: pytest does not look at what a test returns."""
    __tracebackhide__ = True
    is_python = isinstance(item, pytest.Function) and COLLECTED not in item.stash
    if not is_python or "seatrial" not in item.fixturenames:
        yield
        return
    function = item.obj
    returned: list[Any] = []
    item.obj = _noting(function, returned)
    try:
        yield
    finally:
        item.obj = function
    if returned:
        raise ScenarioErrored(
            f"{item.nodeid}: the test returns {returned[0]!r:.100}, which pytest does not look at. "
            "Write `assert` instead of `return`"
        )


def _noting(function: Callable[..., Any], returned: list[Any]) -> Callable[..., Any]:
    """The test function, which also adds to the list what it returns."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def noting_async(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            value = await function(*args, **kwargs)
            returned.extend([] if value is None else [value])

        return noting_async

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        value = function(*args, **kwargs)
        if inspect.isawaitable(value) or inspect.isasyncgen(value):
            return value
        returned.extend([] if value is None else [value])
        return None

    return noting
