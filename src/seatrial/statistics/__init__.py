"""Pass rates and what they prove: intervals, gates, sequential tests, comparisons, planning, and trust in a judge.

A room of its own because it is the part that must be right when nobody looks: pure functions of numbers, in the
standard library alone, without clock, disk, network or hidden randomness, so that every one of them can be checked
against an oracle. It knows nothing of agents; counts come in, frozen results go out.

A file is loaded when the first of its names is used: all of them together cost 40 ms, what a run needs costs 10.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .agreement import ConfusionTable as ConfusionTable
    from .agreement import CorrectedRate as CorrectedRate
    from .agreement import JudgeAgreement as JudgeAgreement
    from .agreement import confusion_table as confusion_table
    from .agreement import corrected_rate as corrected_rate
    from .agreement import judge_agreement as judge_agreement
    from .gates import GateDecision as GateDecision
    from .gates import GateVerdict as GateVerdict
    from .gates import clean_trials_needed as clean_trials_needed
    from .gates import failures_allowed as failures_allowed
    from .gates import gate_decision as gate_decision
    from .gates import gate_verdict as gate_verdict
    from .intervals import Interval as Interval
    from .intervals import always_valid_interval as always_valid_interval
    from .intervals import clopper_pearson_interval as clopper_pearson_interval
    from .intervals import exact_lower_bound as exact_lower_bound
    from .intervals import exact_upper_bound as exact_upper_bound
    from .intervals import jeffreys_interval as jeffreys_interval
    from .intervals import mid_p_interval as mid_p_interval
    from .intervals import wilson_interval as wilson_interval
    from .intervals import wilson_lower_bound as wilson_lower_bound
    from .majority import majority_rate as majority_rate
    from .majority import majority_vote as majority_vote
    from .multiplicity import benjamini_hochberg as benjamini_hochberg
    from .multiplicity import flag_scenarios as flag_scenarios
    from .multiplicity import holm as holm
    from .multiplicity import tarone_benjamini_hochberg as tarone_benjamini_hochberg
    from .pass_at_k import pass_at_k as pass_at_k
    from .pass_at_k import pass_at_k_interval as pass_at_k_interval
    from .pass_at_k import pass_hat_k as pass_hat_k
    from .pass_at_k import pass_hat_k_interval as pass_hat_k_interval
    from .pass_at_k import suite_pass_at_k as suite_pass_at_k
    from .pass_at_k import suite_pass_hat_k as suite_pass_hat_k
    from .power import FixedDesign as FixedDesign
    from .power import SuiteSpread as SuiteSpread
    from .power import estimate_spread as estimate_spread
    from .power import fisher_power as fisher_power
    from .power import fixed_design as fixed_design
    from .power import noticeable_rate as noticeable_rate
    from .power import pairs_needed as pairs_needed
    from .power import repeats_to_flag_one as repeats_to_flag_one
    from .power import smallest_visible_drop as smallest_visible_drop
    from .power import trials_per_run as trials_per_run
    from .resampling import ClusteredMean as ClusteredMean
    from .resampling import SignFlipTest as SignFlipTest
    from .resampling import cluster_bootstrap_interval as cluster_bootstrap_interval
    from .resampling import clustered_mean as clustered_mean
    from .resampling import sign_flip_test as sign_flip_test
    from .sequential import OperatingPoint as OperatingPoint
    from .sequential import SequentialDecision as SequentialDecision
    from .sequential import SequentialTest as SequentialTest
    from .sequential import SequentialVerdict as SequentialVerdict
    from .sequential import curtailed_gate as curtailed_gate
    from .sequential import decide_sequentially as decide_sequentially
    from .sequential import operating_point as operating_point
    from .sequential import operating_table as operating_table
    from .sequential import peeking_error as peeking_error
    from .significance import Direction as Direction
    from .significance import ScenarioCounts as ScenarioCounts
    from .significance import StratifiedTest as StratifiedTest
    from .significance import cochran_mantel_haenszel_test as cochran_mantel_haenszel_test
    from .significance import fisher_test as fisher_test
    from .significance import mcnemar_exact as mcnemar_exact
    from .significance import mcnemar_mid_p as mcnemar_mid_p
    from .significance import newcombe_interval as newcombe_interval
    from .significance import smallest_p_value as smallest_p_value
    from .significance import stratified_test as stratified_test

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "agreement": (
            "ConfusionTable",
            "CorrectedRate",
            "JudgeAgreement",
            "confusion_table",
            "corrected_rate",
            "judge_agreement",
        ),
        "gates": (
            "GateDecision",
            "GateVerdict",
            "clean_trials_needed",
            "failures_allowed",
            "gate_decision",
            "gate_verdict",
        ),
        "intervals": (
            "Interval",
            "always_valid_interval",
            "clopper_pearson_interval",
            "exact_lower_bound",
            "exact_upper_bound",
            "jeffreys_interval",
            "mid_p_interval",
            "wilson_interval",
            "wilson_lower_bound",
        ),
        "multiplicity": ("benjamini_hochberg", "flag_scenarios", "holm", "tarone_benjamini_hochberg"),
        "power": (
            "FixedDesign",
            "SuiteSpread",
            "estimate_spread",
            "fisher_power",
            "fixed_design",
            "noticeable_rate",
            "pairs_needed",
            "repeats_to_flag_one",
            "smallest_visible_drop",
            "trials_per_run",
        ),
        "pass_at_k": (
            "pass_at_k",
            "pass_at_k_interval",
            "pass_hat_k",
            "pass_hat_k_interval",
            "suite_pass_at_k",
            "suite_pass_hat_k",
        ),
        "resampling": (
            "ClusteredMean",
            "SignFlipTest",
            "cluster_bootstrap_interval",
            "clustered_mean",
            "sign_flip_test",
        ),
        "sequential": (
            "OperatingPoint",
            "SequentialDecision",
            "SequentialTest",
            "SequentialVerdict",
            "curtailed_gate",
            "decide_sequentially",
            "operating_point",
            "operating_table",
            "peeking_error",
        ),
        "significance": (
            "Direction",
            "ScenarioCounts",
            "StratifiedTest",
            "cochran_mantel_haenszel_test",
            "fisher_test",
            "mcnemar_exact",
            "mcnemar_mid_p",
            "newcombe_interval",
            "smallest_p_value",
            "stratified_test",
        ),
        "majority": ("majority_rate", "majority_vote"),
    },
)
