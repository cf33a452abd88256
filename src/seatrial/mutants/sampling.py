"""The mutants of a scenario: all that the operators make, sampled with a seed."""

import random
from collections.abc import Iterable, Iterator, Sequence
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


class Sampling(Struct, frozen=True, kw_only=True):
    """How many mutants are made."""

    operators: tuple[Operator, ...]
    per_operator: int
    """The greatest number of mutants of an operator in one scenario."""
    per_scenario: int
    """The greatest number of mutants in one scenario."""
    seed: int

    def sample(self, key: ScenarioKey, originals: Iterable[Trial], facts: RunFacts) -> list[PlannedMutant]:
        """Mutants of the originals of one scenario: the same for the same seed, in the order of the operators."""
        chosen = [_Reservoir(self.per_operator, self._random(key, operator.name)) for operator in self.operators]
        for original in originals:
            for operator, reservoir in zip(self.operators, chosen, strict=True):
                for mutant in _make(operator, original.transcript, facts):
                    reservoir.add(PlannedMutant(mutant=mutant, original=original))
        found = [planned for reservoir in chosen for planned in reservoir.items]
        if len(found) <= self.per_scenario:
            return found
        places = sorted(self._random(key, "").sample(range(len(found)), self.per_scenario))
        return [found[place] for place in places]

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
        self._seen = 0
        self.items: list[PlannedMutant] = []

    def add(self, item: PlannedMutant) -> None:
        self._seen += 1
        if len(self.items) < self._size:
            self.items.append(item)
            return
        place = self._chance.randrange(self._seen)
        if place < self._size:
            self.items[place] = item


def share_limit(limit: int, scenarios: Sequence[object]) -> int:
    """How many mutants each scenario may have, so that all of them together stay within the limit."""
    return max(limit // max(len(scenarios), 1), 1)
