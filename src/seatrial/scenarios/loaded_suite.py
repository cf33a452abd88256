"""A suite as it was loaded: its settings, and its scenarios as often as somebody asks for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import field

from seatrial.model.scenario import ModelRoles, Scenario, Suite, SuiteConfig
from seatrial.model.struct import Struct


class Streamed(Struct, frozen=True):
    """Scenarios that are read again each time, so that a large file never stands in memory."""

    open: Callable[[], Iterator[Scenario]]

    def __iter__(self) -> Iterator[Scenario]:
        return self.open()


class LoadedSuite(Struct, frozen=True, kw_only=True):
    """A suite whose files were found to be right."""

    suite: Suite
    """Its settings; its own `scenarios` are empty."""
    scenarios: Iterable[Scenario]
    """As they were written, rows of examples apart; may be gone through any number of times."""
    path: str
    count: int
    overrides: SuiteConfig = field(default_factory=SuiteConfig)
    """What the command line set."""
    evaluators: Mapping[str, Any] = field(default_factory=dict)
    """Custom evaluators that `scorers:` may name: objects, or classes to be built."""
    definitions: Mapping[str, Any] = field(default_factory=dict)
    """Metrics of the suite's metrics_file."""
    own_models: tuple[ModelRoles, ...] = ()
    """Those that scenarios name for themselves. They may hold secrets, and a large file is not read again for them."""
    kept: Iterable[Scenario]
    """The scenarios with everything that holds for them filled in."""

    @property
    def name(self) -> str:
        return self.suite.name

    @property
    def config(self) -> SuiteConfig:
        return self.suite.config

    def resolved(self) -> Iterator[Scenario]:
        """The scenarios with everything that holds for them filled in."""
        return iter(self.kept)


def select(
    scenarios: Iterable[Scenario], *, scenario_text: Sequence[str] | str = (), tags: Sequence[str] | str = ()
) -> Iterator[Scenario]:
    """Those whose name contains one of the texts, whatever the case, and that carry one of the tags."""
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
