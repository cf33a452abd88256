"""What a reader must know of the tools of a run: which real ones ran, and which names may be misspelt."""

import re
from collections import Counter
from collections.abc import Iterator

from seatrial.model.run import ScenarioEntry, TrialSummary

from . import reasons

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_COMPARABLE = 4
"""Shorter words differ by one letter and mean something else: get and set."""


class ToolNotes:
    """The tools that the scenarios of a run name, and those that its trials called. They may come in any order."""

    def __init__(self) -> None:
        self._mocks: set[str] = set()
        self._must_not: set[str] = set()
        self._called: Counter[str] = Counter()
        self._real: Counter[str] = Counter()

    def add_scenario(self, entry: ScenarioEntry) -> None:
        self._mocks.update(entry.mocks)
        self._must_not.update(entry.must_not_call)

    def add_trial(self, trial: TrialSummary) -> None:
        for name, called, real in trial.tools:
            self._called[name] += called
            if real:
                self._real[name] += real

    def notes(self, *, trials: int) -> Iterator[str]:
        """A sentence for the real tools that ran, and one for each name that is like one that was called."""
        if self._real:
            yield reasons.real_tools_ran(self._real.most_common())
        for name in sorted((self._mocks | self._must_not) - self._called.keys()):
            meant = self._meant(name)
            if meant is not None:
                yield reasons.never_called(name, trials=trials, meant=meant, called=self._called[meant])

    def _meant(self, name: str) -> str | None:
        """The tool that was called most often among those with a similar name. Two tools that are both mocked are two
        tools."""
        for called, _ in self._called.most_common():
            both_mocked = name in self._mocks and called in self._mocks
            if not both_mocked and is_misspelling(name, called):
                return called
        return None


def is_misspelling(one: str, other: str) -> bool:
    """Whether one name may be the other with a typing error: a letter of a word, case, or what joins the words."""
    mine, theirs = _words(one), _words(other)
    if not mine or not theirs:
        return False
    if "".join(mine) == "".join(theirs):
        return True
    return len(mine) == len(theirs) and all(map(_is_typo, mine, theirs))


def _words(name: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub("_", name).lower())


def _is_typo(one: str, other: str) -> bool:
    """Whether two words are the same but for a letter that is missing, added or another, or two that are swapped."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(short) < _COMPARABLE or len(long) - len(short) > 1:
        return False
    start = next((place for place, pair in enumerate(zip(short, long, strict=False)) if pair[0] != pair[1]), len(short))
    rest, longer = short[start:], long[start:]
    if len(short) < len(long):
        return rest == longer[1:]
    return rest[1:] == longer[1:] or (rest[1::-1] == longer[:2] and rest[2:] == longer[2:])
