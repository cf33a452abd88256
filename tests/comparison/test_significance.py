"""What the statistical verdict says, and how fresh trials decide it."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import comb

import pytest
from msgspec.structs import replace

from seatrial.comparison.aggregates import RunSide
from seatrial.comparison.compare import compare_runs
from seatrial.comparison.gate import Gate, decide_gate, find_objections
from seatrial.comparison.planning import planning_rates, scenarios_to_see, trials_to_see, visible_drop
from seatrial.comparison.rerun_suspects import confirm, find_suspects
from seatrial.errors import UsageError
from seatrial.model.comparison import Comparison, RegressionLimits
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, TrialSummary
from seatrial.statistics.power import fisher_power
from seatrial.statistics.sequential import SequentialTest, decide_sequentially
from seatrial.statistics.significance import ScenarioCounts
from seatrial.verdicts.run import decide_run

NOW = datetime(2025, 5, 1, tzinfo=UTC)


def trials_of(scenario: str, letters: str) -> list[TrialSummary]:
    """Trials as letters: passed, failed, judge errored."""
    status = {"p": Status.PASSED, "f": Status.FAILED, "j": Status.ERRORED}
    return [
        TrialSummary(
            key=ScenarioKey("shop", scenario),
            index=index,
            status=status[letter],
            error_kind=ErrorKind.JUDGE if letter == "j" else None,
            started_at=NOW,
        )
        for index, letter in enumerate(letters)
    ]


def a_run(name: str, trials: Mapping[str, str]) -> RunSide:
    entries = [
        ScenarioEntry(key=ScenarioKey("shop", scenario), position=place, fingerprint="f", trials=len(letters))
        for place, (scenario, letters) in enumerate(trials.items())
    ]
    summaries = [one for scenario, letters in trials.items() for one in trials_of(scenario, letters)]
    run = Run(id=name, name=name, state=RunState.FINISHED, started_at=NOW)
    return RunSide(run=run, outcome=decide_run(entries, summaries), summaries=summaries)


def compared(base: Mapping[str, str], candidate: Mapping[str, str]) -> Comparison:
    return compare_runs(a_run("base", base), a_run("cand", candidate))


def a_suite(*changed: str, trials: int = 5, scenarios: int = 20) -> Comparison:
    """Scenarios that always passed; the first ones did as given in the candidate."""
    base = {f"s{number}": "p" * trials for number in range(scenarios)}
    return compared(base, {**base, **{f"s{number}": letters for number, letters in enumerate(changed)}})


class Rerun:
    """Answers with the given trials, and remembers what it was asked for."""

    def __init__(self, **letters: str) -> None:
        self._letters = letters
        self.asked: list[tuple[list[str], int]] = []

    def __call__(self, keys: Sequence[ScenarioKey], trials: int) -> tuple[str, list[TrialSummary]]:
        self.asked.append(([key.name for key in keys], trials))
        found = [one for key in keys for one in trials_of(key.name, self._letters.get(key.name, "p" * trials))]
        return "fresh", found


def test_the_sentence_comes_first_with_what_got_worse_and_what_would_have_been_noticed():
    sentence = a_suite("fffff", "ppppf").evidence.sentence
    assert sentence.startswith(
        "1 of 20 scenarios got worse (s0). The suite as a whole got worse: if nothing had changed"
    )
    assert "With 5 trials each, a drop of 7.7 points in every scenario would have been noticed 4 times in 5" in sentence
    assert sentence.endswith("smaller ones, or one in a single scenario, less often.")


def test_noise_is_called_noise():
    sentence = a_suite("ppppf").evidence.sentence
    assert sentence.startswith("1 of 20 scenarios passed less often, within noise. ")


def test_nothing_worse_is_said_in_so_many_words():
    assert a_suite().evidence.sentence.startswith("None of 20 scenarios got worse. ")


def test_a_drop_spread_over_the_suite_is_seen_although_no_scenario_stands_out():
    evidence = a_suite(*["pppff"] * 12).evidence
    assert evidence.worse == ()
    assert evidence.regression
    assert (
        "The suite as a whole got worse: if nothing had changed, a result this low would almost never"
        in evidence.sentence
    )
    assert "12 of 20 scenarios passed less often; no single one shows it alone." in evidence.sentence


def test_different_numbers_of_trials_are_named():
    sentence = compared({"a": "pppp", "b": "pp"}, {"a": "pp", "b": "pp"}).evidence.sentence
    assert "With 2-4 against 2 trials" in sentence


def test_single_trials_could_hardly_have_shown_anything():
    evidence = compared({"a": "p"}, {"a": "f"}).evidence
    assert evidence.unseen_drop is None
    assert evidence.sentence.startswith("1 of 1 scenario passed less often. Too few trials to tell: a.")
    assert "With 1 trial each, no drop of the pass rate could have been noticed" in evidence.sentence


def test_p_values_are_only_in_the_numbers_for_verbose_output() -> None:
    evidence = compared({"a": "p"}, {"a": "p"}).evidence
    assert evidence.numbers[0].startswith("suite: 1 trial passed, ")
    assert "p = " not in evidence.sentence + "".join(evidence.details)


def test_errors_of_instruments_are_counted_aloud():
    details = compared({"a": "pppp"}, {"a": "ppjj"}).evidence.details
    assert "2 trials could not be judged, because an instrument failed: left out" in details


def test_an_improvement_beyond_noise_is_no_regression():
    evidence = compared({"a": "ffffff"}, {"a": "pppppp"}).evidence
    assert evidence.better == (ScenarioKey("shop", "a"),)
    assert not evidence.regression


def test_the_visible_drop_agrees_with_the_exact_power_of_a_single_scenario():
    counts = ScenarioCounts(base_passed=45, base_total=50, candidate_passed=45, candidate_total=50)
    drop = visible_drop([counts])
    assert drop is not None
    assert fisher_power(0.9, 0.9 - drop, trials=50) == pytest.approx(0.8, abs=0.05)


def test_the_visible_drop_of_a_clean_suite_is_not_nothing():
    clean = ScenarioCounts(base_passed=5, base_total=5, candidate_passed=5, candidate_total=5)
    drop = visible_drop([clean] * 20)
    # Exactly: five failures in a hundred are beyond noise, and a drop of 6.6 points brings five in four of five runs.
    assert drop is not None
    assert 0.06 < drop < 0.085


def test_a_plan_sees_what_it_was_made_for():
    rates = [0.9] * 20
    needed = trials_to_see(0.1, rates)
    assert needed is not None
    counts = ScenarioCounts(
        base_passed=round(0.9 * needed), base_total=needed, candidate_passed=0, candidate_total=needed
    )
    drop = visible_drop([counts] * 20)
    assert drop is not None
    assert drop == pytest.approx(0.1, abs=0.02)
    assert scenarios_to_see(0.1, 0.9, needed) == pytest.approx(20, abs=2)


def test_suspects_are_those_that_fell_by_more_than_usual():
    assert [key.name for key in find_suspects(a_suite("fffff", "ppfff", "ppppf"))] == ["s0", "s1"]


def test_a_scenario_that_ran_too_rarely_to_tell_is_suspected_when_it_fell():
    assert [key.name for key in find_suspects(compared({"a": "p", "b": "p"}, {"a": "f", "b": "p"}))] == ["a"]


def test_only_suspects_are_run_again():
    rerun = Rerun()
    confirm(a_suite("fffff", "ppppf"), rerun)
    assert rerun.asked == [(["s0"], 8)]


def test_a_suspect_that_fails_again_is_confirmed():
    found = confirm(a_suite("fffff"), Rerun(s0="ffffffff"))
    assert found.evidence.sentence.startswith("1 suspect got 8 fresh trials each: 1 confirmed (s0: 0/8 after 5/5)")
    assert found.evidence.worse == (ScenarioKey("shop", "s0"),)
    assert found.scenarios[0].beyond_noise == "worse"
    assert find_objections(found, gate=Gate.STATISTICAL) == ("worse: s0",)


def test_a_suspect_that_passes_again_is_cleared():
    found = confirm(a_suite("fffff"), Rerun(s0="pppppppp"))
    assert found.evidence.sentence.startswith("1 suspect got 8 fresh trials each: 1 cleared (s0: 8/8 after 5/5).")
    assert not found.evidence.regression
    assert found.scenarios[0].beyond_noise is None
    assert find_objections(found, gate=Gate.STATISTICAL) == ()


def test_the_trials_that_raised_the_suspicion_do_not_count_again():
    # Five failures before and four of eight now would be beyond noise together; four of eight alone are not.
    found = confirm(a_suite("fffff"), Rerun(s0="ffffpppp"))
    [suspect] = found.evidence.confirmation.suspects
    assert (suspect.passed, suspect.total, suspect.confirmed) == (4, 8, False)
    assert suspect.p_worse == pytest.approx(comb(9, 5) / comb(13, 5))


def test_without_a_suspect_nothing_is_run_again():
    rerun = Rerun()
    found = confirm(a_suite("ppppf"), rerun)
    assert rerun.asked == []
    assert found.evidence.sentence.startswith("No scenario is suspected, so none was run again.")
    assert not found.evidence.regression


def test_a_drop_of_the_whole_suite_must_hold_with_the_fresh_trials_added():
    spread = a_suite("ppfff", "ppfff")
    assert spread.evidence.regression
    assert not confirm(spread, Rerun()).evidence.regression
    again = confirm(spread, Rerun(s0="pppppfff", s1="pppppfff"))
    assert again.evidence.worse == ()
    assert again.evidence.regression


def test_a_baseline_of_one_trial_asks_for_more_fresh_trials():
    rerun = Rerun()
    confirm(compared({"a": "p"}, {"a": "f"}), rerun)
    assert rerun.asked == [(["a"], 39)]


def test_nothing_is_run_again_where_the_baseline_is_too_short_to_decide():
    base = {**{f"s{number}": "p" for number in range(6)}, **{f"steady{number}": "p" for number in range(20)}}
    rerun = Rerun()
    found = confirm(compared(base, {**base, **dict.fromkeys(["s0", "s1", "s2"], "f")}), rerun)
    assert rerun.asked == []
    assert found.evidence.sentence.startswith(
        "Nothing was run again: the baseline is too short to decide (s0, s1, s2)."
    )
    assert not found.evidence.worse
    assert decide_gate(found, gate=Gate.AUTO).verdict == "UNDECIDED"
    objections = find_objections(found, gate=Gate.STATISTICAL)
    assert objections[0] == "s0: its baseline is 1 trial, too short to decide. Run the baseline with at least 3 trials"


def test_only_suspects_with_a_long_baseline_are_run_again():
    base = {"short": "p", "long": "p" * 8, "other": "p", "more": "p"}
    rerun = Rerun(long="f" * 60)
    found = confirm(compared(base, {"short": "f", "long": "f" * 8, "other": "f", "more": "f"}), rerun)
    assert [names for names, _ in rerun.asked] == [["long"]]
    answers = {one.key.name: one.answer for one in found.evidence.confirmation.suspects}
    assert answers == {"short": "not decided", "long": "confirmed", "other": "not decided", "more": "not decided"}


def test_a_suspect_that_is_neither_confirmed_nor_cleared_says_what_decides_it():
    found = confirm(a_suite("fffff"), Rerun(s0="ppppppff"))
    [suspect] = found.evidence.confirmation.suspects
    assert (suspect.answer, suspect.more_trials) == ("not decided", 26)
    assert suspect.largest_drop == pytest.approx(0.53, abs=0.02)
    [doubt] = decide_gate(found, gate=Gate.AUTO).doubts
    assert doubt == "s0 passed 6/8 now after 5/5, so a drop of 54 points is possible. Use --confirm-trials 26"


def test_a_suspect_that_no_number_of_fresh_trials_decides_needs_a_longer_baseline():
    found = confirm(a_suite("fffff"), Rerun(s0="ppppffff"))
    [suspect] = found.evidence.confirmation.suspects
    assert (suspect.answer, suspect.more_trials, suspect.baseline_needed) == ("not decided", None, 9)
    [doubt] = decide_gate(found, gate=Gate.AUTO).doubts
    assert doubt.endswith("Run the baseline with 9 trials, then use --confirm-trials 9")


def test_the_trials_that_decide_depend_on_the_baseline_and_on_all_that_fell():
    [doubt] = decide_gate(compared({"a": "ppf", "b": "ppp"}, {"a": "fff", "b": "ppp"}), gate=Gate.AUTO).doubts
    assert doubt.endswith("or run both versions with 6 trials each")


def test_fresh_trials_without_an_answer_count_as_failed_before_a_suspect_is_cleared():
    found = confirm(a_suite("fffff"), Rerun(s0="ppppjjjj"))
    assert found.evidence.confirmation.suspects[0].answer == "not decided"


def words(base: Mapping[str, str], candidate: Mapping[str, str]) -> dict[str, str | None]:
    return {one.key.name: one.word for one in compared(base, candidate).scenarios}


def test_each_scenario_gets_one_word_from_its_counts():
    base = {"broken": "p" * 6, "flaky": "ppppp", "fixed": "f" * 6, "same": "pf", "gone": "p"}
    now = {"broken": "f" * 6, "flaky": "ppppf", "fixed": "p" * 6, "same": "fp", "added": "p"}
    assert words(base, now) == {
        "broken": "worse",
        "flaky": "within noise",
        "fixed": "better",
        "same": "same",
        "added": None,
        "gone": None,
    }


def test_a_flip_with_too_few_trials_cannot_be_told():
    assert words({"a": "p", "b": "pp", "c": "ppp"}, {"a": "f", "b": "pf", "c": "pff"}) == {
        "a": "cannot tell",
        "b": "cannot tell",
        "c": "within noise",
    }
    assert words({"a": "f"}, {"a": "p"}) == {"a": "within noise"}


def test_what_cannot_be_told_is_undecided_and_says_how_many_trials_decide():
    decided = decide_gate(compared({"a": "p", "b": "p"}, {"a": "f", "b": "p"}), gate=Gate.AUTO)
    assert (decided.verdict, decided.regressions) == ("UNDECIDED", ())
    assert decided.doubts == (
        "cannot tell: a 1/1 → 0/1. Not enough trials: even a complete break would be within noise. "
        "Decide it with --confirm, or run both versions with 3 trials each",
    )


def test_scenarios_with_different_counts_are_listed_by_evidence_whatever_their_verdict():
    found = compared(
        {"hours": "ppppp", "books": "ppppf", "calm": "ppppp", "new": "fffff"},
        {"hours": "ppppf", "books": "ppfff", "calm": "ppppp", "new": "pffff"},
    )
    assert [one.key.name for one in found.differing()] == ["books", "hours", "new"]
    assert found.differing()[1].luck == "as likely luck as not"


def test_noise_passes_by_the_automatic_gate_and_worse_does_not():
    assert decide_gate(a_suite("ppppf"), gate=Gate.AUTO).verdict == "NO REGRESSION"
    decided = decide_gate(a_suite("fffff"), gate=Gate.AUTO)
    assert (decided.verdict, decided.regressions) == ("REGRESSION", ("worse: s0",))
    spread = decide_gate(a_suite(*["pppff"] * 12), gate=Gate.AUTO)
    assert spread.regressions == (
        "the suite as a whole got worse: if nothing had changed, a result this low would almost never come up",
    )


def test_an_automatic_pass_must_hold_if_excluded_trials_had_failed():
    few = compared({"a": "pppp", "b": "p"}, {"a": "pppp", "b": "j"})
    assert decide_gate(few, gate=Gate.AUTO).verdict == "UNDECIDED"
    spoiled = decide_gate(compared({"a": "pppp"}, {"a": "pjjj"}), gate=Gate.AUTO)
    assert spoiled.verdict == "UNDECIDED"
    assert "If they had failed" in spoiled.doubts[0]
    assert decide_gate(compared({"a": "p" * 8}, {"a": "p" * 7 + "j"}), gate=Gate.AUTO).verdict == "NO REGRESSION"


def with_values(side: RunSide, values: Mapping[str, float], name: str) -> RunSide:
    summaries = [replace(one, **{name: values[one.key.name] + one.index}) for one in side.summaries]
    outcome = decide_run([one.entry for one in side.outcome.scenarios], summaries)
    return replace(side, summaries=summaries, outcome=outcome)


@pytest.mark.parametrize(
    ("name", "limit", "text"),
    [
        ("median_latency_ms", {}, "average latency rose by 49.9 % (limit: 20 %), more than noise"),
        ("cost_usd", {"max_cost_increase_pct": 10.0}, "average cost rose by 49.9 % (limit: 10 %), more than noise"),
    ],
)
def test_latency_and_cost_object_beyond_limit_and_noise(name, limit, text):
    trials = {f"s{number}": "ppp" for number in range(6)}
    base = with_values(a_run("base", trials), dict.fromkeys(trials, 500.0), name)
    now = with_values(a_run("cand", trials), dict.fromkeys(trials, 750.0), name)
    found = compare_runs(base, now, limits=RegressionLimits(**limit))
    assert find_objections(found, gate=Gate.AUTO) == (text,)
    noisy = with_values(a_run("cand", trials), {key: 2500.0 if key == "s0" else 500.0 for key in trials}, name)
    noise = compare_runs(base, noisy, limits=RegressionLimits(**limit))
    assert find_objections(noise, gate=Gate.AUTO) == ()
    assert noise.regression_detected
    assert noise.notes[0].endswith("; noise explains it")


def test_the_score_objects_beyond_limit_and_noise():
    trials = {f"s{number}": "pp" for number in range(6)}
    base = with_values(a_run("base", trials), dict.fromkeys(trials, 90.0), "overall_score")
    now = with_values(a_run("cand", trials), dict.fromkeys(trials, 80.0), "overall_score")
    [objection] = find_objections(compare_runs(base, now), gate=Gate.AUTO)
    assert objection == "average overall score fell by 10 points (limit: 5), more than noise"
    few = {"s0": "pp"}
    sides = [
        with_values(a_run(name, few), {"s0": score}, "overall_score") for name, score in (("b", 90.0), ("c", 80.0))
    ]
    assert find_objections(compare_runs(*sides), gate=Gate.AUTO) == ()
    assert compare_runs(*sides).notes[0].endswith("; too few trials to tell it from noise")


def auto_run(name: str, trials: Mapping[str, str]) -> RunSide:
    settings = {"good": 0.9, "bad": 0.7, "alpha": 0.05, "beta": 0.05, "max_trials": 60, "rule": 2}
    side = a_run(name, trials)
    entries = [replace(one.entry, trials=60, sequential=settings) for one in side.outcome.scenarios]
    return replace(side, outcome=decide_run(entries, side.summaries))


def test_only_trials_that_always_run_are_tested_after_auto():
    base = a_run("base", {"a": "p" * 20, "b": "p" * 20})
    found = compare_runs(base, auto_run("cand", {"a": "p" * 10, "b": "fff"}))
    first, second = found.scenarios
    assert (first.candidate.answered, first.candidate.tested, first.candidate.tested_passed) == (10, 3, 3)
    assert second.p_worse == pytest.approx(1 / comb(23, 3))
    assert found.evidence.observed == 3
    assert any("stop by results, so only the first trials of a, b count" in line for line in found.evidence.details)


def test_an_unchanged_agent_is_rarely_worse_after_auto():
    rng = random.Random(1)
    rule = SequentialTest()
    alarms = 0
    for _ in range(60):
        base = {f"s{n}": "".join("p" if rng.random() < 0.7 else "f" for _ in range(20)) for n in range(10)}
        now = {}
        for name in base:
            letters = "".join("p" if rng.random() < 0.7 else "f" for _ in range(60))
            used = decide_sequentially([letter == "p" for letter in letters], rule).trials_used
            now[name] = letters[:used]
        found = compare_runs(a_run("base", base), auto_run("cand", now))
        alarms += decide_gate(found, gate=Gate.AUTO).verdict == "REGRESSION"
    assert alarms <= 9


def test_recordings_and_regrades_are_decided_by_the_limits():
    base, now = a_run("base", {"a": "pppp"}), a_run("cand", {"a": "ffff"})
    regrade = compare_runs(base, replace(now, run=replace(now.run, parent="base")))
    assert decide_gate(regrade, gate=Gate.AUTO).regressions == ("pass rate fell by 100 points (limit: 0)",)


def test_planning_starts_below_the_observed_rate():
    assert planning_rates([(6, 6), (6, 6)]) == pytest.approx([0.88, 0.88], abs=0.01)
    rates = planning_rates([(190, 200), (150, 200)])
    assert rates[1] < rates[0] < 0.95
    assert sum(rates) / 2 == pytest.approx(0.83, abs=0.005)


def test_fresh_trials_without_an_answer_do_not_clear_a_suspect():
    found = confirm(a_suite("fffff"), Rerun(s0="jjjjjjjj"))
    assert "s0: none of its fresh trials has an answer" in find_objections(found, gate=Gate.STATISTICAL)


def test_a_number_of_fresh_trials_may_be_given_but_not_none():
    rerun = Rerun(s0="fff")
    confirm(a_suite("fffff"), rerun, trials=3)
    assert rerun.asked == [(["s0"], 3)]
    with pytest.raises(UsageError, match="0 fresh trials are not at least 1"):
        confirm(a_suite("fffff"), rerun, trials=0)
