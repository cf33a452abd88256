"""What holds for a scenario: flags over its own keys over the suite's config over the defaults."""

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.limits import Limits
from seatrial.model.scenario import GateSpec, MetricChoice, ModelRoles, Scenario, SuiteConfig, Turn, User
from seatrial.scenarios.load import load
from seatrial.scenarios.merge import Resolver, merge_config, read_overrides
from seatrial.scenarios.problems import FileProblems


def resolve(scenario, config, overrides=None):
    return Resolver(config, overrides).resolve(scenario)


def test_the_defaults_are_those_of_the_documents():
    resolved = resolve(Scenario(name="a", input="x"), SuiteConfig())
    assert (resolved.trials, resolved.threshold, resolved.max_turns, resolved.retries) == (1, 1.0, 8, 0)
    assert (resolved.timeout_seconds, resolved.trial_timeout_seconds, resolved.pass_threshold) == (30.0, 600.0, 75.0)
    assert (resolved.unmocked_tools, resolved.failures, resolved.fail_on_error_severity) == ("passthrough", False, None)
    assert resolved.scorers == ("passfail",)
    assert (resolved.metrics, resolved.gate, resolved.limits) == (None, None, None)


def test_real_tools_may_run_unless_the_scenario_or_its_suite_has_mocks():
    mocks = {"lookup": {"returns": 1}}
    own = resolve(Scenario(name="a", input="x", mocks=mocks), SuiteConfig())
    of_suite = resolve(Scenario(name="a", input="x"), SuiteConfig(mocks=mocks))
    asked = resolve(Scenario(name="a", input="x", mocks=mocks), SuiteConfig(unmocked_tools="passthrough"))
    assert (own.unmocked_tools, of_suite.unmocked_tools, asked.unmocked_tools) == ("error", "error", "passthrough")


def test_a_simulated_user_is_played_three_times_and_a_programmed_one_once():
    simulated = Scenario(name="a", user=User(goal="g"), expected_output="x")
    programmed = Scenario(name="a", user="pkg.mod:user", expected_output="x")
    assert resolve(simulated, SuiteConfig()).trials == 3
    assert resolve(programmed, SuiteConfig()).trials == 1


def test_flags_win_over_the_scenario_and_the_scenario_over_the_config():
    config = SuiteConfig(retries=1, trials=2, threshold=0.2)
    resolved = resolve(Scenario(name="a", input="x", retries=3, trials=4), config, {"trials": 9})
    assert (resolved.trials, resolved.retries, resolved.threshold) == (9, 3, 0.2)


def test_a_zero_of_the_scenario_is_no_missing_value():
    assert resolve(Scenario(name="a", input="x", retries=0), SuiteConfig(retries=5)).retries == 0


def test_maps_merge_key_by_key():
    config = SuiteConfig(
        mocks={"a": {"returns": 1}, "b": {"returns": 2}},
        limits=Limits(tokens=10, turns=3),
        models=ModelRoles(judge="openai:j", user="openai:u"),
        gate=GateSpec(pass_rate=0.9, confidence=0.99),
    )
    scenario = Scenario(
        name="a",
        input="x",
        mocks={"b": {"returns": 5}},
        limits=Limits(turns=4),
        models=ModelRoles(user="openai:mine"),
        gate=GateSpec(pass_rate=0.7),
    )
    resolved = resolve(scenario, config, {"limits": {"tokens": 1}})
    assert resolved.mocks == {"a": {"returns": 1}, "b": {"returns": 5}}
    assert resolved.limits == Limits(tokens=1, turns=4)
    assert resolved.models == ModelRoles(judge="openai:j", user="openai:mine")
    assert resolved.gate == GateSpec(pass_rate=0.7, confidence=0.99)


def test_a_gate_is_sure_to_95_percent_unless_it_says_otherwise():
    resolved = resolve(Scenario(name="a", input="x", gate=GateSpec(pass_rate=0.8)), SuiteConfig())
    assert resolved.gate == GateSpec(pass_rate=0.8, confidence=0.95)


def _names(scenario: Scenario) -> list[str]:
    return [choice.name for choice in scenario.metrics or ()]


def test_group_names_stand_for_their_metrics():
    resolved = resolve(Scenario(name="a", input="x", metrics=(MetricChoice(name="conversation"),)), SuiteConfig())
    assert _names(resolved) == ["helpfulness", "coherence", "relevance", "faithfulness", "verbosity", "goal_completion"]


def test_a_list_of_metrics_replaces_the_suites():
    config = SuiteConfig(metrics=(MetricChoice(name="default"),))
    resolved = resolve(Scenario(name="a", input="x", metrics=(MetricChoice(name="helpfulness"),)), config)
    assert _names(resolved) == ["helpfulness"]


def test_a_list_of_nothing_but_weights_reweighs_the_suites_metrics():
    config = SuiteConfig(metrics=(MetricChoice(name="default"),))
    own = (MetricChoice(name="tool_routing", weight=0.5),)
    resolved = resolve(Scenario(name="a", input="x", metrics=own), config)
    assert len(_names(resolved)) == 8
    assert {choice.name: choice.weight for choice in resolved.metrics or ()}["tool_routing"] == 0.5


def test_the_suites_threshold_is_dropped_where_its_metric_is_not_selected():
    config = SuiteConfig(thresholds={"helpfulness": 3.0, "goal_completion": 0.5})
    own = (MetricChoice(name="goal_completion"),)
    assert resolve(Scenario(name="a", input="x", metrics=own), config).thresholds == {"goal_completion": 0.5}
    assert resolve(Scenario(name="a", input="x"), config).thresholds is None


@pytest.mark.parametrize(
    ("scenario", "scorers"),
    [
        (Scenario(name="a", input="x"), ("passfail",)),
        (Scenario(name="a", turns=(Turn(user="x"),)), None),
        (Scenario(name="a", turns=(Turn(user="x"),), expected_output="y"), ("passfail",)),
        (Scenario(name="a", turns=(Turn(user="x"),), expected_tools=()), ("passfail",)),
        (Scenario(name="a", user=User(goal="g"), expected_tool_args={}), ("passfail",)),
        (Scenario(name="a", user=User(goal="g"), expected_outcomes=("done",)), None),
        (Scenario(name="a", input="x", scorers=("exact",)), ("exact",)),
    ],
)
def test_passfail_is_the_scorer_of_inputs_and_expected_keys(scenario, scorers):
    assert resolve(scenario, SuiteConfig()).scorers == scorers


def test_the_suites_scorers_hold_where_a_scenario_names_none():
    config = SuiteConfig(default_scorers=("exact",))
    assert resolve(Scenario(name="a", turns=(Turn(user="x"),)), config).scorers == ("exact",)
    assert resolve(Scenario(name="a", input="x", scorers=("regex",)), config).scorers == ("regex",)


def test_a_severity_switches_the_detection_on_and_the_detection_has_a_severity():
    by_severity = resolve(Scenario(name="a", input="x", fail_on_error_severity="low"), SuiteConfig())
    by_switch = resolve(Scenario(name="a", input="x", failures=True), SuiteConfig())
    assert (by_severity.failures, by_severity.fail_on_error_severity) == (True, "low")
    assert (by_switch.failures, by_switch.fail_on_error_severity) == (True, "critical")


def test_a_script_longer_than_the_default_is_played_to_its_end():
    script = tuple(Turn(user=f"say {number}") for number in range(12))
    assert resolve(Scenario(name="a", turns=script), SuiteConfig()).max_turns == 12


def test_to_resolve_twice_changes_nothing():
    config = SuiteConfig(metrics=(MetricChoice(name="default"),), mocks={"a": {"returns": 1}})
    once = resolve(Scenario(name="a", input="x"), config, {"retries": 2})
    assert resolve(once, config, {"retries": 2}) == once


def test_wrong_flags_are_usage_errors():
    with pytest.raises(UsageError, match="trials: expected a whole number"):
        read_overrides({"trials": 0})
    with pytest.raises(UsageError, match="unknown key 'trails'"):
        read_overrides({"trails": 1})


def test_flags_are_laid_over_the_config_of_the_run():
    config = merge_config(SuiteConfig(concurrency=4, seed=1), read_overrides({"seed": 2}))
    assert (config.concurrency, config.seed) == (4, 2)


def test_what_the_flags_make_impossible_is_refused_when_files_are_loaded(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("scenarios: [{name: a, turns: [{user: x}, {user: y}]}]\n")
    with pytest.raises(FileProblems, match="max_turns 1 would end the script"):
        load(path, overrides={"max_turns": 1})


def test_the_tags_of_a_suite_are_carried_by_its_scenarios(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("suite: {tags: [nightly]}\nscenarios: [{name: a, input: x, tags: [read, nightly]}]\n")
    assert [each.tags for each in load(path)[0].scenarios] == [("nightly", "read")]


def test_scenarios_with_the_same_keys_keep_their_own_values_and_share_the_rest():
    resolver = Resolver(SuiteConfig(retries=2), {"timeout_seconds": 5})
    first, second = Scenario(name="a", input="x", tags=("t",)), Scenario(name="b", input="y", tags=("u",), skip="later")
    third = Scenario(name="c", input="z", tags=("v",))
    for scenario in (first, second, third):
        expected = resolve(scenario, SuiteConfig(retries=2), {"timeout_seconds": 5})
        assert resolver.resolve(scenario) == expected
        assert (expected.name, expected.retries, expected.timeout_seconds) == (scenario.name, 2, 5.0)


def test_a_key_on_which_others_depend_is_not_taken_from_a_scenario_with_the_same_keys():
    resolver = Resolver(SuiteConfig(), None)
    short, long = ((Turn(user="hi"),) * count for count in (1, 12))
    assert resolver.resolve(Scenario(name="a", turns=short)).max_turns == 8
    assert resolver.resolve(Scenario(name="b", turns=long)).max_turns == 12
