"""Scenarios made ready one after the other: those that differ in texts alone, by the example of the first of them."""

from dataclasses import fields
from operator import attrgetter, is_
from typing import Any

from seatrial.vocabulary.roles import PreparedScenario
from seatrial.vocabulary.run import ScenarioKey
from seatrial.vocabulary.scenario import Scenario
from seatrial.vocabulary.value import altered

from .build import Cast, make_user, prepare
from .fingerprint import TEXTS, Fingerprints

_OWN = frozenset(("name", "description", "tags", "source", *TEXTS))
"""What scenarios that are alike may still have for themselves: texts that the entry, the user and passfail ask for."""
_shared = attrgetter(*(field.name for field in fields(Scenario) if field.name not in _OWN))


class Preparer:
    """Makes the scenarios of one cast ready."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._example: PreparedScenario | None = None
        self._shared: tuple[Any, ...] = ()
        """What the example has that is not its own, object by object."""
        self._fingerprints: Fingerprints | None = None

    def prepare(self, scenario: Scenario, *, position: int) -> PreparedScenario:
        """The scenario ready to be played. Raises UsageError for what only shows with the agent at hand."""
        shared = _shared(scenario)
        if self._example is not None and all(map(is_, shared, self._shared)):
            return self._by_example(self._example, scenario, position)
        prepared = prepare(scenario, self._cast, position=position)
        if _decides_by_texts(prepared):
            self._example, self._shared, self._fingerprints = prepared, shared, None
        return prepared

    def _by_example(self, example: PreparedScenario, scenario: Scenario, position: int) -> PreparedScenario:
        cast = self._cast
        if self._fingerprints is None:
            self._fingerprints = Fingerprints(scenario, cast.agent_key, evaluators=cast.evaluators)
        whole, of_trial = self._fingerprints.of(scenario)
        entry = altered(
            example.entry,
            key=ScenarioKey(cast.suite, scenario.name, cast.agent_name),
            position=position,
            fingerprint=whole,
            trial_fingerprint=of_trial,
            tags=tuple(scenario.tags),
            source=scenario.source,
        )
        return altered(example, entry=entry, scenario=scenario, make_user=make_user(scenario, cast))


def _decides_by_texts(prepared: PreparedScenario) -> bool:
    """Whether nothing was made for this scenario alone: other evaluators and judges may know whose they are."""
    scenario = prepared.scenario
    return (
        scenario.scorers == ("passfail",)
        and not (scenario.turns or scenario.user or scenario.expect)
        and prepared.judge is None
    )
