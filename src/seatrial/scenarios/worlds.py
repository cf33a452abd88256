"""The world of a scenario, from its keys: the seed is read, and the tools are imported."""

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.foreign.import_path import import_attribute, is_import_path
from seatrial.model.scenario import Scenario, World
from seatrial.tools.world import NOW, PreparedWorld, Seed
from seatrial.tools.world_tools import WorldTool, read_world_tools

from . import yaml_files
from .problems import UnreadableFile

_KEPT_SEEDS = 32


def prepare_world(world: World, *, where: str = "", timeout_seconds: float = 30.0) -> PreparedWorld:
    """The world, ready to be opened for trials. Raises UsageError."""
    place = f"{where}world"
    if world.tools is None:
        raise UsageError(f"{place}: 'tools' is missing: the functions that act on the state.")
    tools = find_world_tools(world, where=where)
    unknown = [name for name in world.ends if name not in tools]
    if unknown:
        raise UsageError(f"{place}.ends: there is no tool {unknown[0]!r}. The world has: {', '.join(sorted(tools))}.")
    now = NOW if world.now is None else datetime.fromisoformat(world.now)
    return PreparedWorld(
        seed=find_seed(world, where=where),
        tools=tools,
        ends=frozenset(world.ends),
        errors=world.errors,
        drift=world.drift or "note",
        now=now if now.tzinfo is not None else now.replace(tzinfo=UTC),
        timeout_seconds=timeout_seconds,
    )


def world_of(scenario: Scenario) -> PreparedWorld | None:
    """The scenario's world; None if it has none."""
    if scenario.world is None:
        return None
    place = f"{scenario.source}: " if scenario.source else ""
    seconds = scenario.timeout_seconds
    return prepare_world(scenario.world, where=place, timeout_seconds=30.0 if seconds is None else seconds)


def find_world_tools(world: World, *, where: str = "") -> dict[str, WorldTool]:
    """The tools of a world by name. Raises UsageError."""
    place = f"{where}world.tools"
    return read_world_tools(_import_tools(world.tools, place), where=place)


def _import_tools(given: Any, where: str) -> Any:
    if isinstance(given, list | tuple):
        return [_import_tools(each, where) for each in given]
    if not isinstance(given, str):
        return given
    if is_import_path(given):
        return import_attribute(given, what=where)
    try:
        return importlib.import_module(given)
    except ModuleNotFoundError as missing:
        if missing.name is not None and given.startswith(missing.name):
            # The attribute does not matter: the module cannot be imported.
            return import_attribute(f"{given}:tools", what=where)
        raise UsageError(f"{where}: importing {given!r} failed: {missing}.") from None
    except (Exception, SystemExit) as cause:
        raise UsageError(f"{where}: importing {given!r} failed: {type(cause).__name__}: {cause}.") from None


def find_seed(world: World, *, where: str = "") -> Seed:
    """The seed of a scenario: its own, merged over the suite's. Raises UsageError."""
    place = f"{where}world.seed"
    if world.base is None:
        return Seed({}) if world.seed is None else _read_seed(world.seed, place)
    overlay = world.seed if isinstance(world.seed, Mapping) else _read_seed(world.seed, place).value
    with _seed_problems(place):
        return _read_seed(world.base, place).merged(overlay)


def _read_seed(given: Any, where: str) -> Seed:
    with _seed_problems(where):
        if isinstance(given, Mapping):
            return _make_seed(given)
        if isinstance(given, str) and not is_import_path(given):
            path = Path(given)
            try:
                stat = path.stat()
            except OSError as problem:
                raise _NoSeed(f"{given}: cannot be read: {problem.strerror}.") from None
            return _seed_file(path, (stat.st_mtime_ns, stat.st_size))
        return _seed_function(import_attribute(given, what=where) if isinstance(given, str) else given)


class _NoSeed(Exception):
    """What is wrong with a seed, without the place of the scenario: all scenarios share what is read."""


@lru_cache(maxsize=_KEPT_SEEDS)
def _seed_file(path: Path, stamp: tuple[int, int]) -> Seed:
    """Cached: all scenarios of a suite have the same file. `stamp`: its time and size, as it may change."""
    try:
        text = path.read_text("utf-8-sig")
        value = json.loads(text) if path.suffix.lower() == ".json" else yaml_files.parse(text).data
    except (OSError, ValueError, RecursionError) as problem:
        raise _NoSeed(f"{path}: cannot be read: {problem}.") from None
    except UnreadableFile as problem:
        raise _NoSeed(problem.placed(str(path))) from None
    try:
        with _seed_problems(str(path)):
            return _make_seed(value)
    except UsageError as problem:
        raise _NoSeed(str(problem)) from None


@lru_cache(maxsize=_KEPT_SEEDS)
def _seed_function(function: Any) -> Seed:
    """Called once in a process: all trials begin with the same state."""
    try:
        value = function()
    except (Exception, SystemExit) as cause:
        raise _NoSeed(f"the function raised {type(cause).__name__}: {cause}.") from None
    return _make_seed(value)


def _make_seed(value: Any) -> Seed:
    if not isinstance(value, Mapping):
        raise _NoSeed(f"a seed is a mapping, got {value!r:.100}.")
    return Seed(value)


@contextmanager
def _seed_problems(where: str) -> Iterator[None]:
    """Raise UsageError, with the place, for values that a seed cannot hold."""
    try:
        yield
    except _NoSeed as problem:
        raise UsageError(f"{where}: {problem}") from None
    except OverflowError:
        raise UsageError(f"{where}: the seed contains a number that is too large.") from None
    except UnicodeEncodeError as problem:
        text = f"{problem.object[problem.start : problem.end]!r}"
        raise UsageError(f"{where}: the seed contains {text}, which is half of a character.") from None
