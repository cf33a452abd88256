"""The mutants of a scenario: all that the operators make, sampled with a seed."""

import random
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from seatrial.errors import UsageError
from seatrial.model.conversation import Transcript
from seatrial.model.run import ScenarioKey, Trial
from seatrial.model.struct import Struct

from .mutant import Mutant, RunFacts
from .operators import Operator


class PlannedMutant(Struct, frozen=True, kw_only=True):
    """A mutant, and the trial that it comes from."""

    mutant: Mutant
    original: Trial


class Sample(Struct, frozen=True, kw_only=True):
    """The mutants of one scenario."""

    mutants: list[PlannedMutant]
    """Those that are judged."""
    possible: int
    """The number that the operators can make."""


class Sampling(Struct, frozen=True, kw_only=True):
    """How many mutants are made."""

    operators: tuple[Operator, ...]
    per_operator: int
    """The greatest number of mutants of an operator in one scenario."""
    per_scenario: int
    """The greatest number of mutants in one scenario."""
    seed: int

    def sample(self, key: ScenarioKey, originals: Iterable[Trial], facts: RunFacts) -> Sample:
        """Mutants of the originals of one scenario: the same for the same seed, in the order of the operators."""
        chosen = [_Reservoir(self.per_operator, self._random(key, operator.name)) for operator in self.operators]
        for original in originals:
            for operator, reservoir in zip(self.operators, chosen, strict=True):
                for mutant in _make(operator, original.transcript, facts):
                    reservoir.add(PlannedMutant(mutant=mutant, original=original))
        found = [planned for reservoir in chosen for planned in reservoir.items]
        if len(found) > self.per_scenario:
            places = sorted(self._random(key, "").sample(range(len(found)), self.per_scenario))
            found = [found[place] for place in places]
        return Sample(mutants=found, possible=sum(reservoir.seen for reservoir in chosen))

    def _random(self, key: ScenarioKey, name: str) -> random.Random:
        text = "\0".join((str(self.seed), *key, name))
        return random.Random(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _make(operator: Operator, transcript: Transcript, facts: RunFacts) -> Iterator[Mutant]:
    """The mutants that differ from their original. Raises UsageError if an operator of another package fails."""
    try:
        for mutant in operator.mutants(transcript, facts):
            if mutant.transcript != transcript:
                yield mutant
    except Exception as raised:
        raise UsageError(f"the operator {operator.name!r} raised {type(raised).__name__}: {raised}") from raised


class _Reservoir:
    """A sample of a stream of unknown length, each item with the same chance."""

    def __init__(self, size: int, chance: random.Random) -> None:
        self._size = size
        self._chance = chance
        self.seen = 0
        """The number of items that were offered."""
        self.items: list[PlannedMutant] = []

    def add(self, item: PlannedMutant) -> None:
        self.seen += 1
        if len(self.items) < self._size:
            self.items.append(item)
            return
        place = self._chance.randrange(self.seen)
        if place < self._size:
            self.items[place] = item


def share_limit(limit: int, scenarios: Iterable[ScenarioKey], *, seed: int) -> dict[ScenarioKey, int]:
    """How many mutants each scenario may have, so that all of them together stay within the limit.

    If there are more scenarios than mutants, the seed chooses the scenarios.
    """
    ordered = sorted(scenarios)
    each, rest = divmod(limit, max(len(ordered), 1))
    lucky = set(random.Random(seed).sample(ordered, rest))
    return {key: each + (key in lucky) for key in ordered}
