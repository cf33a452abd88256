"""Every case of tests/vectors/statistics.json: every group has a check, and every check reads every number."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seatrial.statistics.agreement import ConfusionTable, corrected_rate
from seatrial.statistics.agreement import judge_agreement as compute_judge_agreement
from seatrial.statistics.distributions import two_sided_z
from seatrial.statistics.gates import (
    clean_trials_needed,
    failures_allowed,
    majority_rate,
    pass_at_k,
    pass_hat_k,
    suite_pass_at_k,
    suite_pass_hat_k,
)
from seatrial.statistics.gates import gate_verdict as compute_gate_verdict
from seatrial.statistics.intervals import (
    always_valid_interval,
    clopper_pearson_interval,
    exact_lower_bound,
    exact_upper_bound,
    jeffreys_interval,
    mid_p_interval,
    wilson_interval,
    wilson_lower_bound,
)
from seatrial.statistics.power import SuiteSpread, fixed_design, pairs_needed, smallest_visible_drop, trials_per_run
from seatrial.statistics.power import fisher_power as compute_fisher_power
from seatrial.statistics.power import repeats_to_flag_one as compute_repeats_to_flag_one
from seatrial.statistics.sequential import (
    OperatingPoint,
    SequentialTest,
    curtailed_gate,
    decide_sequentially,
    operating_point,
    operating_table,
    peeking_error,
)
from seatrial.statistics.significance import (
    ScenarioCounts,
    benjamini_hochberg,
    clustered_mean,
    cochran_mantel_haenszel_test,
    fisher_test,
    flag_scenarios,
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
    newcombe_interval,
    sign_flip_test,
    smallest_p_value,
    stratified_test,
    tarone_benjamini_hochberg,
)

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "statistics.json").read_text())
GROUPS = {name: cases for name, cases in VECTORS.items() if name != "_meta"}
REMARKS = {"oracle", "fields", "name", "tol"}
CHECKS: dict[str, Callable[[Any], None]] = {}


class Case:
    """One case that remembers which of its numbers were looked at."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self._unread = set(fields) - REMARKS
        self.tolerance = fields.get("tol", 1e-9)

    def __getitem__(self, name: str) -> Any:
        self._unread.discard(name)
        return self._fields[name]

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def unread(self) -> set[str]:
        return self._unread

    def says(self, name: str, value: object) -> None:
        """The case's number under this name is this value."""
        same(value, self[name], tolerance=self.tolerance)


def same(value: Any, expected: Any, *, tolerance: float = 1e-9) -> None:
    if isinstance(expected, list):
        assert len(value) == len(expected)
        for one, other in zip(value, expected, strict=True):
            same(one, other, tolerance=tolerance)
    elif isinstance(expected, float):
        assert value == pytest.approx(expected, rel=0, abs=tolerance)
    else:
        assert value == expected


def check(function: Callable[[Case], None]) -> Callable[[Case], None]:
    CHECKS[function.__name__] = function
    return function


def all_cases() -> list[Any]:
    return [
        pytest.param(group, fields, id=f"{group}-{number}")
        for group, cases in GROUPS.items()
        for number, fields in enumerate(cases)
    ]


def test_every_group_of_the_file_has_a_check_and_every_check_a_group() -> None:
    assert set(CHECKS) == set(GROUPS)
    assert all(GROUPS.values())


@pytest.mark.parametrize(("group", "fields"), all_cases())
def test_the_vector_holds(group: str, fields: dict[str, Any]) -> None:
    case = Case(fields)
    CHECKS[group](case)
    assert case.unread() == set()


def counts_of(row: list[int]) -> ScenarioCounts:
    base_passed, base_total, candidate_passed, candidate_total = row
    return ScenarioCounts(
        base_passed=base_passed,
        base_total=base_total,
        candidate_passed=candidate_passed,
        candidate_total=candidate_total,
    )


def settings_of(case: Case, **more: Any) -> SequentialTest:
    return SequentialTest(
        good=case["p_good"], bad=case["p_bad"], alpha=case["alpha"], beta=case["beta"], optimal=False, **more
    )


def same_point(point: OperatingPoint, expected: Any, *, trials: str = "expected_n") -> None:
    same(point.passes, expected["pass"])
    same(point.fails, expected["fail"])
    same(point.inconclusive, expected["inconclusive"])
    same(point.expected_trials, expected[trials])


@check
def pass_k(case: Case) -> None:
    passed, total, k = case["c"], case["n"], case["k"]
    case.says("pass_at_k", pass_at_k(passed, total, k=k))
    case.says("pass_hat_k", pass_hat_k(passed, total, k=k))
    assert case["plugin_pass_hat_k_BIASED"] >= case["pass_hat_k"] - 1e-12


@check
def pass_k_suite(case: Case) -> None:
    scenarios = [(passed, total) for total, passed in case["scenarios_n_c"]]
    case.says("pass_at_k", suite_pass_at_k(scenarios, k=case["k"]))
    case.says("pass_hat_k", suite_pass_hat_k(scenarios, k=case["k"]))


@check
def intervals(case: Case) -> None:
    passed, total, confidence = case["c"], case["n"], case["conf"]
    case.says("wilson", wilson_interval(passed, total, confidence=confidence))
    case.says("clopper_pearson", clopper_pearson_interval(passed, total, confidence=confidence))
    case.says("jeffreys", jeffreys_interval(passed, total, confidence=confidence))
    case.says("mid_p", mid_p_interval(passed, total, confidence=confidence))
    case.says("one_sided_95_exact", (exact_lower_bound(passed, total), exact_upper_bound(passed, total)))
    case.says("one_sided_95_wilson_lower", wilson_lower_bound(passed, total))


@check
def min_trials_all_pass(case: Case) -> None:
    case.says("n", clean_trials_needed(case["threshold"], confidence=case["conf"]))


@check
def max_failures_allowed(case: Case) -> None:
    case.says("failures", failures_allowed(case["n"], threshold=case["threshold"], confidence=case["conf"]))


@check
def gate_verdict(case: Case) -> None:
    verdict = compute_gate_verdict(case["c"], case["n"], threshold=case["threshold"], confidence=case["conf"])
    case.says("verdict", verdict.decision)


@check
def naive_gate_oc(case: Case) -> None:
    for rate, chance in case["p_pass"].items():
        point = curtailed_gate(float(rate), total=case["n"], need=case["need"])
        same(point.passes, chance)
        same(point.expected_trials, case["expected_runs_if_curtailed"][rate])
    assert case["p_pass"].keys() == case["expected_runs_if_curtailed"].keys()


@check
def fisher(case: Case) -> None:
    counts = counts_of([*case["base"], *case["cand"]])
    case.says("p_regression", fisher_test(counts))
    case.says("p_two_sided", fisher_test(counts, direction="two_sided"))


@check
def mcnemar(case: Case) -> None:
    case.says("p_exact", mcnemar_exact(case["pass_to_fail"], case["fail_to_pass"]))
    case.says("p_midp", mcnemar_mid_p(case["pass_to_fail"], case["fail_to_pass"]))


@check
def stratified_exact(case: Case) -> None:
    scenarios = [counts_of(row) for row in case["strata"]]
    result = stratified_test(scenarios)
    case.says("observed", result.observed)
    case.says("expected", result.expected)
    case.says("p_regression", result.p_regression)
    case.says("p_improvement", result.p_improvement)
    case.says("p_two_sided", result.p_two_sided)
    case.says("midp_regression", result.mid_p_regression)
    case.says("cmh_chi2_p_asymptotic", cochran_mantel_haenszel_test(scenarios))


@check
def sign_flip(case: Case) -> None:
    result = sign_flip_test(case["scenario_differences"])
    case.says("mean", result.mean)
    case.says("p_two_sided", result.p_two_sided)
    case.says("p_regression", result.p_regression)
    assert result.exact


@check
def clustered_se(case: Case) -> None:
    result = clustered_mean(case["groups"])
    assert result is not None
    case.says("mean", result.mean)
    case.says("clustered_se", result.standard_error)
    case.says("naive_se", result.naive_standard_error)
    case.says("design_effect", result.design_effect)
    case.says("t_df", result.degrees)
    case.says("ci95_t", result.interval)


@check
def multiplicity(case: Case) -> None:
    case.says("bh", benjamini_hochberg(case["p"]))
    case.says("holm", holm(case["p"]))


@check
def sprt(case: Case) -> None:
    test = settings_of(case, max_trials=case["n_max"])
    case.says("upper_log", test.upper)
    case.says("lower_log", test.lower)
    case.says("w_pass", test.evidence(1, 0))
    case.says("w_fail", test.evidence(0, 1))
    case.says("all_pass_decides_at", decide_sequentially([True] * 200, test).trials_used)
    case.says("all_fail_decides_at", decide_sequentially([False] * 200, test).trials_used)
    same_point(operating_point(test, test.good), case["at_good"])
    same_point(operating_point(test, test.bad), case["at_bad"])
    same_point(operating_point(test, (test.good + test.bad) / 2), case["at_mid"])


@check
def sprt_sequences(case: Case) -> None:
    test = settings_of(case)
    decision = decide_sequentially([mark == "P" for mark in case["sequence"]], test)
    case.says("decision", decision.verdict)
    case.says("trials_used", decision.trials_used)
    case.says("llr", test.evidence(decision.passed, decision.trials_used - decision.passed))


@check
def sprt_oc_table(case: Case) -> None:
    test = settings_of(case, max_trials=case["n_max"])
    (point,) = operating_table(test, rates=[case["true_p"]])
    same_point(point, case)


@check
def peeking_wilson(case: Case) -> None:
    point = peeking_error(
        case["true_p"], threshold=case["threshold"], look_from=case["look_from"], look_to=case["look_to"]
    )
    case.says("declared_below", point.fails)
    case.says("declared_above", point.passes)
    case.says("undecided", point.inconclusive)


@check
def confidence_sequence(case: Case) -> None:
    assert case["prior"] == [0.5, 0.5]
    case.says("interval", always_valid_interval(case["c"], case["n"], confidence=case["conf"]))


@check
def n_per_arm_normal(case: Case) -> None:
    trials = trials_per_run(
        case["p1"], case["p2"], alpha=case["alpha"], power=case["power"], one_sided=case["one_sided"]
    )
    case.says("n", trials)


@check
def fisher_power(case: Case) -> None:
    power = compute_fisher_power(case["p1"], case["p2"], trials=case["n_per_arm"], alpha=case["alpha_one_sided"])
    case.says("power", power)


@check
def exact_n_vs_threshold(case: Case) -> None:
    design = fixed_design(case["threshold"], case["p_bad"], alpha=case["alpha"], power=case["power"])
    assert design is not None
    case.says("n", design.trials)
    case.says("fail_if_passes_at_most", design.fail_at_most)
    case.says("exact_false_alarm", design.false_alarm)
    case.says("exact_power", design.power)


@check
def suite_mde(case: Case) -> None:
    spread = SuiteSpread(
        between_scenarios=case["omega2"], base_trial=case["sigma2_a"], candidate_trial=case["sigma2_b"]
    )
    drop = smallest_visible_drop(
        spread, scenarios=case["scenarios"], repeats=case["repeats"], alpha=case["alpha"], power=case["power"]
    )
    case.says("mde", drop)


@check
def mcnemar_pairs(case: Case) -> None:
    pairs = pairs_needed(case["p_pass_to_fail"], case["p_fail_to_pass"], alpha=case["alpha"], power=case["power"])
    case.says("pairs", pairs)


@check
def judge_agreement(case: Case) -> None:
    table = ConfusionTable(
        seen_passes=case["tp"], missed_passes=case["fn"], missed_failures=case["fp"], seen_failures=case["tn"]
    )
    result = compute_judge_agreement(table)
    case.says("n", result.total)
    case.says("accuracy", result.accuracy)
    case.says("kappa", result.kappa)
    case.says("kappa_se", result.kappa_standard_error)
    assert result.kappa is not None
    assert result.kappa_standard_error is not None
    # The vectors have the large-sample interval; ours adds 0.5 to each count.
    reach = two_sided_z(0.95) * result.kappa_standard_error
    case.says("kappa_ci", (max(-1.0, result.kappa - reach), min(1.0, result.kappa + reach)))
    assert result.kappa_interval is not None
    assert result.kappa_interval == pytest.approx(case["kappa_ci"], abs=0.1)
    case.says("gwet_ac1", result.gwet_ac1)
    case.says("tpr", result.true_pass_rate)
    case.says("tpr_ci", result.true_pass_interval)
    case.says("tnr", result.true_fail_rate)
    case.says("tnr_ci", result.true_fail_interval)
    case.says("balanced_accuracy", result.balanced_accuracy)
    case.says("mcc", result.correlation)


@check
def rogan_gladen(case: Case) -> None:
    calibration = ConfusionTable(
        seen_passes=case["tp"],
        missed_passes=case["pos"] - case["tp"],
        missed_failures=case["neg"] - case["tn"],
        seen_failures=case["tn"],
    )
    result = corrected_rate(case["judge_pass"], case["n"], calibration=calibration, confidence=case["conf"])
    case.says("usable", result.usable)
    case.says("youden", result.youden)
    if case["usable"]:
        case.says("raw", result.raw)
        case.says("estimate", result.estimate)
        case.says("estimate_unclipped", result.unclipped)
        case.says("ci", result.interval)
    else:
        assert result.estimate is None
        assert result.interval is None


@check
def majority_vote(case: Case) -> None:
    case.says("independent", majority_rate(case["p"], case["m"]))
    case.says("icc_0.3", majority_rate(case["p"], case["m"], correlation=0.3))
    case.says("icc_0.6", majority_rate(case["p"], case["m"], correlation=0.6))


@check
def repeats_to_flag_one(case: Case) -> None:
    repeats = compute_repeats_to_flag_one(case["scenarios"], q=case["q"], base_repeats=case["base_n"])
    case.says("repeats", repeats)


@check
def gilbert_bh(case: Case) -> None:
    scenarios = [counts_of(row) for row in case["strata"]]
    p_values = [fisher_test(counts) for counts in scenarios]
    smallest = [smallest_p_value(counts) for counts in scenarios]
    case.says("p_regression", p_values)
    case.says("floor", smallest)
    case.says("plain_bh_flags", [value <= case["q"] for value in benjamini_hochberg(p_values)])
    case.says("gilbert_flags", list(tarone_benjamini_hochberg(p_values, smallest, q=case["q"])))
    case.says("gilbert_flags", list(flag_scenarios(scenarios, q=case["q"])))


@check
def newcombe_diff(case: Case) -> None:
    counts = counts_of([*case["base"], *case["new"]])
    low, high = newcombe_interval(counts, confidence=case["conf"])
    case.says("diff", counts.difference)
    case.says("low", low)
    case.says("high", high)


def test_a_number_that_is_off_by_a_millionth_is_noticed() -> None:
    with pytest.raises(AssertionError):
        same((0.5, 0.25 + 1e-6), [0.5, 0.25])
    with pytest.raises(AssertionError):
        same(math.nan, 0.5)
