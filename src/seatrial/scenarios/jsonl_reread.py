"""Lines that were found to be right, read again: of a large suite nothing else is held."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.model.scenario import Scenario, Suite
from seatrial.model.struct import Struct

from .examples import expand_rows
from .merge import Resolver
from .problems import Complaints
from .shape import SCENARIO


class SecondReading(Struct, frozen=True, kw_only=True):
    """What it takes to read the lines of a suite once more."""

    suite: Suite | None
    resolver: Resolver | None
    definitions: Mapping[str, Any]
    stamp: tuple[int, int] | None = None
    """The size and time of the file when it was checked."""

    def written(self, made: dict[str, Any], *, source: str) -> Iterator[Scenario]:
        """The scenarios of a line, from its keys, as they were written."""
        complete(made, self.suite, source)
        yield from expand_rows(Scenario(**made), (), Complaints())

    def resolved(self, made: dict[str, Any], *, source: str) -> Iterator[Scenario]:
        """The same, with everything that holds for them filled in."""
        assert self.resolver is not None
        complete(made, self.suite, source)
        if made.get("examples"):
            yield from map(self.resolver.resolve, expand_rows(Scenario(**made), (), Complaints()))
        else:
            yield self.resolver.resolve_keys(made)

    def names(self, made: dict[str, Any], *, source: str) -> Iterator[tuple[str, str]]:
        """The names of a line's scenarios, each with its place."""
        scenarios = expand_rows(Scenario(**made), (), Complaints()) if made.get("examples") else (Scenario(**made),)
        yield from ((scenario.name, source) for scenario in scenarios)

    def keys(self, raw: Any) -> dict[str, Any] | None:
        """The keys of a line as they are read; None for one that is not right."""
        complaints = Complaints()
        complaints.metrics = self.definitions
        return SCENARIO.read_keys(raw, (), complaints)


def complete(made: dict[str, Any], suite: Suite | None, source: str) -> None:
    """Add to a scenario's keys where it was written, and the tags of its suite."""
    made["source"] = source
    if suite is not None and suite.tags:
        made["tags"] = tuple(dict.fromkeys((*suite.tags, *made.get("tags", ()))))
