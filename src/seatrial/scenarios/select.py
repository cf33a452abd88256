"""Which scenarios a run takes: by a part of their name, by tag."""

from collections.abc import Iterable, Iterator, Sequence

from seatrial.model.scenario import Scenario


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
