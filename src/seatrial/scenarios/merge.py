"""The settings of a scenario: flags before its own keys, before the suite's config, before the defaults."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from seatrial.errors import UsageError
from seatrial.model.keys import declared_keys
from seatrial.model.scenario import (
    SHARED_KEYS,
    Attacks,
    GateSpec,
    Scenario,
    SequentialSpec,
    Settings,
    SuiteConfig,
    User,
    World,
)

from .formats import define, merge_metrics, select_metrics
from .keys import CONFIG
from .problems import Problems
from .value_readers import given


def _defaults(kind: type) -> dict[str, Any]:
    return {name: one.key.default for name, one in declared_keys(kind).items() if one.key.default is not None}


DEFAULTS: Mapping[str, Any] = _defaults(Settings)
CONFIG_DEFAULTS: Mapping[str, Any] = _defaults(SuiteConfig)
TRIALS_OF_SIMULATED_USER = 3
CONFIDENCE: float = _defaults(GateSpec)["confidence"]
SEQUENTIAL = SequentialSpec(**_defaults(SequentialSpec))


def read_overrides(overrides: Mapping[str, Any] | SuiteConfig | None) -> SuiteConfig:
    """Flags as a config: the same keys as in `suite.config`, checked the same way."""
    if overrides is None:
        return SuiteConfig()
    problems = Problems(python=True)
    config = CONFIG.read(overrides, (), problems)
    if config is None:
        raise UsageError("\n".join(str(problem.placed("")) for problem in problems.found))
    assert isinstance(config, SuiteConfig)
    return config


def merge_config(config: SuiteConfig, overrides: SuiteConfig) -> SuiteConfig:
    """The suite's config, changed by the flags."""
    made = given(config)
    for key, value in given(overrides).items():
        made[key] = _combine(key, made[key], value) if key in made else value
    return SuiteConfig(**made)


class Resolver:
    """Fills in the settings of the scenarios of one suite."""

    def __init__(
        self,
        config: SuiteConfig,
        overrides: Mapping[str, Any] | SuiteConfig | None = None,
        *,
        definitions: Mapping[str, Any] | None = None,
        invariants: Sequence[Any] = (),
        world: World | None = None,
        attacks: Attacks | None = None,
        added: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda made: made,
    ) -> None:
        """`definitions` are the metrics of the suite's metrics_file; `invariants`, `world` and
        `attacks` are the suite's.

        `added` gives the keys of a scenario with what included files add to it.
        """
        self._definitions = definitions
        self.invariants = invariants
        self._world = world
        self.attacks = attacks
        self._added = added
        self.overrides = overrides if isinstance(overrides, SuiteConfig) else read_overrides(overrides)
        self.config = config
        self._base = {key: value for key in SHARED_KEYS if (value := getattr(config, key)) is not None}
        self._flags = {key: value for key in SHARED_KEYS if (value := getattr(self.overrides, key)) is not None}
        self._scorers = self.overrides.default_scorers or config.default_scorers

    def resolve(self, scenario: Scenario) -> Scenario:
        """The scenario with all settings."""
        return self.resolve_keys(given(scenario))

    def resolve_keys(self, keys: Mapping[str, Any]) -> Scenario:
        """The same, from the keys that the scenario gives."""
        made = dict(self._added(keys))
        for key, value in self._base.items():
            own = made.get(key)
            made[key] = value if own is None else _combine(key, value, own)
        if "thresholds" in self._base:
            _drop_inherited(made, keys)
        for key, value in self._flags.items():
            own = made.get(key)
            made[key] = value if own is None else _combine(key, own, value)
        for key, value in DEFAULTS.items():
            if made.get(key) is None:
                made[key] = value
        if self._world is not None:
            made["world"] = merge_world(self._world, made.get("world"))
        if self.attacks is not None:
            own_attacks = made.get("attacks")
            made["attacks"] = Attacks(**{**given(self.attacks), **(given(own_attacks) if own_attacks else {})})
        self._settle(made, keys)
        if self.invariants or made.get("exempt"):
            made["invariants"] = self._rules(made)
        return Scenario(**made)

    def _rules(self, made: Mapping[str, Any]) -> tuple[Any, ...]:
        """The rules of the suite and of the scenario, without those from which it is exempt."""
        exempt = made.get("exempt") or {}
        return tuple(rule for rule in (*self.invariants, *made.get("invariants", ())) if rule.title not in exempt)

    def _settle(self, made: dict[str, Any], keys: Mapping[str, Any]) -> None:
        """Fill in what depends on other keys."""
        if made.get("unmocked_tools") is None:
            made["unmocked_tools"] = default_unmocked_tools(
                made.get("mocks") or made.get("mocks_from"), made.get("world")
            )
        if made.get("trials") is None:
            made["trials"] = TRIALS_OF_SIMULATED_USER if isinstance(made.get("user"), User) else 1
        if made["trials"] == "auto":
            made["sequential"] = _combine("sequential", SEQUENTIAL, made.get("sequential") or SEQUENTIAL)
        elif keys.get("sequential") is None or self.overrides.trials is not None:
            made["sequential"] = None  # the suite's applies to scenarios with `trials: auto` only
        turns = made.get("turns")
        if turns and len(turns) > made["max_turns"] and self.given_max_turns(keys) is None:
            made["max_turns"] = len(turns)
        if made.get("metrics") is not None:
            made["metrics"] = select_metrics(made["metrics"])
            if self._definitions:
                made["metrics"] = define(made["metrics"], self._definitions)
        gate = made.get("gate")
        if gate is not None and gate.confidence is None:
            made["gate"] = GateSpec(pass_rate=gate.pass_rate, confidence=CONFIDENCE)
        if made.get("failures") is None:
            made["failures"] = made.get("fail_on_error_severity") is not None
        if made["failures"] and made.get("fail_on_error_severity") is None:
            made["fail_on_error_severity"] = "critical"
        if made.get("scorers") is None:
            made["scorers"] = self._scorers or (("passfail",) if _has_passfail(made) else None)

    def given_max_turns(self, keys: Mapping[str, Any]) -> int | None:
        """The max_turns of a flag, the scenario or the suite; None if it is the default."""
        for limit in (self.overrides.max_turns, keys.get("max_turns"), self.config.max_turns):
            if limit is not None:
                return int(limit)
        return None


def default_unmocked_tools(
    mocks: Mapping[str, Any] | str | None, world: World | None = None
) -> Literal["error", "passthrough"]:
    """With mocks, recorded calls or a world, no other tool runs for real; without, the agent is tested as it is."""
    return "error" if mocks or world is not None else "passthrough"


def merge_world(base: World, own: World | None) -> World:
    """The world of a scenario: its own keys before those of the suite, and its seed over the suite's."""
    if own is None:
        return base
    merged = {**given(base), **given(own)}
    if own.seed is not None and base.seed is not None:
        merged["base"] = base.seed
    return World(**merged)


def _has_passfail(made: Mapping[str, Any]) -> bool:
    if made.get("input") is not None:
        return True
    return any(made.get(key) is not None for key in ("expected_output", "expected_tools", "expected_tool_args"))


def _drop_inherited(made: dict[str, Any], keys: Mapping[str, Any]) -> None:
    """Remove the suite's thresholds for metrics that the scenario does not select."""
    selected = {choice.name for choice in select_metrics(made.get("metrics") or ())} | set(keys.get("thresholds") or ())
    made["thresholds"] = {name: value for name, value in made["thresholds"].items() if name in selected} or None


def _combine(key: str, base: Any, own: Any) -> Any:
    """The value of a key that both have."""
    rule = SHARED_KEYS[key].key.merge if key in SHARED_KEYS else "replace"
    if rule == "metrics":
        return merge_metrics(base, own)
    if rule == "replace":
        return own
    return {**base, **own} if isinstance(base, Mapping) else type(base)(**{**given(base), **given(own)})
