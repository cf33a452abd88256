"""The outcome of a test that plays scenarios: its exceptions, its notes, and what is added to its report."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from seatrial.runs.scenario_session import PlayedScenario, ScenarioRequest, ScenarioSession

    from .files import CollectedScenario

COLLECTED: "pytest.StashKey[CollectedScenario]" = pytest.StashKey()
"""On items of scenario files: the suite, the scenario and the agent's name."""


class ScenarioFailed(pytest.fail.Exception):  # type: ignore[name-defined,misc]
    """The agent did not do what the scenario expects."""

    __module__ = "builtins"  # as for pytest's own: the short summary shows the text, not the module

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=False)


class ScenarioErrored(pytest.fail.Exception):  # type: ignore[name-defined,misc]
    """There is no verdict: something is missing or broken. It never counts as a failure of the agent."""

    __module__ = "builtins"

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=False)


@dataclass(slots=True)
class Notes:
    """What happened in a test, for its report."""

    results: list[tuple[str, "PlayedScenario"]] = field(default_factory=list)
    """Each scenario that was played, by name."""
    session: "ScenarioSession | None" = None
    """The session that played them."""
    described: set[str] = field(default_factory=set)
    """Names of scenarios whose conversation is in the text of the failure."""
    not_live: str | None = None
    """Why the test was skipped, if a model would have to be called."""
    unplayed: list["ScenarioRequest"] = field(default_factory=list)
    """Requests of a Python test that could not be played."""
    run_is_reported: bool = False
    """A report contains the id of the run."""
    fixture: Any = None
    """The fixture `seatrial` of a Python test."""
    call_ended_early: bool = False
    """The test failed or was skipped before it could assert everything."""

    def run_facts(self) -> dict[str, Any]:
        assert self.session is not None
        scored = any(played.outcome.overall_score is not None for _, played in self.results)
        return {"run": self.session.run.id, "scored": scored}


_NOTES = pytest.StashKey[Notes]()


def notes_of(item: pytest.Item) -> Notes:
    return item.stash.setdefault(_NOTES, Notes())


def known_notes(item: pytest.Item) -> Notes | None:
    return item.stash.get(_NOTES, None)


def verbosity_of(config: pytest.Config) -> int:
    """The value of -v. (It is an option of the terminal plugin, which `-p no:terminal` removes.)"""
    found: int = getattr(config.option, "verbose", 0)
    return found


def annotate(item: pytest.Item, call: "pytest.CallInfo[None]", report: pytest.TestReport, *, for_groups: bool) -> None:
    """Add the played scenarios to the report: sections for people, and JSON that xdist can send to the controller."""
    notes = known_notes(item)
    if report.when == "teardown":
        if notes is not None and notes.results:
            _tell_final(notes, report)
        if notes is not None:
            del item.stash[_NOTES]  # pytest keeps its items to the end, and memory must stay flat
        return
    passed = report.outcome == "passed"
    unplayed = {} if passed else _unplayed(item, notes, call, report)
    if notes is None and not for_groups and not unplayed:
        return
    facts: dict[str, Any] = {"failed": _is_failure(call)}
    if for_groups:
        facts["marks"] = sorted({mark.name for mark in item.iter_markers()})
        facts["names"] = sorted({item.nodeid, item.name, getattr(item, "originalname", None) or item.name})
    if notes is not None:
        facts |= _facts(item, notes, report)
        if report.when == "call":
            notes.call_ended_early = not passed
            _add_sections(item, notes, report)
    report.seatrial = {**facts, **unplayed}  # type: ignore[attr-defined]


def _tell_final(notes: Notes, report: pytest.TestReport) -> None:
    """Tell listeners of the trials, which are final now; report a run that only the teardown started."""
    assert notes.session is not None
    for _, played in notes.results:
        notes.session.tell(played)
    if not notes.run_is_reported:
        report.seatrial = notes.run_facts()  # type: ignore[attr-defined]


def _is_failure(call: "pytest.CallInfo[None]") -> bool:
    """Whether an assertion failed. Any other exception is an error."""
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
        notes.run_is_reported = True
        facts |= notes.run_facts()
    if notes.not_live and report.outcome == "skipped":
        facts["not_live"] = True
    return facts


def _unplayed(
    item: pytest.Item, notes: Notes | None, call: "pytest.CallInfo[None]", report: pytest.TestReport
) -> dict[str, Any]:
    """The scenarios of the test that were not played, as rows for the run."""
    requests = notes.unplayed if notes is not None else []
    if COLLECTED in item.stash:
        if notes is not None and notes.results:
            return {}
        from .files import request_of

        requests = [request_of(item, item.stash[COLLECTED])]
    if not requests:
        return {}
    from seatrial.store.codec import encode

    skip = str(getattr(call.excinfo.value, "msg", "")) if report.skipped and call.excinfo is not None else None
    return {"unplayed": [encode(request.entry(skip=skip)).decode("ascii") for request in requests]}


def _add_sections(item: pytest.Item, notes: Notes, report: pytest.TestReport) -> None:
    """Add the conversations of scenarios that did not pass, unless the failure shows them; with -v of all."""
    verbosity = verbosity_of(item.config)
    if report.outcome == "passed" and verbosity <= 0:
        return
    from .failure_text import describe

    for name, played in notes.results:
        wanted = report.failed if not played.outcome.verdict.passed else verbosity > 0
        if wanted and name not in notes.described:
            text = describe(played, run=notes.run_facts()["run"], verbosity=verbosity)
            report.sections.append((f"seatrial: {name}", text))
