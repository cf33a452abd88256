"""What the statistical verdict says, and how fresh trials decide it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import comb

import pytest

from seatrial.comparison.aggregates import RunSide
from seatrial.comparison.compare import compare_runs
from seatrial.comparison.gate import Gate, find_objections
from seatrial.comparison.rerun_suspects import confirm, find_suspects, fresh_trials_needed
from seatrial.comparison.significance import scenarios_to_see, trials_to_see, visible_drop
from seatrial.errors import UsageError
from seatrial.model.comparison import Comparison
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, TrialSummary
from seatrial.statistics.power import fisher_power
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


def test_the_sentence_comes_first_with_what_got_worse_and_what_could_not_have_been_seen():
    sentence = a_suite("fffff", "ppppf").evidence.sentence
    assert sentence.startswith("2 of 20 scenarios got worse, 1 beyond noise (s0)")
    assert "With 5 trials each, a drop of the pass rate by less than " in sentence
    assert sentence.endswith(" points would mostly have gone unseen.")


def test_noise_is_called_noise():
    sentence = a_suite("ppppf").evidence.sentence
    assert sentence.startswith("1 of 20 scenarios got worse, none beyond noise. ")


def test_nothing_worse_is_said_in_so_many_words():
    assert a_suite().evidence.sentence.startswith("None of 20 scenarios got worse. ")


def test_a_drop_spread_over_the_suite_is_seen_although_no_scenario_stands_out():
    evidence = a_suite(*["pppff"] * 12).evidence
    assert evidence.worse == ()
    assert evidence.regression
    assert "the suite as a whole fell beyond noise (p < 0.0001)" in evidence.sentence


def test_different_numbers_of_trials_are_named():
    sentence = compared({"a": "pppp", "b": "pp"}, {"a": "pp", "b": "pp"}).evidence.sentence
    assert "With 2-4 against 2 trials" in sentence


def test_single_trials_could_hardly_have_shown_anything():
    evidence = compared({"a": "p"}, {"a": "f"}).evidence
    assert evidence.unseen_drop is None
    assert "hardly any drop of the pass rate could have been seen" in evidence.sentence
    assert any("1 scenario could break completely and not be singled out" in line for line in evidence.details)


def test_one_trial_is_counted_in_the_singular() -> None:
    assert compared({"a": "p"}, {"a": "p"}).evidence.details[0].startswith("suite: 1 trial passed, ")


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
    assert find_objections(found, gate=Gate.STATISTICAL) == ("worse beyond noise: s0",)


def test_a_suspect_that_passes_again_is_cleared():
    found = confirm(a_suite("fffff"), Rerun(s0="pppppppp"))
    assert found.evidence.sentence.startswith("1 suspect got 8 fresh trials each: 1 cleared.")
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
    found = compared({"a": "p"}, {"a": "f"})
    assert fresh_trials_needed(found, find_suspects(found)) == 39


def test_a_suspect_that_nothing_could_confirm_stays_open_and_does_not_pass():
    base = {f"s{number}": "p" for number in range(6)}
    found = confirm(compared(base, dict.fromkeys(base, "f")), Rerun(**dict.fromkeys(base, "f" * 60)))
    assert not found.evidence.worse
    objections = find_objections(found, gate=Gate.STATISTICAL)
    assert any("too few to decide; run the baseline more often" in objection for objection in objections)


def test_fresh_trials_without_an_answer_do_not_clear_a_suspect():
    found = confirm(a_suite("fffff"), Rerun(s0="jjjjjjjj"))
    assert "s0: none of its fresh trials has an answer" in find_objections(found, gate=Gate.STATISTICAL)


def test_a_number_of_fresh_trials_may_be_given_but_not_none():
    rerun = Rerun(s0="fff")
    confirm(a_suite("fffff"), rerun, trials=3)
    assert rerun.asked == [(["s0"], 3)]
    with pytest.raises(UsageError, match="0 fresh trials are not at least 1"):
        confirm(a_suite("fffff"), rerun, trials=0)
