"""The settings of `trials: auto`."""

from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.model.run import ScenarioEntry
from seatrial.model.scenario import Scenario, SequentialSpec, Suite, SuiteConfig
from seatrial.scenarios.build import SuiteContext, prepare
from seatrial.scenarios.load import load


class _Agent:
    name = "agent"
    keeps_conversation = True


def _entry(scenario: Scenario, config: SuiteConfig | None = None, **overrides: Any) -> ScenarioEntry:
    suite = Suite(name="s", scenarios=[scenario], config=config or SuiteConfig())
    [loaded] = load(suite, overrides=overrides)
    [resolved] = loaded.scenarios
    context = SuiteContext(suite="s", agent=_Agent())  # type: ignore[arg-type]
    return prepare(resolved, context, position=0).entry


def _scenario(**keys: Any) -> Scenario:
    return Scenario(name="a", input="hi", expected_output="hi", **keys)


def test_auto_tells_nine_in_ten_from_seven_in_ten_unless_told_otherwise():
    entry = _entry(_scenario(trials="auto"))
    assert entry.sequential == {"good": 0.9, "bad": 0.7, "alpha": 0.05, "beta": 0.05, "max_trials": 60, "rule": 2}
    assert entry.trials == 60


def test_a_scenario_changes_single_settings_of_the_suites_test():
    config = SuiteConfig(trials="auto", sequential=SequentialSpec(good=0.95, bad=0.8, max_trials=100))
    entry = _entry(_scenario(sequential=SequentialSpec(bad=0.85)), config)
    assert entry.sequential == {"good": 0.95, "bad": 0.85, "alpha": 0.05, "beta": 0.05, "max_trials": 100, "rule": 2}
    assert entry.trials == 100


def test_the_suites_test_does_not_concern_scenarios_with_a_number_of_trials():
    entry = _entry(_scenario(trials=3), SuiteConfig(sequential=SequentialSpec(good=0.95)))
    assert entry.sequential is None
    assert entry.trials == 3


def test_a_flag_may_set_a_number_of_trials_for_a_scenario_with_a_test():
    entry = _entry(_scenario(trials="auto", sequential=SequentialSpec(good=0.95)), trials=2)
    assert entry.sequential is None
    assert entry.trials == 2


def test_a_test_without_auto_is_refused():
    with pytest.raises(UsageError, match="is without effect unless 'trials: auto'"):
        _entry(_scenario(trials=3, sequential=SequentialSpec(good=0.95)))


def test_rates_the_wrong_way_round_are_refused():
    with pytest.raises(UsageError, match=r"bad 0\.95 must be below good 0\.9"):
        _entry(_scenario(trials="auto", sequential=SequentialSpec(bad=0.95)))


def test_errors_that_add_up_to_certainty_are_refused():
    with pytest.raises(UsageError, match="add up to 1 or more"):
        _entry(_scenario(trials="auto", sequential=SequentialSpec(alpha=0.6, beta=0.5)))


def test_other_settings_of_the_test_change_the_fingerprint_of_the_verdict_but_not_of_a_trial():
    one = _entry(_scenario(trials="auto"))
    other = _entry(_scenario(trials="auto", sequential=SequentialSpec(good=0.95)))
    assert one.fingerprint != other.fingerprint
    assert one.trial_fingerprint == other.trial_fingerprint


def test_the_number_of_trials_and_the_gates_leave_the_fingerprint_of_a_trial():
    assert _entry(_scenario()).trial_fingerprint == _entry(_scenario(trials=5, threshold=0.8)).trial_fingerprint


def test_another_expectation_changes_the_fingerprint_of_a_trial():
    other = Scenario(name="a", input="hi", expected_output="hello")
    assert _entry(_scenario()).trial_fingerprint != _entry(other).trial_fingerprint
