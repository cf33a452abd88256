"""Whether a recording and a script have the same user in them."""

from collections.abc import Sequence
from itertools import zip_longest

from seatrial.vocabulary.scenario import Scenario


def script_of(scenario: Scenario) -> tuple[str, ...] | None:
    """What the user will say, turn by turn; None where that is not written down beforehand."""
    if scenario.user is not None:
        return None
    return tuple(turn.user for turn in scenario.turns) or (scenario.input or "",)


def same_words(said: Sequence[str], recorded: Sequence[str]) -> bool:
    """Whether they say the same, spaces and line ends apart."""
    return first_difference(said, recorded) is None


def first_difference(said: Sequence[str], recorded: Sequence[str]) -> tuple[int, str | None, str | None] | None:
    """The first turn in which they differ, with the words of both; None for one that has come to its end."""
    for turn, (one, other) in enumerate(zip_longest(said, recorded)):
        if one is None or other is None or one.split() != other.split():
            return turn, one, other
    return None
