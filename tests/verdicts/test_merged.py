from datetime import UTC, datetime

import pytest

from seatrial.model.results import ModelUse, Severity, UniqueError
from seatrial.model.run import Gates, MergedErrors, RunOutcome, ScenarioEntry, ScenarioKey, Status, TrialSummary
from seatrial.verdicts.run import decide_run

KEY = ScenarioKey("s", "a")
ENTRY = ScenarioEntry(key=KEY, position=0, fingerprint="f", trials=2, gates=Gates(fail_on_error_severity=Severity.HIGH))


def a_trial(index: int, *failures: tuple[str, str]) -> TrialSummary:
    found = tuple((severity, label, "", 0) for severity, label in failures)
    return TrialSummary(
        key=KEY, index=index, status=Status.PASSED, failures=found, started_at=datetime(2025, 5, 1, tzinfo=UTC)
    )


TRIALS = (a_trial(0, ("high", "one")), a_trial(1, ("low", "uno")))


def error(severity: Severity, *trials: int) -> UniqueError:
    return UniqueError(severity=severity, label="One", explanation="e", examples=tuple((index, 0) for index in trials))


def decided(*errors: UniqueError, note: str | None = None) -> RunOutcome:
    merged = MergedErrors(key=KEY, errors=errors, use=ModelUse(calls=1, cost_usd=0.1), note=note)
    return decide_run([ENTRY], TRIALS, merged=[merged])


def test_a_merge_that_fits_is_shown_instead_of_the_labels() -> None:
    outcome = decided(error(Severity.HIGH, 0, 1), note="merged in part")
    (scenario,) = outcome.scenarios
    assert [each.label for each in scenario.unique_errors] == ["One"]
    assert scenario.verdict.failure_reasons == ("1 error at or above high",)
    assert scenario.notes == ("merged in part",)
    assert (outcome.totals.model_calls, outcome.totals.model_cost_usd) == (1, 0.1)


@pytest.mark.parametrize(
    "errors",
    [
        (),
        (error(Severity.HIGH, 0),),
        (error(Severity.HIGH, 0, 1, 2),),
        (error(Severity.HIGH, 0, 1, 1),),
        (error(Severity.MEDIUM, 0, 1),),
    ],
    ids=["empty", "one is missing", "of a trial that is not there", "one twice", "made harmless"],
)
def test_a_merge_that_does_not_fit_the_trials_is_ignored(errors: tuple[UniqueError, ...]) -> None:
    (scenario,) = decided(*errors).scenarios
    assert [each.label for each in scenario.unique_errors] == ["one", "uno"]
    assert scenario.verdict.status is Status.FAILED
