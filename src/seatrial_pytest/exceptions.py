"""How a test ends that played scenarios: failed is the agent's fault, errored is nobody's answer yet."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .files import CollectedScenario

COLLECTED: "pytest.StashKey[CollectedScenario]" = pytest.StashKey()
"""On items of scenario files: the suite, the scenario and the agent's name."""


class ScenarioFailed(pytest.fail.Exception):  # type: ignore[name-defined,misc]
    """The agent did not do what the scenario asks."""

    __module__ = "builtins"  # as for pytest's own: the short summary shows the text, not where the class lives

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=False)


class ScenarioErrored(pytest.fail.Exception):  # type: ignore[name-defined,misc]
    """There is no verdict: something is missing or broken. Never taken for a failure of the agent."""

    __module__ = "builtins"

    def __init__(self, text: str) -> None:
        super().__init__(text, pytrace=False)


@dataclass(slots=True)
class Notes:
    """What a test leaves behind for its report."""

    results: list[tuple[str, Any]] = field(default_factory=list)
    """(name, PlayedScenario) of each scenario that was played."""
    run: Any = None
    """The OpenRun that they were played in."""
    told: set[str] = field(default_factory=set)
    """Names of scenarios whose conversation is in the failure's own text."""
    not_live: str | None = None
    """Why it was skipped, when a model would have had to be asked."""
    unplayed: list[Any] = field(default_factory=list)
    """Requests of a Python test that could not be played."""
    run_is_known: bool = False
    """A report tells of the run."""
    fixture: Any = None
    """The fixture `seatrial` of a Python test."""
    call_ended_early: bool = False
    """It failed or was skipped, so nobody may expect that it asserted anything."""


_NOTES = "_seatrial_notes"
"""An attribute of items, and not in their stash: asked for four times for each test, which takes twelve calls there."""


def notes_of(item: pytest.Item) -> Notes:
    known = known_notes(item)
    if known is None:
        known = Notes()
        setattr(item, _NOTES, known)
    return known


def forget_notes(item: pytest.Item) -> None:
    """Let go of what was played, so that memory stays flat: pytest keeps its items to the end."""
    vars(item).pop(_NOTES, None)


def known_notes(item: pytest.Item) -> Notes | None:
    return getattr(item, _NOTES, None)


def verbosity_of(config: pytest.Config) -> int:
    """How much is to be shown. (It is an option of the terminal, and `-p no:terminal` takes that away.)"""
    found: int = getattr(config.option, "verbose", 0)
    return found
