"""What holds for a scenario in the end: flags over its own keys over the suite's config over the defaults."""

from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

from seatrial.errors import UsageError
from seatrial.vocabulary.scenario import SHARED_KEYS, GateSpec, Scenario, SequentialSpec, Settings, SuiteConfig, User

from .kinds import given
from .metrics import define, merge_metrics, select_metrics
from .problems import Complaints, Problem, path_text
from .shape import CONFIG

DEFAULTS: Mapping[str, Any] = {
    "threshold": 1.0,
    "max_turns": 8,
    "timeout_seconds": 30.0,
    "trial_timeout_seconds": 600.0,
    "retries": 0,
    "pass_threshold": 75.0,
    "unmocked_tools": "error",
}
TRIALS_OF_SIMULATED_USER = 3
CONFIDENCE = 0.95
SEQUENTIAL = SequentialSpec(good=0.9, bad=0.7, alpha=0.05, beta=0.05, max_trials=60)
_FIELDS = tuple(field.name for field in fields(Scenario))
_values = attrgetter(*_FIELDS)
_MAPS = ("mocks", "thresholds", "severities")
_RECORDS = ("models", "limits", "gate", "sequential")
_S = TypeVar("_S", bound=Settings)


def resolve(
    scenario: Scenario, config: SuiteConfig, overrides: Mapping[str, Any] | SuiteConfig | None = None
) -> Scenario:
    """The scenario with everything that holds for it filled in."""
    return Resolver(config, overrides).resolve(scenario)


def read_overrides(overrides: Mapping[str, Any] | SuiteConfig | None) -> SuiteConfig:
    """Flags as a config: the same keys as in `suite.config`, checked the same way."""
    if overrides is None:
        return SuiteConfig()
    complaints = Complaints(python=True)
    config = CONFIG.read(overrides, (), complaints)
    if config is None:
        found = (
            Problem(file="", path=path_text(each.where), message=each.message, suggestion=each.suggestion)
            for each in complaints.found
        )
        raise UsageError("\n".join(map(str, found)))
    assert isinstance(config, SuiteConfig)
    return config


def merge_config(config: SuiteConfig, overrides: SuiteConfig) -> SuiteConfig:
    """The suite's config with the flags laid over it."""
    return _lay_over(config, overrides)


class Resolver:
    """Resolves the scenarios of one suite; what they share is worked out once."""

    def __init__(
        self,
        config: SuiteConfig,
        overrides: Mapping[str, Any] | SuiteConfig | None = None,
        *,
        definitions: Mapping[str, Any] | None = None,
    ) -> None:
        """`definitions` are the metrics of the suite's metrics_file."""
        self._definitions = definitions
        self.overrides = overrides if isinstance(overrides, SuiteConfig) else read_overrides(overrides)
        self.config = config
        self._base = {key: value for key in SHARED_KEYS if (value := getattr(config, key)) is not None}
        self._flags = {key: value for key in SHARED_KEYS if (value := getattr(self.overrides, key)) is not None}
        self._scorers = self.overrides.default_scorers or config.default_scorers

    def resolve(self, scenario: Scenario) -> Scenario:
        """The scenario with everything that holds for it filled in."""
        made = dict(zip(_FIELDS, _values(scenario), strict=True))
        for key, value in self._base.items():
            made[key] = value if made[key] is None else _combine(key, value, made[key])
        if "thresholds" in self._base:
            _drop_inherited(made, scenario)
        for key, value in self._flags.items():
            made[key] = value if made[key] is None else _combine(key, made[key], value)
        for key, value in DEFAULTS.items():
            if made[key] is None:
                made[key] = value
        self._settle(made, scenario)
        return Scenario(**made)

    def _settle(self, made: dict[str, Any], scenario: Scenario) -> None:
        """Fill in what depends on other keys."""
        if made["trials"] is None:
            made["trials"] = TRIALS_OF_SIMULATED_USER if isinstance(made["user"], User) else 1
        if made["trials"] == "auto":
            made["sequential"] = _combine("sequential", SEQUENTIAL, made["sequential"] or SEQUENTIAL)
        elif scenario.sequential is None or self.overrides.trials is not None:
            made["sequential"] = None  # the suite's is for those scenarios that are `auto`
        if len(made["turns"]) > made["max_turns"] and self.max_turns_by(scenario) is None:
            made["max_turns"] = len(made["turns"])
        if made["metrics"] is not None:
            made["metrics"] = select_metrics(made["metrics"])
            if self._definitions:
                made["metrics"] = define(made["metrics"], self._definitions)
        if made["gate"] is not None and made["gate"].confidence is None:
            made["gate"] = GateSpec(pass_rate=made["gate"].pass_rate, confidence=CONFIDENCE)
        if made["failures"] is None:
            made["failures"] = made["fail_on_error_severity"] is not None
        if made["failures"] and made["fail_on_error_severity"] is None:
            made["fail_on_error_severity"] = "critical"
        if made["scorers"] is None:
            made["scorers"] = self._scorers or (("passfail",) if _has_passfail(made) else None)

    def max_turns_by(self, scenario: Scenario) -> int | None:
        """What somebody set as max_turns; None when it is the default."""
        for source in (self.overrides, scenario, self.config):
            if source.max_turns is not None:
                return source.max_turns
        return None


def _has_passfail(made: Mapping[str, Any]) -> bool:
    keys = ("input", "expected_output", "expected_tools", "expected_tool_args")
    return any(made[key] is not None for key in keys)


def _drop_inherited(made: dict[str, Any], scenario: Scenario) -> None:
    """Forget the suite's thresholds for metrics that the scenario does not select."""
    selected = {choice.name for choice in select_metrics(made["metrics"] or ())} | set(scenario.thresholds or ())
    made["thresholds"] = {name: value for name, value in made["thresholds"].items() if name in selected} or None


def _combine(key: str, base: Any, own: Any) -> Any:
    """The value of a key that both have."""
    if key in _MAPS:
        return {**base, **own}
    if key in _RECORDS:
        return type(base)(**{**given(base), **given(own)})
    if key == "metrics":
        return merge_metrics(base, own)
    return own


def _lay_over(base: _S, own: _S) -> _S:
    made = given(base)
    for key, value in given(own).items():
        made[key] = _combine(key, made[key], value) if key in made else value
    return type(base)(**made)
