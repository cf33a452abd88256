"""A suite that was loaded: its settings and its scenarios."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import field

from seatrial.model.scenario import ModelRoles, Scenario, Suite, SuiteConfig
from seatrial.model.struct import Struct


class LoadedSuite(Struct, frozen=True, kw_only=True):
    """A suite whose files have no problems."""

    suite: Suite
    """Its settings; its own `scenarios` are empty."""
    scenarios: Iterable[Scenario]
    """One for each row of examples, with all settings filled in. Can be iterated any number of times."""
    path: str
    count: int
    overrides: SuiteConfig = field(default_factory=SuiteConfig)
    """Settings from the command line."""
    evaluators: Mapping[str, Any] = field(default_factory=dict)
    """Custom evaluators that `scorers:` may name: objects, or classes to be built."""
    definitions: Mapping[str, Any] = field(default_factory=dict)
    """Metrics of the suite's metrics_file."""
    own_models: tuple[ModelRoles, ...] = ()
    """Models that scenarios name themselves. They may contain secrets; a large file is not read again for them."""

    @property
    def name(self) -> str:
        return self.suite.name

    @property
    def config(self) -> SuiteConfig:
        return self.suite.config


def select(
    scenarios: Iterable[Scenario], *, scenario_text: Sequence[str] | str = (), tags: Sequence[str] | str = ()
) -> Iterator[Scenario]:
    """Scenarios whose name contains one of the texts, ignoring case, and that have one of the tags."""
    texts = tuple(text.lower() for text in _several(scenario_text))
    wanted = frozenset(_several(tags))
    for scenario in scenarios:
        if texts and not any(text in scenario.name.lower() for text in texts):
            continue
        if wanted and wanted.isdisjoint(scenario.tags):
            continue
        yield scenario


def _several(given: Sequence[str] | str) -> Sequence[str]:
    return (given,) if isinstance(given, str) else given
