"""An entry of a trajectory: which calls it accepts, how often, how it reads, and what is refused in it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import fields, replace

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall
from seatrial.model.scenario import ExpectedCall

from .matchers import argument_differences, shown, subset
from .redacted import includes_surely
from .validation import arguments, choice, did_you_mean, flag, text

_KEYS = tuple(field.name for field in fields(ExpectedCall))
_BOUNDS = ("count", "min", "max")


class Alternative(NamedTuple):
    """One call that an entry accepts."""

    name: str
    args: Mapping[str, Any] | None
    """None: any arguments."""
    exact: bool

    def accepts(self, call: ToolCall) -> bool:
        if call.name != self.name:
            return False
        if self.args is None:
            return True
        made = call.args
        return made is not None and subset(self.args, made, exact=self.exact)

    def accepts_surely(self, call: ToolCall) -> bool | None:
        """The same; None where it depends on a secret that was taken out of the arguments."""
        made = call.args
        if call.name != self.name or self.args is None or made is None or (self.exact and len(made) != len(self.args)):
            return self.accepts(call)
        return includes_surely(self.args, made)


class Entry(NamedTuple):
    """An entry with its defaults worked out."""

    alternatives: tuple[Alternative, ...]
    low: int
    """How many calls it needs."""
    high: int | None
    """How many it can take; None: any number."""
    capped: bool
    """The number of calls that match it is limited on purpose, by count, max or optional."""

    @property
    def label(self) -> str:
        """Its names: `book`, `update|delete`."""
        return "|".join(each.name for each in self.alternatives)

    @property
    def words(self) -> str:
        """The whole entry for people: `create_booking(service='haircut') x2`."""
        return self.call_words + self._times()

    @property
    def call_words(self) -> str:
        """One call that it asks for: `create_booking(service='haircut')`."""
        return "|".join(_alternative_in_words(each) for each in self.alternatives)

    def accepts(self, call: ToolCall) -> bool:
        return any(each.accepts(call) for each in self.alternatives)

    def differences(self, call: ToolCall) -> list[str]:
        """Why a call of one of its names is not accepted, argument by argument; empty for other calls."""
        for each in self.alternatives:
            if each.name == call.name and each.args is not None:
                if call.args is None:
                    return [f"{call.name}: arguments are not a mapping, got {shown(call.arguments)}"]
                found = argument_differences(each.args, call.args, exact=each.exact)
                return [f"{call.name}.{difference}" for difference in found]
        return []

    def _times(self) -> str:
        if not self.capped and self.high == 1:
            return ""
        if self.low == self.high:
            return f" x{self.low}"
        if self.high is None:
            return f" x{self.low} or more"
        return " (optional)" if (self.low, self.high) == (0, 1) else f" x{self.low}-{self.high}"


def _alternative_in_words(each: Alternative) -> str:
    if each.args is None:
        return each.name
    inside = ", ".join(f"{key}={shown(value)}" for key, value in each.args.items())
    return f"{each.name}({inside})" + (" exactly" if each.exact else "")


def call_in_words(call: ToolCall) -> str:
    """A call that was made: `create_booking(service='haircut')`."""
    if call.arguments is None:
        return call.name
    if call.args is None:
        return f"{call.name}({shown(call.arguments)})"
    return f"{call.name}({', '.join(f'{key}={shown(value)}' for key, value in call.args.items())})"


def entry_of(expected: ExpectedCall) -> Entry:
    """The entry that an expected call stands for."""
    alternatives = tuple(_alternative(each) for each in expected.any_of or (expected,))
    if expected.count is not None:
        return Entry(alternatives, expected.count, expected.count, True)
    if expected.optional:
        return Entry(alternatives, 0, 1, True)
    if expected.max is not None:
        return Entry(alternatives, expected.min or 0, expected.max, True)
    if expected.min is not None:
        return Entry(alternatives, expected.min, None, False)
    return Entry(alternatives, 1, 1, False)


def _alternative(expected: ExpectedCall) -> Alternative:
    args = None if expected.arg_match == "ignore" else expected.args
    return Alternative(expected.name or "", args, expected.arg_match == "exact")


def expected_call(where: str, value: Any, *, counted: bool = True) -> ExpectedCall:
    """The expected call that was meant: an ExpectedCall, a mapping as in files, or a plain name; checked."""
    if isinstance(value, str):
        call = ExpectedCall(name=value)
    elif isinstance(value, ExpectedCall):
        call = replace(value, any_of=_alternatives(where, value.any_of))
    elif isinstance(value, Mapping):
        call = _from_mapping(where, value)
    else:
        raise UsageError(f"{where}: expected a tool's name or a mapping with one, got {shown(value)}.")
    _check(where, call, counted=counted)
    return call


def _from_mapping(where: str, value: Mapping[str, Any]) -> ExpectedCall:
    for key in value:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}.{did_you_mean(key, _KEYS)}")
    if value.get("any_of", True) in ([], ()):
        raise UsageError(f"{where}.any_of: expected a list of alternatives, got an empty one.")
    return ExpectedCall(**{**value, "any_of": _alternatives(where, value.get("any_of", ()))})


def _alternatives(where: str, options: Any) -> tuple[ExpectedCall, ...]:
    if not isinstance(options, (list, tuple)):
        raise UsageError(f"{where}.any_of: expected a list of alternatives, got {shown(options)}.")
    return tuple(
        expected_call(f"{where}.any_of[{index}]", option, counted=False) for index, option in enumerate(options)
    )


def _check(where: str, call: ExpectedCall, *, counted: bool) -> None:
    if (call.name is None) != bool(call.any_of):
        raise UsageError(f"{where}: give exactly one of name and any_of.")
    if call.any_of and (call.args is not None or call.arg_match is not None):
        raise UsageError(f"{where}: args belong to each alternative of any_of, not beside it.")
    for index, option in enumerate(call.any_of):
        if option.any_of:
            raise UsageError(f"{where}.any_of[{index}]: an alternative cannot have alternatives; list them all here.")
    if call.name is not None and not text(f"{where}.name", call.name).strip():
        raise UsageError(f"{where}.name: expected a tool's name, got {call.name!r}.")
    if call.args is not None:
        arguments(f"{where}.args", call.args)
    if call.arg_match is not None:
        choice(f"{where}.arg_match", call.arg_match, ("partial", "exact", "ignore"))
    _check_times(where, call, counted=counted)


def _check_times(where: str, call: ExpectedCall, *, counted: bool) -> None:
    given = [key for key in _BOUNDS if getattr(call, key) is not None]
    for key in given:
        bound = getattr(call, key)
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 0:
            raise UsageError(f"{where}.{key}: expected a whole number that is not negative, got {shown(bound)}.")
    if flag(f"{where}.optional", call.optional):
        given.append("optional")
    if given and not counted:
        raise UsageError(f"{where}: {given[0]} has no meaning here; only entries under expected are counted.")
    if len(given) > 1 and given != ["min", "max"]:
        raise UsageError(f"{where}: {' and '.join(given)} cannot stand together; use min and max.")
    if call.min is not None and call.max is not None and call.min > call.max:
        raise UsageError(f"{where}: min {call.min} is greater than max {call.max}.")
