"""Lines that were found to be right, read again: of a large suite nothing else is held."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.errors import UsageError
from seatrial.vocabulary.scenario import Scenario, Suite
from seatrial.vocabulary.value import Value

from .examples import expand_rows
from .merge import Resolver
from .problems import Complaints
from .shape import SCENARIO


class SecondReading(Value):
    """What it takes to read the lines of a suite once more."""

    suite: Suite | None
    resolver: Resolver | None
    definitions: Mapping[str, Any]

    def written(self, raw: Any, *, source: str) -> Iterator[Scenario]:
        """The scenarios of a line, as they were written."""
        yield from expand_rows(Scenario(**self._right_keys(raw, source)), (), Complaints())

    def resolved(self, raw: Any, *, source: str) -> Iterator[Scenario]:
        """The same, with everything that holds for them filled in."""
        assert self.resolver is not None
        made = self._right_keys(raw, source)
        if made.get("examples"):
            yield from map(self.resolver.resolve, expand_rows(Scenario(**made), (), Complaints()))
        else:
            yield self.resolver.resolve_keys(made)

    def names(self, raw: Any, *, source: str) -> Iterator[tuple[str, str]]:
        """The names of a line's scenarios, each with its place; of a line that is not right, none."""
        made = self._keys(raw, source)
        if made is None:
            return
        scenarios = expand_rows(Scenario(**made), (), Complaints()) if made.get("examples") else (Scenario(**made),)
        yield from ((scenario.name, source) for scenario in scenarios)

    def _right_keys(self, raw: Any, source: str) -> dict[str, Any]:
        made = self._keys(raw, source)
        if made is None:
            raise UsageError(f"{source}: the file was changed after it was checked; run again")
        return made

    def _keys(self, raw: Any, source: str) -> dict[str, Any] | None:
        complaints = Complaints()
        complaints.metrics = self.definitions
        made = SCENARIO.read_keys(raw, (), complaints)
        if made is not None:
            complete(made, self.suite, source)
        return made


def complete(made: dict[str, Any], suite: Suite | None, source: str) -> None:
    """Add to a scenario's keys where it was written, and the tags of its suite."""
    made["source"] = source
    if suite is not None and suite.tags:
        made["tags"] = tuple(dict.fromkeys((*suite.tags, *made.get("tags", ()))))
