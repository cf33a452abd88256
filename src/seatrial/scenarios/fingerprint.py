"""A hash of everything that decides a scenario's verdict: it changes with every edit that matters."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.keys import declared_keys
from seatrial.model.scenario import Scenario, World
from seatrial.model.struct import field_defaults, field_names

from .merge import default_unmocked_tools
from .value_readers import given

_DECIDING_METADATA = {"regex_pattern", "exact_normalize", "similarity_threshold"}
_FOR_PEOPLE = ("name", "description", "tags", "metadata", "skip", "xfail", "source", "examples", "exempt", "attacks")
_OVER_TRIALS = ("trials", "threshold", "gate", "sequential", "thresholds", "fail_on_error_severity", "must_pass")
"""Keys that decide about all trials together, but not about a single one."""
_NUMBERS = (
    *("max_turns", "timeout_seconds", "trial_timeout_seconds", "retries", "pass_threshold", "failures", "judge_votes"),
)
"""Settings that decide about a trial."""
_DEFAULTS = field_defaults(Scenario)
_KEYS = declared_keys(Scenario)
_APART = ("unmocked_tools", "on_failure", *_FOR_PEOPLE, *_OVER_TRIALS, *_NUMBERS)
_DECIDING = tuple(name for name in _DEFAULTS if name not in _APART)
_MAX_DEPTH = 20


def fingerprints(scenario: Scenario, agent_key: str, *, evaluators: Mapping[str, Any] | None = None) -> tuple[str, str]:
    """(whole, of a trial): the hash of what decides the verdict, and of what decides one trial, without the agent.

    `evaluators` are the suite's custom ones. Those that the scenario names are hashed by their source.
    """
    deciding = {name: value for name in _DECIDING if not _is_default(name, value := getattr(scenario, name))}
    if scenario.metadata:
        given_keys = scenario.metadata.keys() & _DECIDING_METADATA
        deciding |= {f"metadata.{key}": scenario.metadata[key] for key in given_keys}
    if evaluators and scenario.scorers:
        from .build_evaluators import scorer_names

        names = scorer_names(scenario.scorers)
        deciding["custom"] = {name: evaluators[name] for name in names if name in evaluators}
    if functions := {target: _imported(target) for target in _mock_functions(scenario.mocks)}:
        deciding["mock functions"] = functions
    if scenario.mocks_from is not None:
        deciding["mocks_from"] = _recorded(scenario)
    if scenario.world is not None:
        deciding["world"] = _world(scenario.world)
    numbers = (_unmocked_tools(scenario), *(getattr(scenario, name) for name in _NUMBERS))
    over_trials = (
        *(getattr(scenario, name) for name in _OVER_TRIALS),
        scenario.skip is not None,
        scenario.xfail is not None,
        agent_key,
        # Sweeps over faults use it. It decides nothing in other runs, whose trials stay comparable.
        *(() if scenario.on_failure is None else (_canonical(scenario.on_failure),)),
    )
    of_trial = _hash(f"{_canonical(deciding)}{numbers!r}")
    return _hash(f"{of_trial}{over_trials!r}"), of_trial


def _is_default(name: str, value: Any) -> bool:
    """Whether the value decides nothing. A key that is new leaves the hashes of stored runs as they are."""
    return value is _DEFAULTS[name] or (_KEYS[name].key.default is not None and value == _KEYS[name].key.default)


def _recorded(scenario: Scenario) -> Any:
    """The recorded calls by their content; the name of the file if it cannot be read."""
    from .cassette_files import load_recorded

    try:
        recorded = load_recorded(scenario)
    except UsageError:
        return scenario.mocks_from  # building the tools reports the problem
    return None if recorded is None else recorded.calls


def _world(world: World) -> dict[str, Any]:
    """The world by its content: the hash of the seed, and the source of the tools."""
    from .worlds import find_seed, find_world_tools

    settings = {key: value for key, value in given(world).items() if key not in ("seed", "base", "tools")}
    tools = {} if world.tools is None else find_world_tools(world)
    return {
        **settings,
        "seed": find_seed(world).hash,
        "tools": {name: tool.function for name, tool in tools.items()},
    }


def _unmocked_tools(scenario: Scenario) -> str:
    """The setting, as hashed. The default is "error", with and without mocks: older stored runs can be resumed."""
    default = default_unmocked_tools(scenario.mocks or scenario.mocks_from, scenario.world)
    given = scenario.unmocked_tools or default
    if given == default:
        return "error"
    return given if scenario.mocks else f"{given} without mocks"


def _mock_functions(mocks: Any) -> Iterator[str]:
    """The functions that mocks name as `python: pkg.mod:fn`; they are hashed by their source."""
    for mock in mocks.values() if isinstance(mocks, Mapping) else mocks or ():
        if isinstance(mock, Mapping):
            if isinstance(mock.get("python"), str):
                yield mock["python"]
            for parts in (mock.get("when"), mock.get("sequence")):
                yield from _mock_functions(parts)


def _imported(target: str) -> Any:
    from seatrial.tools.mocks import find_function

    try:
        return find_function(target, where="mocks")
    except UsageError:
        return target  # building the mock reports the problem


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]


def _canonical(value: Any) -> str:
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError):
        # Keys of several types, or an object that contains itself.
        return _encode(_tame(value, 0))


def _tame(value: Any, depth: int) -> Any:
    """The value with text keys at every level, cut at a depth that only circular values reach."""
    if depth > _MAX_DEPTH:
        return f"<{type(value).__qualname__}>"
    if isinstance(value, Mapping):
        return {f"{type(key).__name__} {key}": _tame(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_tame(item, depth + 1) for item in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    return _tame(_plain(value), depth + 1)


def _plain(value: Any) -> Any:
    """A JSON value that identifies the object: never its address in memory."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(_canonical(item) for item in value)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if field_names(value) is not None and not isinstance(value, type):
        named = {"type": type(value).__qualname__, **given(value)}
        return named if type(value).__module__.startswith("seatrial.") else {**named, "source": _source(type(value))}
    if isinstance(value, type):
        return {"type": value.__qualname__, "source": _source(value)}
    if hasattr(value, "__func__"):
        return {"method": value.__func__, "of": value.__self__}
    if hasattr(value, "__code__"):
        return _function(value)
    if hasattr(value, "func") and hasattr(value, "keywords"):
        return {"partial": value.func, "args": value.args, "keywords": value.keywords}
    state = getattr(value, "__dict__", None)
    return {"type": type(value).__qualname__, "source": _source(type(value)), "state": state}


def _function(function: Any) -> dict[str, Any]:
    return {
        "function": function.__qualname__,
        "source": _source(function),
        "defaults": [function.__defaults__, function.__kwdefaults__],
        "closure": [_cell(cell, function) for cell in function.__closure__ or ()],
    }


def _cell(cell: Any, function: Any) -> Any:
    try:
        return None if cell.cell_contents is function else cell.cell_contents
    except ValueError:
        return None


def _source(thing: Any) -> str:
    """The source text; without one, the compiled code or the name."""
    from inspect import getsource

    try:
        return getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        if code is None:
            return str(getattr(thing, "__qualname__", ""))
        constants = [constant for constant in code.co_consts if not hasattr(constant, "co_code")]
        return f"{code.co_code.hex()} {code.co_names} {constants!r}"


_encode = json.JSONEncoder(sort_keys=True, default=_plain, separators=(",", ":")).encode
