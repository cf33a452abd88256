"""Whether a recording and a script have the same user in them."""

from collections.abc import Sequence
from itertools import zip_longest

from seatrial.model.scenario import Scenario


def script_of(scenario: Scenario) -> tuple[str, ...] | None:
    """What the user will say, turn by turn; None where that is not written down beforehand."""
    if scenario.user is not None:
        return None
    return tuple(turn.user for turn in scenario.turns) or (scenario.input or "",)


def words_of(said: Sequence[str]) -> tuple[str, ...]:
    """The words of each turn, equal for all who say the same, spaces and line ends apart."""
    return tuple(" ".join(text.split()) for text in said)


def first_difference(said: Sequence[str], recorded: Sequence[str]) -> tuple[int, str | None, str | None] | None:
    """The first turn in which they differ, with the words of both; None for one that has come to its end."""
    for turn, (one, other) in enumerate(zip_longest(said, recorded)):
        if one is None or other is None or words_of([one]) != words_of([other]):
            return turn, one, other
    return None
