"""What goes with the report of a test: sections for people, and the facts that the end of the session needs."""

from typing import Any

import pytest

from .exceptions import COLLECTED, Notes, ScenarioErrored, forget_notes, known_notes, verbosity_of


def annotate(item: pytest.Item, call: "pytest.CallInfo[None]", report: pytest.TestReport, *, for_groups: bool) -> None:
    """Add to the report what was played; all of it plain, since xdist sends it to another process."""
    notes = known_notes(item)
    if report.when == "teardown":
        # Almost everything was told before, and what fails now is an error whatever it says.
        if notes is not None and notes.results:
            _end_notes(notes, report)
        forget_notes(item)
        return
    passed = report.outcome == "passed"
    if notes is None and passed and not for_groups:
        return
    told_more = {} if passed else _left_out(item, notes, call, report)
    if notes is None and not for_groups and not told_more:
        return
    told: dict[str, Any] = {"failed": _is_failure(call)}
    if for_groups:
        told["marks"] = sorted({mark.name for mark in item.iter_markers()})
        told["names"] = sorted({item.nodeid, item.name, getattr(item, "originalname", None) or item.name})
    if notes is not None:
        told |= _facts(item, notes, report)
        if report.when == "call":
            notes.call_ended_early = not passed
            _add_sections(item, notes, report)
    told |= told_more
    report.seatrial = told  # type: ignore[attr-defined]


def _is_failure(call: "pytest.CallInfo[None]") -> bool:
    """Whether the test came to an answer, and the answer was no. Any other exception is no answer."""
    if call.excinfo is None:
        return False
    value = call.excinfo.value
    return isinstance(value, AssertionError | pytest.fail.Exception) and not isinstance(value, ScenarioErrored)


def _facts(item: pytest.Item, notes: Notes, report: pytest.TestReport) -> dict[str, Any]:
    collected = item.stash.get(COLLECTED, None)
    facts: dict[str, Any] = {"is_scenario": collected is not None}
    if collected is not None and (reports := collected.loaded.suite.reports):
        facts["reports"] = list(reports)
    if notes.results:
        notes.run_is_known = True
        facts |= _run_facts(notes)
    if notes.not_live and report.outcome == "skipped":
        facts["not_live"] = True
    return facts


def _run_facts(notes: Notes) -> dict[str, Any]:
    scored = any(played.outcome.overall_score is not None for _, played in notes.results)
    return {"run": notes.run.run.id, "scored": scored}


def _end_notes(notes: Notes, report: pytest.TestReport) -> None:
    """Tell listeners of what nothing will be added to any more; and of a run that was only begun by a teardown."""
    for _, played in notes.results:
        notes.run.tell(played)
    if not notes.run_is_known:
        report.seatrial = _run_facts(notes)  # type: ignore[attr-defined]


def _left_out(
    item: pytest.Item, notes: Notes | None, call: "pytest.CallInfo[None]", report: pytest.TestReport
) -> dict[str, Any]:
    """The scenarios of the test that nobody played, as the run will keep them."""
    requests = notes.unplayed if notes is not None else []
    if COLLECTED in item.stash:
        if notes is not None and notes.results:
            return {}
        from .items import request_of
        from .pytest_run import read_marker

        requests = [request_of(item, item.stash[COLLECTED], read_marker(item))]
    if not requests:
        return {}
    from seatrial.store.codec import encode

    skip = str(getattr(call.excinfo.value, "msg", "")) if report.skipped and call.excinfo is not None else None
    entries = [request.entry(skip=skip) for request in requests]
    return {"left_out": [encode(entry).decode("ascii") for entry in entries]}


def _add_sections(item: pytest.Item, notes: Notes, report: pytest.TestReport) -> None:
    """The conversations: of scenarios that did not pass, where the test itself does not tell them; with -v of all."""
    verbosity = verbosity_of(item.config)
    if report.outcome == "passed" and verbosity <= 0:
        return
    from .failure_text import describe

    for name, played in notes.results:
        wanted = report.failed if not played.outcome.verdict.passed else verbosity > 0
        if wanted and name not in notes.told:
            text = describe(played, run=notes.run.run.id, verbosity=verbosity)
            report.sections.append((f"seatrial: {name}", text))
