"""Files that a suite includes: further rules of the suite, and further expectations of its scenarios, by name.

`seatrial mutate --write-suggestions` writes such a file. It adds to what the suite has, and replaces nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import field
from msgspec.structs import asdict

from seatrial.model.keys import Key
from seatrial.model.scenario import Expect, Name, Names
from seatrial.model.struct import Struct

from .keys import named_reader, struct_reader
from .problems import KeyPath, Problems, UnreadableFile, did_you_mean, path_text
from .value_readers import ListOf, given


class _Addition(TypedDict):
    name: Annotated[Name, Key("the scenario's name")]
    expect: NotRequired[Annotated[Expect, Key("what must also be true of the trial")]]
    end_state: NotRequired[Annotated[Any, Key("the world at the end, if the scenario does not check it yet")]]
    invariants: NotRequired[Annotated[Sequence[Any], Key("rules that also hold in it")]]


class _IncludedSuite(TypedDict, total=False):
    invariants: Annotated[Sequence[Any], Key("rules that also hold in every scenario")]
    irreversible: Annotated[Names, Key("tools that must not succeed twice with equal arguments")]


class _IncludedFile(TypedDict, total=False):
    suite: Annotated[_IncludedSuite, Key("what is added to the suite")]
    scenarios: Annotated[Sequence[_Addition], Key("what is added to scenarios")]


class Included(Struct, frozen=True, kw_only=True):
    """What the included files add."""

    invariants: tuple[Any, ...] = ()
    irreversible: tuple[str, ...] = ()
    scenarios: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Keys by scenario."""

    def added(self, made: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keys of a scenario with what is added to it."""
        more = self.scenarios.get(made.get("name", ""))
        if more is None:
            return made
        changed = dict(made)
        if "expect" in more:
            changed["expect"] = merge_expect(made.get("expect"), more["expect"])
        if "end_state" in more:
            changed["end_state"] = more["end_state"]
        if "invariants" in more:
            changed["invariants"] = (*made.get("invariants", ()), *more["invariants"])
        return changed


NOTHING = Included()


def merge_expect(own: Expect | None, more: Expect) -> Expect:
    """Both expectations: lists are joined, other keys are taken from `more`."""
    if own is None:
        return more
    made = asdict(own)
    for key, value in given(more).items():
        known = made[key]
        made[key] = (*known, *(one for one in value if one not in known)) if isinstance(value, tuple) else value
    return Expect(**made)


def read_included(files: Sequence[str], folder: Path, where: KeyPath, problems: Problems) -> Included:
    """What the files add. Reports what is wrong with them at the key `include` of the suite."""
    invariants: list[Any] = []
    irreversible: list[str] = []
    scenarios: dict[str, dict[str, Any]] = {}
    for name in files:
        content = _read(folder / name, name, where, problems)
        suite = content.get("suite") or {}
        invariants += suite.get("invariants", ())
        irreversible += suite.get("irreversible", ())
        for addition in content.get("scenarios", ()):
            made = scenarios.setdefault(addition["name"], {})
            if "expect" in addition:
                made["expect"] = merge_expect(made.get("expect"), addition["expect"])
            if "end_state" in addition:
                if "end_state" in made:
                    report_second_end_state(addition["name"], where, problems)
                made["end_state"] = addition["end_state"]
            made["invariants"] = (*made.get("invariants", ()), *addition.get("invariants", ()))
    return Included(invariants=tuple(invariants), irreversible=tuple(irreversible), scenarios=scenarios)


def _read(path: Path, name: str, where: KeyPath, problems: Problems) -> Mapping[str, Any]:
    from . import yaml_files
    from .suite_files import read_text

    found = Problems()
    try:
        content = yaml_files.parse(read_text(path)).data
    except UnreadableFile as unreadable:
        problems.add(where, f"{name}: {unreadable.message}", "Its path starts at the folder of the suite's file")
        return {}
    made: Mapping[str, Any] = struct_reader(_IncludedFile).read_keys(content, (), found) or {}
    suite = dict(made.get("suite") or {})
    if "invariants" in suite:
        suite |= _read_checks(suite, ("suite",), found)
    scenarios = [
        {**each, **_read_checks(each, ("scenarios", index), found)}
        for index, each in enumerate(made.get("scenarios") or ())
    ]
    for problem in found.found:
        problems.add(where, f"{name}: {path_text(problem.where)}: {problem.message}", problem.suggestion)
    return {} if found.found else {"suite": suite, "scenarios": scenarios}


def _read_checks(content: Mapping[str, Any], where: KeyPath, problems: Problems) -> dict[str, Any]:
    """The values of keys that hold evaluators."""
    readers = {"invariants": ListOf(named_reader("Invariant")), "end_state": named_reader("EndState")}
    return {
        key: reader.read(content[key], (*where, key), problems) for key, reader in readers.items() if key in content
    }


def report_second_end_state(name: str, where: KeyPath, problems: Problems) -> None:
    """One of the two would not be checked."""
    problems.add(where, f"the scenario {name!r} has two 'end_state'", "Write both into one, in the scenario")


def check_included(included: Included, names: Sequence[str], where: KeyPath, problems: Problems) -> None:
    """Report additions to scenarios that the suite does not have."""
    for name in included.scenarios:
        if name not in names:
            problems.add(
                where, f"adds to the scenario {name!r}, which the suite does not have", did_you_mean(name, names)
            )
