"""All problems of a `mocks:` mapping, found before any agent is called."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from seatrial.model.faults import FAULTS
from seatrial.model.struct import Struct

from .faults import can_be_truncated

SOURCES = ("returns", "sequence", "raises", "python", "fault")
"""Keys that give an answer. A mock has one of them; some faults also have `returns`."""
KEYS = (*SOURCES, "when", "delay_ms")
Path = tuple[str | int, ...]
CheckArgs = Callable[[Any], Sequence[str]]


class MockProblem(Struct, frozen=True, kw_only=True):
    """One problem, and the place of its key under `mocks:`."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{show_path(self.path)}: {self.message}"


def show_path(path: Path) -> str:
    """A path as users write it: `create_booking.sequence[0].returns`."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".") or "mocks"


def check_mocks(specs: Any, *, check_args: CheckArgs | None = None) -> list[str]:
    """All problems of a `mocks:` mapping as texts."""
    return [str(problem) for problem in find_problems(specs, check_args=check_args)]


def find_problems(specs: Any, *, check_args: CheckArgs | None = None) -> list[MockProblem]:
    """All problems with their key paths. `check_args` checks the arguments in `when`."""
    if specs is None:
        return []
    if not isinstance(specs, Mapping):
        return [
            MockProblem(
                path=(), message=f"expected a mapping such as {{lookup_order: {{returns: …}}}}, got {_show(specs)}"
            )
        ]
    return [problem for name, spec in specs.items() for problem in _tool_problems(name, spec, check_args)]


def _tool_problems(name: Any, spec: Any, check_args: CheckArgs | None) -> Iterator[MockProblem]:
    if not isinstance(name, str) or not name.strip():
        yield MockProblem(path=(str(name),), message=f"expected the name of a tool, got {_show(name)}")
    elif callable(spec):
        return
    elif not isinstance(spec, Mapping):
        example = f"{name}: {{returns: {_show(spec)}}}"
        yield MockProblem(path=(name,), message=f"expected a mapping such as {example}, got {_show(spec)}")
    else:
        yield from _mock_problems((name,), spec, check_args)


def _mock_problems(
    path: Path, spec: Mapping[Any, Any], check_args: CheckArgs | None, *, inside: str = ""
) -> Iterator[MockProblem]:
    known = (*KEYS, "args") if inside == "when" else KEYS
    for key in spec:
        if key not in known:
            yield MockProblem(path=(*path, str(key)), message=f"unknown key {key!r}. {_suggest(key, known)}")
    if inside and inside in spec:
        yield MockProblem(path=(*path, inside), message=f"a {inside!r} cannot stand directly inside another")
        return
    yield from _source_problems(path, spec)
    yield from _scalar_problems(path, spec)
    if "sequence" in spec:
        yield from _sequence_problems((*path, "sequence"), spec["sequence"], check_args)
    if "when" in spec:
        yield from _when_problems((*path, "when"), spec["when"], check_args)


def _source_problems(path: Path, spec: Mapping[Any, Any]) -> Iterator[MockProblem]:
    given = [key for key in SOURCES if key in spec]
    if spec.get("fault") in ("truncated", "empty", "slow"):
        message = _lacks_result(spec)
        if message is not None:
            yield MockProblem(path=(*path, "fault"), message=message)
        given = [key for key in given if key != "returns"]
    if not given and "when" not in spec:
        yield MockProblem(path=path, message=f"gives no answer; give one of {', '.join(SOURCES)} or when")
    if len(given) > 1:
        yield MockProblem(path=path, message=f"gives {' and '.join(given)}; only one of them can answer")


def _lacks_result(spec: Mapping[Any, Any]) -> str | None:
    """What is wrong with the result that a fault alters; None if nothing is."""
    if spec["fault"] == "truncated" and not can_be_truncated(spec.get("returns")):
        return "'truncated' needs 'returns' beside it, with a mapping, a list or a text to cut"
    if spec["fault"] == "slow" and "returns" not in spec:
        return "'slow' needs 'returns' beside it, with the result that comes late"
    return None


def _scalar_problems(path: Path, spec: Mapping[Any, Any]) -> Iterator[MockProblem]:
    for key, is_right, expected in (
        ("raises", _is_text, "the text of the tool's error"),
        ("python", _is_function, "a function as pkg.mod:name"),
        ("fault", FAULTS.__contains__, f"one of {', '.join(FAULTS)}"),
        ("delay_ms", _is_duration, "milliseconds, 0 or more"),
    ):
        if key in spec and not is_right(spec[key]):
            yield MockProblem(path=(*path, key), message=f"expected {expected}, got {_show(spec[key])}")


def _sequence_problems(path: Path, entries: Any, check_args: CheckArgs | None) -> Iterator[MockProblem]:
    if not isinstance(entries, list | tuple) or not entries:
        yield MockProblem(path=path, message=f"expected a list of answers, got {_show(entries)}")
        return
    for index, entry in enumerate(entries):
        if isinstance(entry, Mapping):
            yield from _mock_problems((*path, index), entry, check_args, inside="sequence")


def _when_problems(path: Path, entries: Any, check_args: CheckArgs | None) -> Iterator[MockProblem]:
    if not isinstance(entries, list | tuple) or not entries:
        yield MockProblem(path=path, message=f"expected a list of {{args, returns}} entries, got {_show(entries)}")
        return
    for index, entry in enumerate(entries):
        place = (*path, index)
        if not isinstance(entry, Mapping):
            yield MockProblem(path=place, message=f"expected a mapping such as {{args, returns}}, got {_show(entry)}")
            continue
        args = entry.get("args")
        if not isinstance(args, Mapping) or not args:
            message = f"expected the arguments to look for, got {_show(args)}; an answer to any call stands beside when"
            yield MockProblem(path=(*place, "args"), message=message)
        elif check_args is not None:
            for text in check_args(args):
                yield MockProblem(path=(*place, "args"), message=text)
        yield from _mock_problems(place, entry, check_args, inside="when")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_function(value: Any) -> bool:
    if not isinstance(value, str):
        return callable(value)
    module, colon, name = value.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _suggest(key: Any, known: Sequence[str]) -> str:
    close = get_close_matches(str(key), known, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(known)}. A result that is a mapping stands under 'returns'"


def _show(value: Any) -> str:
    """The value for an error text, shortened."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
