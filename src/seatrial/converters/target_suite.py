"""The native file while it is being made, and the account of what could not be carried over."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.model.struct import Struct

from .source_file import Source, Where


class Note(Struct, frozen=True, kw_only=True):
    """Something of the other tool's file that is not, or not quite, in ours."""

    file: str
    line: int | None
    text: str
    scenario: str | None = None
    lost: bool = True
    """Not carried over at all; else carried over with another meaning."""

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        about = f"{self.scenario}: " if self.scenario else ""
        return f"{self.place}: {about}{self.text}"


class Draft:
    """A suite under construction."""

    def __init__(self, source: Source, tool: str) -> None:
        self.source = source
        self.tool = tool
        self.suite: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.scenarios: list[DraftScenario] = []
        self.notes: list[Note] = []
        """Of the file as a whole."""
        self._names: set[str] = set()

    def scenario(self, name: str, where: Where) -> "DraftScenario":
        """A new one; a name that is taken gets a number."""
        plain = " ".join(name.split()) or "unnamed"
        unique, number = plain, 1
        while unique in self._names:
            number += 1
            unique = f"{plain} ({number})"
        self._names.add(unique)
        made = DraftScenario(self, unique, where)
        self.scenarios.append(made)
        return made

    def lose(self, where: Where, text: str) -> None:
        """Note a setting of the file that has no place here."""
        self.notes.append(self.note(where, text))

    def change(self, where: Where, text: str) -> None:
        """Note a setting that means something else here."""
        self.notes.append(self.note(where, text, lost=False))

    def note(self, where: Where, text: str, *, scenario: str | None = None, lost: bool = True) -> Note:
        line = self.source.line(where)
        return Note(file=str(self.source.path), line=line, text=text, scenario=scenario, lost=lost)

    def all_notes(self) -> list[Note]:
        return [*self.notes, *(note for scenario in self.scenarios for note in scenario.notes)]


class DraftScenario:
    """A scenario under construction. Every check it is given is counted, and every one that it could not be given."""

    def __init__(self, draft: Draft, name: str, where: Where) -> None:
        self.name = name
        self.where = where
        self.keys: dict[str, Any] = {"name": name}
        self.notes: list[Note] = []
        self.shared = False
        """Whether what comes now is asserted of every scenario of the file; such checks do not speak for this one."""
        self.own = _Count()
        self.common = _Count()
        self._draft = draft

    def score(self, scorer: Any) -> None:
        """A scorer of the whole trial, beside `passfail`: an empty reply must not pass what it does not contain."""
        self.keys.setdefault("scorers", ["passfail"]).append(scorer)
        self.count_check()

    def expect(self, key: str, values: list[Any]) -> None:
        found = self.keys.setdefault("expect", {}).setdefault(key, [])
        found += [value for value in values if value not in found]
        self.count_check()

    def limit(self, key: str, value: float) -> None:
        limits = self.keys.setdefault("limits", {})
        limits[key] = min(value, limits.get(key, value))
        self.count_check()

    def outcome(self, statement: str) -> None:
        self.keys.setdefault("expected_outcomes", []).append(statement)
        self.count_check()

    @property
    def _counts(self) -> "_Count":
        return self.common if self.shared else self.own

    def count_check(self) -> None:
        self._counts.carried += 1

    def lose_check(self, where: Where, text: str) -> None:
        """Note an assertion that has no place here."""
        self.notes.append(self._draft.note(where, text, scenario=self.name))
        self._counts.lost += 1

    def lose(self, where: Where, text: str) -> None:
        self.notes.append(self._draft.note(where, text, scenario=self.name))

    def lose_rest(
        self, given: Mapping[str, Any], known: Collection[str], where: Where, *, checks: bool = False
    ) -> None:
        """Note every key that is not known; `checks` where it asserts something, whatever its name is."""
        for key, value in given.items():
            if key not in known and value not in (None, [], {}, ""):
                lose = self.lose_check if checks or key.startswith("expect") else self.lose
                lose((*where, key), f"{key}: has no counterpart here")

    def change(self, where: Where, text: str) -> None:
        self.notes.append(self._draft.note(where, text, scenario=self.name, lost=False))

    def finish(self) -> None:
        """A scenario that lost all its checks must not pass for what it no longer asks."""
        carried, lost = self.own.carried + self.common.carried, self.own.lost + self.common.lost
        if (self.own.lost and not self.own.carried) or (lost and not carried):
            self.keys["skip"] = f"nothing of what {self._draft.tool} asserts of it could be carried over"
        elif not carried:
            self.change(self.where, "asserts nothing; here the reply must at least not be empty")


@dataclass(slots=True)
class _Count:
    carried: int = 0
    lost: int = 0
